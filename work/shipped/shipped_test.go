//test:plain-package It only computes and writes files: there is one goroutine.

package shipped

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remit/law/task"
)

var update = flag.Bool("update", false, "write cases.json anew")

// TestCasesAreTheFixtures keeps what is embedded equal to fixtures/, and the
// tree of each case to what git makes of its files.
func TestCasesAreTheFixtures(t *testing.T) {
	t.Parallel()
	want := append(read(t), greeting)
	slices.SortFunc(want, func(a, b Case) int { return strings.Compare(a.Name, b.Name) })
	for i := range want {
		tree, err := want[i].Write(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want[i].Tree = tree
	}
	if *update {
		text, err := json.MarshalIndent(want, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("cases.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !reflect.DeepEqual(want, Cases()) {
		t.Error("cases.json is not what fixtures/ has; run go test ./work/shipped -update")
	}
	if len(want) != 7 {
		t.Errorf("%d cases", len(want))
	}
	for _, c := range want {
		if name, ok := IsFixture(c.Tree); !ok || name != c.Name {
			t.Errorf("%s is not found by its tree", c.Name)
		}
		if found, ok := Named(c.Name); !ok || found.Tree != c.Tree {
			t.Errorf("%s is not found by its name", c.Name)
		}
		file, err := c.WriteTask(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		contract, err := task.Load(file)
		if err != nil || len(contract.VerificationCommands) == 0 || len(contract.AllowedPaths) == 0 {
			t.Errorf("%s: its task: %v", c.Name, err)
		}
	}
	if _, ok := IsFixture(strings.Repeat("0", 40)); ok {
		t.Error("any tree is a fixture")
	}
}

// read are the cases of fixtures/.
func read(t *testing.T) (all []Case) {
	t.Helper()
	tasks, err := filepath.Glob("../../fixtures/r1-*/*/task.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		dir := filepath.Dir(file)
		c := Case{Name: filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir), Files: filesOf(t, filepath.Join(dir, "repo")), Beside: map[string]string{}}
		for name, text := range filesOf(t, dir) {
			switch {
			case name == "task.yaml":
				c.Task = text
			case name == "fix.patch":
				c.Patch = text
			case strings.HasPrefix(name, "held-out/"):
				c.Beside[name] = text
			}
		}
		all = append(all, c)
	}
	return all
}

func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o111 != 0 || !info.Mode().IsRegular() {
			t.Errorf("%s is executable or no file", path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// greeting is the case of the failure matrix: a misspelt word, and a check that
// wants it right. The check also runs a hook of the changed tree, if there is one.
var greeting = Case{
	Name: Greeting,
	Task: `task_id: greeting
title: Correct the greeting
instructions: Write hello in lib/greeting.txt.
allowed_paths: ["lib/**"]
forbidden_actions: [push, merge, deploy, close, pr_open, issue_close, public_publication, credential_change, vendor_source_mutation, authority_mutation]
mutation_mode: copied-fixture
verification_commands: ["sh check.sh"]
`,
	Files: map[string]string{
		"lib/greeting.txt": "helo\n",
		"outside.txt":      "not yours\n",
		"check.sh": `read -r word < lib/greeting.txt
if [ "$word" != hello ]; then
	echo "want hello, got $word"
	exit 1
fi
if [ -f lib/hook.sh ]; then
	. ./lib/hook.sh
fi
`,
	},
	Beside: map[string]string{},
	Patch: `diff --git a/lib/greeting.txt b/lib/greeting.txt
--- a/lib/greeting.txt
+++ b/lib/greeting.txt
@@ -1 +1 @@
-helo
+hello
`,
}
