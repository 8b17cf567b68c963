//go:build linux

package workos

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/work/engine/agent"
)

// TestLauncher: the lines of all event files come out whole and once, also what
// a dying program left of one; the program's own output does not; and only an
// exit code that says something is passed on.
func TestLauncher(t *testing.T) {
	t.Parallel()
	const write = `mkdir -p "$e"; printf '{"n":1}\n{"n":2}\n{"n"' >"$e/run-b.jsonl"; `
	for name, test := range map[string]struct {
		program, want string
		code          int
	}{
		"in one go":       {`printf '{"n":1}\n' >"$e/run-a.jsonl"`, `{"n":1}`, 0},
		"while it runs":   {`for n in 1 2 3; do printf '{"n":%d}\n' $n >>"$e/run-a.jsonl"; sleep 0.25; done; exit 1`, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}", 0},
		"two files, torn": {write + `sleep 0.3; printf ':3}\n{"to' >>"$e/run-b.jsonl"; printf '{"n":4}\n' >"$e/run-c.jsonl"; kill -9 $$`, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n{\"to", 137},
		"no file":         {"exit 1", "", 0},
		"no regular file": {`mkfifo "$e/run-a.jsonl"; mkdir "$e/run-b.jsonl"; echo x >"$e/other.jsonl"`, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo, userHome := t.TempDir(), t.TempDir()
			ca := filepath.Join(t.TempDir(), "program")
			script := "#!/bin/sh\necho for people\nread line && exit 9\n[ \"$PWD\" = \"$HOME/case/nowhere\" ] || exit 8\ne=" + repo + "/.case/remit/events\nmkdir -p \"$e\"\n" + test.program + "\n"
			if err := errors.Join(os.WriteFile(ca, []byte(script), 0o755), os.WriteFile(filepath.Join(repo, "a"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			var files []agent.Setting
			for _, name := range []string{"config.json", "projects.json", "models.json", "task.json", "task.md"} {
				files = append(files, agent.Setting{Name: name, Text: name + " of @workspace@ @created@"})
			}
			words := agent.Launch{Home: home, Settings: files, Argv: []string{"/bin/sh", "-c", launcher, "remit-case", ca, taskID}}.Words()
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Dir, cmd.Env = repo, []string{"HOME=" + userHome, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			code := 0
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				code = exit.ExitCode()
			}
			lines, ended, _ := strings.Cut(string(out), `{"event":"remit_ended"`)
			if code != test.code || strings.TrimSpace(lines) != test.want || ended == "" || !strings.Contains(stderr.String(), "for people") {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out, stderr.String())
			}
			for file, want := range map[string]string{
				filepath.Join(repo, ".case/tasks/active/remit.md"):  "task.md of @workspace@ @created@",
				filepath.Join(userHome, home, "data/projects.json"): "projects.json of " + repo + " @created@",
				filepath.Join(repo, ".case/active"):                 "remit",
			} {
				if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s: %q %v", file, got, err)
				}
			}
		})
	}
}
