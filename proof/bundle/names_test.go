package bundle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

func codes(found []reason.Finding) []reason.Code {
	var out []reason.Code
	for _, f := range found {
		out = append(out, f.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		bundle, portable []reason.Code
	}{
		{"a", nil, nil},
		{"RECEIPT.json", nil, nil},
		{".hidden/..x/x..y/a-b_c", nil, nil},
		{"com10/console/nul_/lpt", nil, nil},
		{"a b.txt", []reason.Code{reason.PathInvalid}, nil},
		{"é", []reason.Code{reason.PathInvalid}, nil},
		{"-rf", []reason.Code{reason.PathInvalid}, nil},
		{"a/-b", []reason.Code{reason.PathInvalid}, nil},
		{"", []reason.Code{reason.PathInvalid}, []reason.Code{reason.PathInvalid}},
		{"a/", []reason.Code{reason.PathInvalid}, []reason.Code{reason.PathInvalid}},
		{"..", []reason.Code{reason.PathTraversal}, []reason.Code{reason.PathTraversal}},
		{"/..", []reason.Code{reason.PathAbsolute, reason.PathTraversal}, []reason.Code{reason.PathAbsolute, reason.PathTraversal}},
		{`a\..\b`, []reason.Code{reason.PathBackslash, reason.PathTraversal}, []reason.Code{reason.PathBackslash, reason.PathTraversal}},
		{"c:x", []reason.Code{reason.PathDrive}, []reason.Code{reason.PathDrive}},
		{"nul .txt", []reason.Code{reason.PathReserved}, []reason.Code{reason.PathReserved}},
		{"COM¹", []reason.Code{reason.PathReserved}, []reason.Code{reason.PathReserved}},
		{"conin$.x", []reason.Code{reason.PathReserved}, []reason.Code{reason.PathReserved}},
		{"...", []reason.Code{reason.PathReserved}, []reason.Code{reason.PathReserved}},
		{"a\x7f", []reason.Code{reason.PathControl}, []reason.Code{reason.PathControl}},
		{"a\u0085", []reason.Code{reason.PathControl}, []reason.Code{reason.PathControl}},
		{"a\u2028", []reason.Code{reason.PathControl}, []reason.Code{reason.PathControl}},
		{"a\xff", []reason.Code{reason.PathInvalid}, []reason.Code{reason.PathInvalid}},
		{strings.Repeat("a", 200), nil, nil},
		{strings.Repeat("a", 201), []reason.Code{reason.PathTooLong}, nil},
		{strings.Repeat("a", 256), []reason.Code{reason.PathTooLong}, []reason.Code{reason.PathTooLong}},
		{strings.Repeat("a/", 31) + "a", nil, nil},
		{strings.Repeat("a/", 32) + "a", []reason.Code{reason.PathTooLong}, []reason.Code{reason.PathTooLong}},
	} {
		if got := codes(CheckName(ProfileBundle, tt.name)); !slices.Equal(got, tt.bundle) {
			t.Errorf("bundle: %q: %v, want %v", tt.name, got, tt.bundle)
		}
		if got := codes(CheckName(ProfilePortable, tt.name)); !slices.Equal(got, tt.portable) {
			t.Errorf("portable: %q: %v, want %v", tt.name, got, tt.portable)
		}
	}
}

// TestClashes checks names against each other, whatever stands between them.
func TestClashes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names string
		want  []reason.Code
	}{
		{"a b c/d c/e", nil},
		{"a-b a/b a.b", nil},
		{"a a", []reason.Code{reason.PathDuplicate}},
		{"d/ d/", []reason.Code{reason.PathDuplicate}},
		{"d/ d/x", nil},
		{"a x a", []reason.Code{reason.PathDuplicate}},
		{"A x a", []reason.Code{reason.PathCaseClash}},
		{"a/b/c x A/b/d", []reason.Code{reason.PathCaseClash}},
		{"a/b/c A/x", []reason.Code{reason.PathCaseClash}},
		{"d/ D/x", []reason.Code{reason.PathCaseClash}},
		{"ſ s", []reason.Code{reason.PathCaseClash}},
		{"a a-b a/b", []reason.Code{reason.PathFileDirClash}},
		{"A a!b a/b/c", []reason.Code{reason.PathFileDirClash}},
		{"a a/", []reason.Code{reason.PathFileDirClash}},
		{"a/b/c a-x a", []reason.Code{reason.PathFileDirClash}},
	} {
		var entries []namedEntry
		for name := range strings.FieldsSeq(tt.names) {
			entries = append(entries, namedEntry{name: name, dir: strings.HasSuffix(name, "/")})
		}
		var got findings
		checkNames(ProfilePortable, entries, &got)
		if !slices.Equal(codes(got.list), tt.want) {
			t.Errorf("%s: %v, want %v", tt.names, got.list, tt.want)
		}
	}
}

// TestFindingsAreBounded: a bundle that is wrong everywhere does not fill the
// memory, and nothing is dropped silently.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	var f findings
	for i := range 3 * MaxFindings {
		f.add(reason.PathBackslash, fmt.Sprint(i), "wrong")
	}
	f.add(reason.ZipCRC, "x", "wrong")
	all := f.all()
	if len(all) != MaxFindings+2 || !strings.Contains(all[len(all)-1].Detail, fmt.Sprint(2*MaxFindings, " more")) {
		t.Errorf("%d findings, the last is %v", len(all), all[len(all)-1])
	}
}
