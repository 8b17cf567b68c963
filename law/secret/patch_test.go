//test:plain-package It only computes: there is one goroutine.

package secret

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func TestScanPatch(t *testing.T) {
	t.Parallel()
	gh, value := "gh"+"p_"+random(1, alnum, 36), testValues[0].Value
	head := "diff --git a/x.txt b/x.txt\nindex 1..2 100644\n--- a/x.txt\n+++ b/x.txt\n"
	key := strings.Split(pem("PRIVATE KEY", "\n"), "\n")
	wrapped := base64.StdEncoding.EncodeToString([]byte("before " + value + " after"))
	tests := []struct {
		name, patch string
		want        []string // the text in the patch
	}{
		{"added shape", head + "@@ -1 +1 @@\n-a\n+" + gh + "\n", []string{gh}},
		{"shape in the context", head + "@@ -1,2 +1,2 @@\n " + gh + "\n-a\n+b\n", nil},
		{"shape taken away", head + "@@ -1 +1 @@\n-" + gh + "\n+b\n", nil},
		{"credential in the context", head + "@@ -1,2 +1,2 @@\n " + value + "\n-a\n+b\n", []string{value}},
		{"credential taken away", head + "@@ -1 +1 @@\n-" + value + "\n+b\n", []string{value}},
		{"credential in a function line", head + "@@ -1 +1 @@ func " + value + "\n-a\n+b\n", []string{value}},
		{"shape in a name", strings.ReplaceAll(head, "x.txt", gh) + "@@ -1 +1 @@\n-a\n+b\n", []string{gh, gh, gh}},
		{"added line that looks like a header", head + "@@ -0,0 +1,2 @@\n+++ b/y\n+@@ -1 +1 @@\n" + "-" + gh + "\n", nil},
		{"added line like a file name", head + "@@ -0,0 +1 @@\n+++ " + gh + "\n", []string{gh}},
		{"no line break at the end", head + "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+" + gh + "\n\\ No newline at end of file\n", []string{gh}},
		{"key over lines", head + "@@ -0,0 +1,6 @@\n+" + strings.Join(key, "\n+") + "\n", []string{strings.Join(key, "\n+")}},
		{"key around the context", head + "@@ -1 +1,7 @@\n+" + strings.Join(key[:3], "\n+") + "\n context\n+" + strings.Join(key[3:], "\n+") + "\n",
			[]string{strings.Join(key[:3], "\n+") + "\n context\n+" + strings.Join(key[3:], "\n+")}},
		{"wrapped base64", head + "@@ -0,0 +1,2 @@\n+" + wrapped[:22] + "\n+" + wrapped[22:] + "\n", []string{wrapped[10:22] + "\n+" + wrapped[22:32]}},
		{"halves in two hunks", head + "@@ -0,0 +1 @@\n+" + value[:9] + "\n@@ -9,0 +9 @@\n+" + value[9:] + "\n", nil},
		{"long line", head + "@@ -0,0 +1 @@\n+" + strings.Repeat("x ", blockBytes) + gh + "\n", []string{gh}},
		{"nothing", "", nil},
	}
	s := New(testValues)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			var findings []Finding
			_, err := s.ScanPatch(strings.NewReader(test.patch), func(f Finding, _ []byte) {
				got = append(got, test.patch[f.Offset:f.Offset+f.Length])
				findings = append(findings, f)
			})
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("found %q, %v, want %q", got, err, test.want)
			}
			var out strings.Builder
			if err := Copy(&out, strings.NewReader(test.patch), findings, true); err != nil {
				t.Fatal(err)
			}
			if strings.Count(out.String(), "\n") != strings.Count(test.patch, "\n") {
				t.Error("the redacted patch has other lines")
			}
			if _, err := s.ScanPatch(strings.NewReader(out.String()), func(f Finding, _ []byte) { t.Errorf("left: %+v", f) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBinarySections(t *testing.T) {
	t.Parallel()
	content := "literal 3\nKcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n"
	patch := "diff --git a/a.bin b/a.bin\nindex 1..2\nGIT binary patch\n" + content +
		"diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-a\n+GIT binary patch\n" +
		"diff --git a/c.bin b/c.bin\nGIT binary patch\n" + content
	sections, err := New(nil).ScanPatch(strings.NewReader(patch), func(f Finding, _ []byte) { t.Errorf("%+v", f) })
	if err != nil || len(sections) != 2 {
		t.Fatalf("%+v, %v", sections, err)
	}
	var out strings.Builder
	if err := Copy(&out, strings.NewReader(patch), sections, true); err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(patch, content, "[redacted:binary-content]\n"); out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestOutlinePatch: files and numbers of lines stay, contents do not.
func TestOutlinePatch(t *testing.T) {
	t.Parallel()
	gh := "gh" + "p_" + random(1, alnum, 36)
	patch := "diff --git a/" + gh + " b/" + gh + "\nindex 1..2 100644\n--- a/" + gh + "\n+++ b/" + gh + "\n@@ -1,3 +1,3 @@ func a()\n context\n\n-a\n+" +
		strings.Repeat("long ", blockBytes) + "\n\\ No newline at end of file\ndiff --git a/b.bin b/b.bin\nGIT binary patch\nliteral 3\nKcmZQz\n\n" +
		"diff --git a/c b/c\nold mode 100644\nnew mode 100755\n"
	want := "diff --git a/X b/X\nindex 1..2 100644\n--- a/X\n+++ b/X\n@@ -1,3 +1,3 @@\n [redacted]\n\n-[redacted]\n+[redacted]\n\\ No newline at end of file\n" +
		"diff --git a/b.bin b/b.bin\nGIT binary patch\n[redacted:binary-content]\ndiff --git a/c b/c\nold mode 100644\nnew mode 100755\n"
	var out strings.Builder
	if err := New(nil).OutlinePatch(&out, strings.NewReader(patch)); err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(out.String(), "[redacted:github-token]", "X"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
