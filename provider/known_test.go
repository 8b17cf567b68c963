package provider

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/law/job"
	"remit/work/workspace"
)

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestKnownTreesAreNoOthers runs the same job again and again while its
// repository changes: it never sees an old tree, or that of another repository.
func TestKnownTreesAreNoOthers(t *testing.T) {
	t.Parallel()
	repo, twin := repository(t), repository(t)
	d := daemon(t, "http://127.0.0.1:1", func(c *Config) { c.Sources = []string{filepath.Dir(repo), filepath.Dir(twin)} })
	known := func(dir, revision string) bool {
		t.Helper()
		source, err := workspace.OpenSource(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		found := d.known.find(t.Context(), d.cache, source, revision)
		if found != nil {
			found.close()
		}
		return found != nil
	}
	says := func(dir, ref, want string) {
		t.Helper()
		resp, _ := d.runForTest(t.Context(), t, request(t, dir, func(r *job.SandboxRunRequest) {
			if ref != "" {
				r.Repo.GitRef = &ref
			}
		}))
		if len(resp.Runs) != 1 || resp.Runs[0].StdoutPreview == nil || *resp.Runs[0].StdoutPreview != want {
			t.Fatalf("%+v, want %q", resp.Runs, want)
		}
	}
	if known(repo, "HEAD") {
		t.Error("known before it was laid out")
	}
	says(repo, "", "hello\n")
	first := gitIn(t, repo, "rev-parse", "HEAD")
	if !known(repo, "HEAD") || !known(repo, first) || known(twin, "HEAD") {
		t.Error("what is known is not what was laid out")
	}
	for range 2 {
		says(repo, "", "hello\n")
		says(repo, first, "hello\n")
	}
	if err := os.WriteFile(filepath.Join(repo, "a.txt"), []byte("changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitIn(t, repo, "commit", "-qam", "two")
	if known(repo, "HEAD") || known(repo, first) {
		t.Error("known though no ref points at it")
	}
	says(repo, "", "changed\n")
	says(repo, "HEAD~1", "hello\n")
	says(repo, first, "hello\n")
	says(twin, "", "hello\n")
}
