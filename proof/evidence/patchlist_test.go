//go:build !race

package evidence

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestListPatch: text that looks like a header is text, and what is not a
// patch is an error.
func TestListPatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, patch string
		want        map[string]patchedFile
	}{
		{"empty", "", map[string]patchedFile{}},
		{"a mode", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", map[string]patchedFile{"x": {sections: 1}}},
		{"a blank and b/", "diff --git a/x b/y b/x b/y\nnew file mode 100644\n", map[string]patchedFile{"x b/y": {sections: 1}}},
		{"quoted", "diff --git \"a/n\\nl\\377\" \"b/n\\nl\\377\"\ndeleted file mode 100644\n", map[string]patchedFile{`"n\nl\377"`: {sections: 1}}},
		{"headers inside a hunk", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ f\n+diff --git a/y b/y\n--- a/z\n+@@ -1 +1 @@\n \n\\ No newline at end of file\n",
			map[string]patchedFile{"x": {sections: 1, added: 2, removed: 1}}},
		{"a context line without its blank", "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n\n-a\n+b\n", map[string]patchedFile{"x": {sections: 1, added: 1, removed: 1}}},
		{"binary", "diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZQz\n\nliteral 0\nHcmV?d00001\n\n", map[string]patchedFile{"x": {sections: 1, binary: true}}},
		{"a file becomes a link", "diff --git a/x b/x\ndeleted file mode 100644\n@@ -1 +0,0 @@\n-a\ndiff --git a/x b/x\nnew file mode 120000\n@@ -0,0 +1 @@\n+y\n\\ No newline at end of file\n",
			map[string]patchedFile{"x": {sections: 2, added: 1, removed: 1}}},
		{"a long line", "diff --git a/x b/x\n@@ -0,0 +1,2 @@\n+" + strings.Repeat("y", 3*maxPatchLine) + "\n+z\n", map[string]patchedFile{"x": {sections: 1, added: 2}}},
		{"text before the first header", "hello\n", nil},
		{"two paths", "diff --git a/x b/y\n", nil},
		{"a rename", "diff --git a/x b/x\nrename from x\n", nil},
		{"a hunk that ends early", "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n a\n", nil},
		{"a header in the place of a line", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\ndiff --git a/y b/y\n", nil},
		{"more lines than the hunk says", "diff --git a/x b/x\n@@ -0,0 +1 @@\n-a\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, err := listPatch(strings.NewReader(tt.patch))
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("error %v, want one: %t", err, tt.want == nil)
			}
			got := map[string]patchedFile{}
			for path, p := range found {
				got[path] = patchedFile{sections: p.sections, added: p.added, removed: p.removed, binary: p.binary}
			}
			if err == nil && !maps.EqualFunc(got, tt.want, func(a, b patchedFile) bool {
				return a.sections == b.sections && a.added == b.added && a.removed == b.removed && a.binary == b.binary
			}) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestListPatchSaysWhatIsDone: the operation, the modes and the link of every
// kind of change that git writes.
func TestListPatchSaysWhatIsDone(t *testing.T) {
	t.Parallel()
	link := "@@ -0,0 +1 @@\n+../y\n\\ No newline at end of file\n"
	tests := []struct {
		name, patch string
		want        PatchedFile
	}{
		{"modified", "index 1..2 100644\n@@ -1 +1 @@\n-a\n+b\n", PatchedFile{Op: "modify", OldMode: "100644", NewMode: "100644"}},
		{"modified and made executable", "old mode 100644\nnew mode 100755\nindex 1..2\n@@ -1 +1 @@\n-a\n+b\n", PatchedFile{Op: "modify", OldMode: "100644", NewMode: "100755"}},
		{"made executable", "old mode 100644\nnew mode 100755\n", PatchedFile{Op: "mode_change", OldMode: "100644", NewMode: "100755"}},
		{"created", "new file mode 100644\nindex 0..1\n@@ -0,0 +1 @@\n+a\n", PatchedFile{Op: "create", OldMode: noMode, NewMode: "100644"}},
		{"created empty", "new file mode 100755\nindex 0..1\n", PatchedFile{Op: "create", OldMode: noMode, NewMode: "100755"}},
		{"deleted", "deleted file mode 100644\nindex 1..0\n@@ -1 +0,0 @@\n-a\n", PatchedFile{Op: "delete", OldMode: "100644", NewMode: noMode}},
		{"a link", "new file mode 120000\nindex 0..1\n" + link, PatchedFile{Op: "symlink", OldMode: noMode, NewMode: "120000", LinkTarget: "../y"}},
		{"a link to another place", "index 1..2 120000\n@@ -1 +1 @@\n-z\n\\ No newline at end of file\n+../y\n\\ No newline at end of file\n",
			PatchedFile{Op: "symlink", OldMode: "120000", NewMode: "120000", LinkTarget: "../y"}},
		{"a file becomes a link", "deleted file mode 100644\nindex 1..0\n@@ -1 +0,0 @@\n-a\ndiff --git a/x b/x\nnew file mode 120000\nindex 0..1\n" + link,
			PatchedFile{Op: "symlink", OldMode: "100644", NewMode: "120000", LinkTarget: "../y"}},
		{"a link becomes a file", "deleted file mode 120000\nindex 1..0\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\ndiff --git a/x b/x\nnew file mode 100644\nindex 0..1\n@@ -0,0 +1 @@\n+a\n",
			PatchedFile{Op: "type_change", OldMode: "120000", NewMode: "100644"}},
		{"a submodule", "new file mode 160000\nindex 0..1\n@@ -0,0 +1 @@\n+Subproject commit 1\n", PatchedFile{Op: "submodule", OldMode: noMode, NewMode: "160000"}},
		{"text that looks like a mode", "index 1..2 100644\n@@ -0,0 +1 @@\n+new file mode 120000\n", PatchedFile{Op: "modify", OldMode: "100644", NewMode: "100644"}},
	}
	for _, tt := range tests {
		tt.want.Path = "x"
		got, err := ListPatch(strings.NewReader("diff --git a/x b/x\n" + tt.patch))
		if err != nil || len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: got %+v (%v), want %+v", tt.name, got, err, tt.want)
		}
	}
	for name, patch := range map[string]string{
		"a link of which a part is shown": "diff --git a/x b/x\nindex 1..2 120000\n@@ -1,2 +1,2 @@\n a\n-z\n+y\n",
		"two sections that make it":       strings.Repeat("diff --git a/x b/x\nnew file mode 100644\n", 2),
		"a mode behind the hunk":          "diff --git a/x b/x\nnew file mode 120000\nindex 0..1\n" + link + "new mode 100644\n",
		"a mode stated twice":             "diff --git a/x b/x\nnew file mode 120000\nindex 0..1 100644\n",
		"a new mode alone":                "diff --git a/x b/x\nnew mode 100755\n",
		"another name in the hunk's head": "diff --git a/x b/x\nindex 0..1 100644\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
		"text between the headers":        "diff --git a/x b/x\nhello\nindex 0..1 100644\n",
	} {
		if got, err := ListPatch(strings.NewReader(patch)); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// FuzzListPatch: no input makes the reader fail in another way than by an
// error, and what it lists was named by a header.
func FuzzListPatch(f *testing.F) {
	f.Add([]byte("diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n"))
	f.Add([]byte("diff --git \"a/\\t\" \"b/\\t\"\nGIT binary patch\n"))
	f.Fuzz(func(t *testing.T, patch []byte) {
		found, err := listPatch(bytes.NewReader(patch))
		headers := bytes.Count(patch, []byte("diff --git "))
		if err == nil && len(found) > headers {
			t.Errorf("%d paths from %d headers: %q", len(found), headers, slices.Sorted(maps.Keys(found)))
		}
	})
}
