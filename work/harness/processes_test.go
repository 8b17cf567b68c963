package harness

import (
	"testing"

	"remit/proof/evidence"
	"remit/work/engine/command"
	"remit/work/git"
)

// gitProcesses is what a small run starts of git, in the order of the run:
// config of the source; cat-file for the baseline, for the look at the work
// tree, and for the session's store; fast-import and index-pack for the change;
// diff-tree for the patch; apply to list its paths, and to apply it.
const gitProcesses = 9

// TestGitProcessesOfARun holds a whole run to that number: each process costs
// milliseconds, too short to list them.
func TestGitProcessesOfARun(t *testing.T) { //nolint:paralleltest // the counter is that of the whole process
	req := newRun(t, newRepo(t, map[string]string{"a.txt": "a\n", "d.txt": "d\n"}), nil, nil)
	req.Sandbox = realSandbox(t)
	req.Engine = &command.Engine{Argv: []string{"sh", "-c", "echo b >a.txt; mkdir n; echo n >n/n; rm d.txt"}, Dir: "/"}
	// The first run also reads the baseline for the cache; the second has its
	// tree there, and knows the configuration, which did not change.
	for _, want := range []int64{gitProcesses + 1, gitProcesses - 1} {
		before := git.Started()
		out, err := Run(t.Context(), req)
		if err != nil || out.Report.Status != evidence.StatusPass {
			t.Fatalf("%+v, %v", out, err)
		}
		if n := git.Started() - before; n != want {
			t.Errorf("%d git processes, want %d: if that is meant, say in the constant what each is for", n, want)
		}
	}
}
