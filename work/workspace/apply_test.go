package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/proof/reason"
	"remit/work/git"
	"remit/work/tree"
)

func newFile(path string) string {
	return "diff --git a/" + path + " b/" + path + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+x\n"
}

func TestApplyRefusesHostilePatches(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	base := st.Baseline().Tree
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("secret\n"), 0o644)
	tests := map[string]struct {
		patch string
		code  reason.Code
	}{
		"garbage":              {"not a patch\n", reason.PatchInvalid},
		"binary garbage":       {"\x00\xff\x00", reason.PatchInvalid},
		"up":                   {newFile("../x"), reason.PatchInvalid},
		"up inside":            {newFile("a/../../x"), reason.PatchInvalid},
		"absolute":             {strings.ReplaceAll(newFile("x"), "b/x", "b//etc/x"), reason.PatchInvalid},
		"git dir":              {newFile(".git/hooks/post-checkout"), reason.ProtectedPath},
		"nested git dir":       {newFile("a/.git/config"), reason.ProtectedPath},
		"git dir in disguise":  {newFile(".GIT/config"), reason.PatchInvalid},
		"git dir short":        {newFile("git~1/config"), reason.PatchInvalid},
		"through a link":       {newFile("link/x"), reason.PatchInvalid},
		"through a new link":   {strings.ReplaceAll(strings.Replace(newFile("l"), "100644", "120000", 1), "+x\n", "+/etc\n\\ No newline at end of file\n") + newFile("l/x"), reason.PatchInvalid},
		"below a file":         {newFile("README.md/x"), reason.PatchInvalid},
		"over a file":          {newFile("README.md"), reason.PatchInvalid},
		"over a directory":     {newFile("src"), reason.PatchInvalid},
		"rename":               {"diff --git a/README.md b/x\nsimilarity index 100%\nrename from README.md\nrename to x\n", reason.PatchInvalid},
		"copy":                 {"diff --git a/README.md b/x\nsimilarity index 100%\ncopy from README.md\ncopy to x\n", reason.PatchInvalid},
		"other context":        {"--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-not hello\n+x\n", reason.PatchInvalid},
		"no such file":         {"--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-hello\n+x\n", reason.PatchInvalid},
		"cut":                  {"--- a/README.md\n+++ b/README.md\n@@ -1,9 +1,9 @@\n-hello\n", reason.PatchInvalid},
		"huge counts":          {"--- a/README.md\n+++ b/README.md\n@@ -1,99999999999999999999 +1 @@\n-hello\n", reason.PatchInvalid},
		"mode of a device":     {strings.Replace(newFile("x"), "100644", "060000", 1), reason.PatchInvalid},
		"mode setuid":          {strings.Replace(newFile("x"), "100644", "104755", 1), reason.PatchInvalid},
		"second part is wrong": {newFile("fine") + newFile("../x"), reason.PatchInvalid},
		"literal of no size":   {"diff --git a/x b/x\nnew file mode 100644\nindex " + strings.Repeat("0", 40) + ".." + strings.Repeat("1", 40) + "\nGIT binary patch\nliteral 999999999999\nzcmZ\n\n", reason.PatchInvalid},
	}
	src := r.open()
	untouched(t, src, func() {
		for name, test := range tests {
			got, err := st.Apply(t.Context(), base, strings.NewReader(test.patch))
			if name == "mode of a device" || name == "mode setuid" { // git may settle for a plain mode
				if err == nil {
					if l := listing(t, st, got); !strings.Contains(l, "f x x\n|") && !strings.Contains(l, "x x x\n|") {
						t.Errorf("%s: %q", name, l)
					}
					continue
				}
			}
			if reason.CodeOf(err) != test.code {
				t.Errorf("%s: tree %q, error %v", name, got, err)
			}
			if err != nil && strings.Contains(err.Error(), "not hello") {
				t.Errorf("%s: the error quotes the patch: %v", name, err)
			}
		}
	})
	if left, _ := filepath.Glob(filepath.Join(st.git.Path, "scratch-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestApplyTakesForeignPatches(t *testing.T) {
	t.Parallel()
	r, st := seeded(t)
	base := st.Baseline().Tree
	if got, err := st.Apply(t.Context(), base, strings.NewReader("")); err != nil || got != base {
		t.Error(got, err)
	}
	r.write("README.md", "hello\nmore\n")
	os.Remove(r.path("link"))
	r.write("link/x", "y")
	r.git("add", "-A")
	for _, args := range [][]string{{"diff", "--cached", "--no-renames", "--binary"}, {"diff", "--cached", "--no-renames", "--binary", "--no-prefix", "--src-prefix=x/", "--dst-prefix=y/"}} {
		got, err := st.Apply(t.Context(), base, strings.NewReader(r.git(args...)+"\n"))
		if err != nil || got != r.git("write-tree") {
			t.Error(got, err)
		}
	}
}

// TestApplyNamesTheLineEnds: a patch that came with CRLF says so, one with another context does not.
func TestApplyNamesTheLineEnds(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	const stale = "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-not hello\n+x\n"
	for patch, crlf := range map[string]bool{
		strings.ReplaceAll(strings.Replace(stale, "not ", "", 1), "\n", "\r\n"): true,
		stale: false,
		strings.Replace(stale, "hello", "hello\r", 1): false, // of a file with CRLF
	} {
		_, err := st.Apply(t.Context(), st.Baseline().Tree, strings.NewReader(patch))
		coded, ok := errors.AsType[*reason.Error](err)
		if !ok || coded.Code != reason.PatchInvalid || strings.Contains(coded.Hint, "CRLF") != crlf {
			t.Errorf("%q: %v, its hint: %+v", patch, err, coded)
		}
	}
}

// What git would take below the root, and what is no patch, is refused with its line.
func TestApplyNamesTheLine(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	base := st.Baseline().Tree
	fine := newFile("fine")
	for _, c := range []struct {
		name, patch string
		line        int
		says        string
	}{
		{"absolute, traditional", "--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+x\n", 2, `"/etc/x" is absolute`},
		{"absolute, before", fine + "--- /README.md\n+++ b/README.md\n@@ -1 +1 @@\n-hello\n+x\n", 8, `"/README.md" is absolute`},
		{"absolute, of git", "diff --git /etc/x /etc/x\nnew file mode 100644\nindex 0000000..e69de29\n", 1, "is absolute"},
		{"absolute on one side", "diff --git a/etc/x /etc/x\nnew file mode 100644\nindex 0000000..e69de29\n", 1, "is absolute"},
		{"absolute, quoted", "--- /dev/null\n+++ \"/\\303\\244\"\n@@ -0,0 +1 @@\n+x\n", 2, `"/ä" is absolute`},
		{"absolute, with a time", "--- /dev/null\t1970\n+++ /x\t2020-01-01\n@@ -0,0 +1 @@\n+x\n", 2, `"/x" is absolute`},
		{"climbs by the first component", "--- /dev/null\n+++ ../x\n@@ -0,0 +1 @@\n+x\n", 2, "leads out"},
		{"climbs, of git", "diff --git a/x ../x\nnew file mode 100644\nindex 0000000..e69de29\n", 1, "leads out"},
		{"climbs, quoted", "diff --git \"a/../\\303\\244\" \"b/../\\303\\244\"\nnew file mode 100644\n", 1, "leads out"},
		{"rename", fine + "diff --git a/README.md b/x\nsimilarity index 100%\nrename from README.md\nrename to x\n", 9, "renames"},
		{"words", "\nhello\n", 2, "no line begins a change"},
		{"page", "<!DOCTYPE html>\n<html>\n", 1, "web page"},
		{"binary", "\x7fELF\x00\xff", 1, "binary"},
		{"mail", "From 0 Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\n\nrename nothing\n---\n", 1, "mail"},
		{"cut", "--- a/README.md\n+++ b/README.md\n@@ -1,9 +1,9 @@\n-hello\n", 5, "corrupt patch"},
		{"no header", fine + "from here on\n@@ -1 +1 @@\n-secret\n+x\n", 8, "patch fragment without header"},
		{"other content", "--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-secret\n+x\n", 0, "README.md: line 1"},
		{"not there", "--- a/nope\n+++ b/nope\n@@ -1 +1 @@\n-secret\n+x\n", 0, "nope: does not exist in the base"},
		{"there", newFile("README.md"), 0, "README.md: already exists in the base"},
	} {
		_, err := st.Apply(t.Context(), base, strings.NewReader(c.patch))
		coded, ok := errors.AsType[*reason.Error](err)
		if !ok || coded.Code != reason.PatchInvalid || coded.Line != c.line || !strings.Contains(coded.Message, c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for name, patch := range map[string]string{
		"blank":                           " \n\n",
		"a hunk that looks like a header": "--- a/README.md\n+++ b/README.md\n@@ -1 +1,3 @@\n hello\n+++ /etc/x\n+@@ -1 +1 @@\n",
		"prose":                           "From 0 Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\n\ncopy nothing\n--- /etc/x\nrename nothing\n---\n\n" + fine + "-- \n2.4\n\nrename nothing\n",
		"a name with blanks and dots":     newFile("a dir /..x/.. y/z"),
		"a name that is quoted":           strings.ReplaceAll(strings.ReplaceAll(newFile("Q"), "a/Q", `"a/\303\244"`), "b/Q", `"b/\303\244"`),
	} {
		if _, err := st.Apply(t.Context(), base, strings.NewReader(patch)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Restoring content that the source already has must not touch the source's object files.
func TestNothingOfTheSourceIsTouchedWhenItsObjectsComeBack(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		r := newRepo(t)
		r.write("d/a", "one\n")
		r.commit()
		r.write("d/a", "two\n")
		r.write("d/b", "b\n")
		r.commit()
		if packed {
			r.git("gc", "-q")
		}
		st := r.store()
		src := r.open()
		base := st.Baseline().Tree
		var head string
		untouched(t, src, func() {
			head = mustImport(t, st, base, file("d/a", "one\n"), remove("d/b"))
			roundTrip(t, st, base, head)
			roundTrip(t, st, head, base)
			if _, err := st.CommitTree(t.Context(), base, "", "c\n", someTime); err != nil {
				t.Error(err)
			}
		})
		if head != r.git("rev-parse", "HEAD~:") {
			t.Error("not the old tree")
		}
	}
}

func TestSubmodulesSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	r := withSubmodule(t)
	st := r.store()
	base := st.Baseline().Tree
	im, err := st.Import(t.Context(), base, []tree.Change{file("mod/x", "x"), remove("mod/y"), file("z", "z")})
	if err != nil || refusedCodes(im.Refused) != "submodule_refused mod/x" {
		t.Fatal(im, err)
	}
	roundTrip(t, st, base, im.Tree)
	head := mustImport(t, st, base, remove("mod"))
	changes, err := st.Diff(t.Context(), base, head, nil)
	if err != nil || len(changes) != 1 || changes[0].Op != OpSubmodule {
		t.Error(changes, err)
	}
	roundTrip(t, st, base, head)
}

// names are parts of paths, chosen to collide, to need quoting, and to look like syntax.
var names = []string{
	"a", "b", "a.b", "a b", "a\tb", "new\nline", `q"uote`, `back\slash`, "\xff\xfe", "é", "-rf", ":(top)", "a ", " a", "dev", "null", "#", "*", "a/b",
	"a/b/c", "b/a", "d/e/f", "d/e", "d", ".gitignore2", "x => y", "{a => b}", "b/", "\x01\x7f", "a\r", "@@", "---", "+++ b", "GIT binary patch",
}

var contents = []string{
	"", "x", "x\n", "a\nb\nc\n", "a\r\nb\r\n", "a\nb", "\n", "\r", "\x00\x01\x02", "--- a/x\n+++ b/x\n", "diff --git a/x b/x\n", "\\ No newline at end of file\n",
	" \t \n", "\xff\xfe\n", strings.Repeat("long line ", 500), strings.Repeat("l\n", 300), "rename from a\ncopy from b\n", "-- \n2.39\n",
}

// editsOf is the difference of two trees, deletions first.
func editsOf(t interface{ Fatal(...any) }, st *Store, base, head string) (edits []git.Edit) {
	was, err := st.List(context.Background(), base)
	is, err2 := st.List(context.Background(), head)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for _, e := range was {
		if !slices.Contains(is, e) {
			edits = append(edits, git.Edit{Path: e.Path, Delete: true})
		}
	}
	for _, e := range is {
		if !slices.Contains(was, e) {
			edits = append(edits, git.Edit{Path: e.Path, Mode: fmt.Sprintf("%o", e.Mode), ID: e.ID})
		}
	}
	return edits
}

func TestDiffAndApplyAreInverse(t *testing.T) {
	t.Parallel()
	_, st := seeded(t)
	rapid.Check(t, func(rt *rapid.T) {
		genTree := func(label string) string {
			var changes []tree.Change
			for i := range rapid.IntRange(0, 6).Draw(rt, label+" size") {
				name := strings.Trim(rapid.SampledFrom(names).Draw(rt, label+" name"), "/")
				content := rapid.SampledFrom(contents).Draw(rt, fmt.Sprint(label, i))
				switch rapid.IntRange(0, 5).Draw(rt, label+" kind") {
				case 0:
					changes = append(changes, executable(name, content))
				case 1:
					if target := strings.ReplaceAll(content, "\x00", ""); target != "" && len(target) < maxTarget {
						changes = append(changes, symlink(name, target))
					}
				case 2:
					changes = append(changes, remove(name))
				default:
					changes = append(changes, file(name, content))
				}
			}
			im, err := st.Import(t.Context(), st.git.Format.EmptyTree(), changes)
			if err != nil || len(im.Refused) > 0 {
				rt.Fatal(im, err)
			}
			return im.Tree
		}
		base, head := genTree("base"), genTree("head")
		var patch bytes.Buffer
		if _, err := st.Diff(t.Context(), base, head, &patch); err != nil {
			rt.Fatal(err)
		}
		got, err := st.Apply(t.Context(), base, bytes.NewReader(patch.Bytes()))
		if err != nil || got != head {
			rt.Fatalf("got %s, want %s: %v\n%q", got, head, err, patch.String())
		}
		if grafted, err := st.graft(t.Context(), base, editsOf(rt, st, base, head)); err != nil || grafted != head {
			rt.Fatalf("grafted %s, want %s: %v", grafted, head, err)
		}
		stranger := &Store{git: st.git, base: st.base, most: st.most, objects: objects{dir: st.git}, trees: map[string][]treeEntry{}, made: map[string]bool{}}
		defer stranger.Close()
		if got, err := stranger.Apply(t.Context(), base, bytes.NewReader(patch.Bytes())); err != nil || got != head {
			rt.Fatalf("a store that has not made the tree: got %s, want %s: %v", got, head, err)
		}
		changes, err := st.Changes(t.Context(), base, head)
		if err != nil {
			rt.Fatal(err)
		}
		im, err := st.Import(t.Context(), base, changes)
		if err != nil || im.Tree != head {
			rt.Fatalf("changes give %v, want %s: %v", im, head, err)
		}
	})
}
