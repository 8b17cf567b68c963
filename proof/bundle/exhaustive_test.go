//go:build !race

package bundle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// masks are the ways in which a byte is changed: lowest bit, letter case,
// highest bit, all bits.
var masks = []byte{0x01, 0x20, 0x80, 0xff}

// refused audits a changed zip; the promise is that no change passes.
func refused(t *testing.T, zip []byte, what string, at int) {
	t.Helper()
	if r := auditBytes(t, zip, Options{Gates: passing()}); r.Status == Pass || r.ExitCode == 0 {
		t.Errorf("%s at byte %d of %d passes", what, at, len(zip))
	}
}

// TestEveryByteOfAZipCounts changes, removes and inserts each byte of a bundle.
func TestEveryByteOfAZipCounts(t *testing.T) {
	t.Parallel()
	zip := sealedZip(t, sealed(t, session))
	if r := auditBytes(t, zip, Options{Gates: passing()}); r.Status != Pass || r.Profile != ProfileBundle {
		t.Fatalf("the unchanged bundle: %s\n%s", r.Status, details(r))
	}
	for at := range zip {
		for _, mask := range masks {
			changed := slices.Clone(zip)
			changed[at] ^= mask
			refused(t, changed, "a flip", at)
		}
		refused(t, slices.Delete(slices.Clone(zip), at, at+1), "a deletion", at)
		refused(t, slices.Clone(zip[:at]), "a cut", at)
	}
	for at := range len(zip) + 1 {
		for _, b := range []byte{0x00, 'P'} {
			refused(t, slices.Insert(slices.Clone(zip), at, b), "an insertion", at)
		}
	}
}

// TestEveryByteOfAPortableZipIsAccountedFor flips each byte of a compressed
// zip. What still passes must be content that is neither hidden nor in dispute:
// dates and attributes, the same in both headers or only in one.
func TestEveryByteOfAPortableZipIsAccountedFor(t *testing.T) {
	t.Parallel()
	v := readVector(t, vectorDir+"/ok-portable.txtar")
	want := contentsOf(t, v.zip)
	for at := range v.zip {
		for _, mask := range masks {
			changed := slices.Clone(v.zip)
			changed[at] ^= mask
			if auditBytes(t, changed, Options{}).Status == Pass && contentsOf(t, changed) != want {
				t.Errorf("flip %#x at byte %d changes the content and passes", mask, at)
			}
		}
	}
}

// contentsOf lists names and contents as this package reads them.
func contentsOf(t *testing.T, zip []byte) string {
	t.Helper()
	var b strings.Builder
	for _, f := range read(t, zip) {
		b.WriteString(f.name + "\x00" + string(f.sum[:]))
	}
	return b.String()
}

// TestEveryByteOfADirectoryCounts changes each byte of each file of the
// directory form, the manifest included.
func TestEveryByteOfADirectoryCounts(t *testing.T) {
	t.Parallel()
	small := map[string]string{"RECEIPT.json": "{}", "journal.jsonl": "{\"seq\":0}\n", "proofs/a.json": `{"clean":true}`}
	dir := sealed(t, small)
	opt := Options{Gates: passing()}
	if r := auditPath(t, dir, opt); r.Status != Pass || r.Profile != ProfileBundle {
		t.Fatalf("the unchanged directory: %s\n%s", r.Status, details(r))
	}
	names := []string{ManifestName}
	for name := range small {
		names = append(names, name)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, at int, changed []byte) {
			t.Helper()
			overwrite(t, path, changed)
			if r := auditPath(t, dir, opt); r.Status == Pass {
				t.Errorf("%s: %s at byte %d passes", name, what, at)
			}
		}
		for at := range text {
			for _, mask := range masks {
				changed := slices.Clone(text)
				changed[at] ^= mask
				try("a flip", at, changed)
			}
			try("a deletion", at, slices.Delete(slices.Clone(text), at, at+1))
		}
		for at := range len(text) + 1 {
			try("an insertion", at, slices.Insert(slices.Clone(text), at, '\n'))
		}
		overwrite(t, path, text)
	}
	if r := auditPath(t, dir, opt); r.Status != Pass {
		t.Fatalf("the restored directory: %s\n%s", r.Status, details(r))
	}
}
