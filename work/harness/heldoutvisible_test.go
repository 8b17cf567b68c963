package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
)

// TestHeldOutInTheBase: what the agent could read in its copy is not held out,
// whatever its name is there, and nothing is started.
func TestHeldOutInTheBase(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "example.txt": "held\n", "blank": "\n"})
	if err := os.WriteFile(filepath.Join(repo, "untracked.txt"), []byte("not committed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		held, status string
		code         reason.Code
	}{
		"the same content":         {"held\n", "blocked", reason.HeldOutVisible},
		"content of its own":       {"held as well\n", "pass", ""},
		"a file without a text":    {"\n", "pass", ""},
		"beside what is committed": {"not committed\n", "pass", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRun(t, repo, nil, nil)
			hangs(t, &req, "echo good >a.txt", false, 0, 60)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "hidden.txt"), []byte(tc.held), 0o600); err != nil {
				t.Fatal(err)
			}
			req.Contract.Dir = dir
			req.Contract.HeldOutTests = []task.HeldOutTest{{Path: "tests/hidden.txt", Source: "hidden.txt", SHA256: canon.Digest([]byte(tc.held))}}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if out.Report.Status != tc.status {
				t.Fatalf("%s: %+v", out.Report.Status, out.Report.Blockers)
			}
			if tc.code != "" && (out.Report.Blockers[0].Code != tc.code || !strings.Contains(out.Report.Blockers[0].Message, "example.txt") || out.Report.EngineProcessStarted) {
				t.Errorf("%+v", out.Report.Blockers)
			}
		})
	}
}
