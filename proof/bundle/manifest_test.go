package bundle

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

func TestParseManifest(t *testing.T) {
	t.Parallel()
	h := strings.Repeat("0", 63) + "a"
	for _, tt := range []struct {
		name, text string
		want       []reason.Code
	}{
		{"one file", h + "  a\n", nil},
		{"sorted bytewise", h + "  B\n" + h + "  a\n" + h + "  a-b\n" + h + "  a/b\n", nil},
		{"empty", "", []reason.Code{reason.ManifestFormat}},
		{"only a newline", "\n", []reason.Code{reason.ManifestFormat}},
		{"no final newline", h + "  a", []reason.Code{reason.ManifestFormat}},
		{"blank line", h + "  a\n\n" + h + "  b\n", []reason.Code{reason.ManifestFormat}},
		{"carriage return", h + "  a\r\n", []reason.Code{reason.ManifestFormat}},
		{"comment", "# files\n" + h + "  a\n", []reason.Code{reason.ManifestFormat}},
		{"upper case", strings.ToUpper(h) + "  a\n", []reason.Code{reason.ManifestFormat}},
		{"digest too long", h + "0  a\n", []reason.Code{reason.ManifestFormat}},
		{"one space", h + " a\n", []reason.Code{reason.ManifestFormat}},
		{"tab", h + "\ta\n", []reason.Code{reason.ManifestFormat}},
		{"three spaces", h + "   a\n", []reason.Code{reason.ManifestFormat}},
		{"no path", h + "  \n", []reason.Code{reason.ManifestFormat}},
		{"no-break space", h + " \u00a0a\n", []reason.Code{reason.ManifestFormat}},
		{"NUL in path", h + "  a\x00b\n", []reason.Code{reason.PathControl}},
		{"unsorted", h + "  b\n" + h + "  a\n", []reason.Code{reason.ManifestUnsorted}},
		{"duplicate", h + "  a\n" + h + "  a\n", []reason.Code{reason.ManifestDuplicate}},
		{"distant duplicate", h + "  a\n" + h + "  b\n" + h + "  a\n", []reason.Code{reason.ManifestDuplicate}},
		{"traversal", h + "  ../a\n", []reason.Code{reason.PathTraversal}},
		{"every flaw is found", "x\n" + h + "  b\n" + h + "  a\\\n" + h + "  a\\", []reason.Code{
			reason.ManifestDuplicate, reason.ManifestFormat, reason.ManifestUnsorted, reason.PathBackslash}},
		{"too many lines", strings.Repeat("x\n", MaxEntries+1), []reason.Code{reason.ManifestFormat}},
		{"too large", strings.Repeat("x", MaxManifestBytes+1), []reason.Code{reason.ManifestFormat}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, found := ParseManifest(ProfilePortable, []byte(tt.text))
			if !slices.Equal(codes(found), tt.want) {
				t.Errorf("%v, want %v", found, tt.want)
			}
			if len(found) == 0 && string(m.Bytes()) != tt.text {
				t.Errorf("it is written back as %q", m.Bytes())
			}
		})
	}
}

func TestManifestFindingsNameTheLine(t *testing.T) {
	t.Parallel()
	h := strings.Repeat("1", 64)
	_, found := ParseManifest(ProfileBundle, []byte(h+"  a\n"+h+"  z z\n"))
	if len(found) != 1 || found[0].Line != 2 || found[0].Path != ManifestName || found[0].Gate != GateManifest {
		t.Errorf("%+v", found)
	}
}

func FuzzManifest(f *testing.F) {
	h := strings.Repeat("0", 64)
	for _, seed := range []string{"", "\n", h + "  a\n", h + "  b\n" + h + "  a\n", h + "  a\r\n", h + "  a/../b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m, found := ParseManifest(ProfilePortable, src)
		if len(found) > 0 {
			return
		}
		if !bytes.Equal(m.Bytes(), src) {
			t.Errorf("accepted %q, written back as %q", src, m.Bytes())
		}
		for _, l := range m {
			if strings.Contains(l.Path, "..") && slices.Contains(strings.Split(l.Path, "/"), "..") || strings.HasPrefix(l.Path, "/") {
				t.Errorf("accepted the path %q", l.Path)
			}
		}
	})
}
