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
				got[path] = *p
			}
			if err == nil && !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
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
