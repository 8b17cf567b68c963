package harness

import (
	"os/exec"
	"testing"

	"remit/proof/reason"
)

// TestStillApplies: whether a change can be taken is asked of the repository as
// it is now.
func TestStillApplies(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "one\ntwo\nthree\nfour\nfive\nsix\nseven\n", "gone.txt": "x\n"})
	req := fixing(t, repo, realSandbox(t), "sed -i s/one/ONE/ a.txt; rm gone.txt; echo new >n.txt")
	req.Contract.AllowOps = append(req.Contract.AllowOps, "delete")
	out, err := Run(t.Context(), req)
	if err != nil || out.Report.Status != "pass" {
		t.Fatalf("%v, %+v", err, out)
	}
	commit := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script+"; git add -A; git -c user.name=t -c user.email=t@example.com commit -qm x --allow-empty")
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, test := range []struct {
		name, script string
		code         reason.Code
	}{
		{"nothing changed", "true", ""},
		{"another commit, the same tree", "true", ""},
		{"another line of the same file", "sed -i s/seven/SEVEN/ a.txt", ""},
		{"the same line", "sed -i s/one/uno/ a.txt", reason.PatchOutdated},
		{"the change itself", "git checkout -q HEAD~3 -- .; sed -i s/one/ONE/ a.txt; rm -f gone.txt; echo new >n.txt", ""},
		{"the change itself, and more elsewhere", "echo y >y.txt", ""},
		{"the change itself, and more in its files", "echo more >>n.txt", reason.PatchOutdated},
	} {
		commit(test.script)
		if err := req.Home.StillApplies(t.Context(), out.Session); reason.CodeOf(err) != test.code || (err == nil) != (test.code == "") {
			t.Errorf("%s: %v, want %q", test.name, err, test.code)
		}
	}
}
