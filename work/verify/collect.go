package verify

import (
	"os"
	"path/filepath"
	"slices"

	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// Some runners name their tests only in a file that they are asked for. They are
// asked by the environment, below whatever command starts them, and a shell around
// the command prints their files when it has ended (package results, Collecting).

// hooksPath is where the hooks of runners are in the sandbox.
const hooksPath = "/tmp/remit-hooks"

// layHooks writes the hooks below a directory of a run, and returns where they are;
// "" when no command of the run needs them.
func layHooks(dir string, commands []command) (string, error) {
	if !slices.ContainsFunc(commands, func(c command) bool { return c.mark != "" }) {
		return "", nil
	}
	at := filepath.Join(dir, "hooks")
	if err := os.Mkdir(at, 0o755); err != nil { // the user of the sandbox reads it
		return "", reason.Errorf(reason.ArtifactWriteFailure, "lending the hooks of runners: %w", err)
	}
	for name, text := range results.Hooks() {
		file := filepath.Join(at, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755) // the same
		if err == nil {
			err = os.WriteFile(file, text, 0o644) // the same
		}
		if err != nil {
			return "", reason.Errorf(reason.ArtifactWriteFailure, "lending the hooks of runners: %w", err)
		}
	}
	return at, nil
}

// collecting has the commands of a view print the result files of their runners. Where
// tests have to fail, ends has a runner end that has reported all of them.
func collecting(s *sandbox.Spec, commands []command, hooks string, ends bool) {
	if hooks == "" {
		return
	}
	if ends {
		s.Env["REMIT_END"] = "1"
	}
	s.Binds = append(slices.Clone(s.Binds), sandbox.Bind{Host: hooks, Inside: hooksPath})
	s.Commands = slices.Clone(s.Commands)
	for i, c := range commands {
		if c.mark != "" {
			s.Commands[i].Argv = append([]string{"sh", "-c", results.Collecting, "sh", c.mark, hooksPath}, s.Commands[i].Argv...)
		}
	}
}
