package bundle

import (
	"bytes"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestReadMember reads one file out of a zip, all of it or none, and nothing out of
// a zip that has been spoiled anywhere in its structure.
func TestReadMember(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line of the journal\n", 500)
	zip := sealedZip(t, sealed(t, map[string]string{"journal.jsonl": text, "backend/log": "x\n"}))
	read := func(zip []byte, name string, most int64) ([]byte, error) {
		return ReadMember(t.Context(), bytes.NewReader(zip), int64(len(zip)), name, most)
	}
	if got, err := read(zip, "journal.jsonl", int64(len(text))); err != nil || string(got) != text {
		t.Fatalf("%d bytes: %v", len(got), err)
	}
	for name, test := range map[string]struct {
		zip  []byte
		file string
		most int64
		code reason.Code
	}{
		"too large":    {zip, "journal.jsonl", int64(len(text)) - 1, reason.RequestTooLarge},
		"no such file": {zip, "journal", 1 << 20, reason.ArtifactMissing},
		"a directory":  {zip, "backend", 1 << 20, reason.ArtifactMissing},
		"no zip":       {[]byte("zip"), "journal.jsonl", 1 << 20, reason.ZipUnreadable},
		"nothing":      {nil, "journal.jsonl", 1 << 20, reason.ZipUnreadable},
	} {
		if got, err := read(test.zip, test.file, test.most); reason.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %s; %.40q", name, err, test.code, got)
		}
	}
	// Whatever byte is another one: the right text, or a refusal with a code.
	for i := range zip {
		spoiled := bytes.Clone(zip)
		spoiled[i] ^= 0x41
		got, err := read(spoiled, "journal.jsonl", 1<<20)
		if err != nil && reason.CodeOf(err) == "" || err == nil && string(got) != text {
			t.Errorf("byte %d: %v, %d bytes", i, err, len(got))
		}
	}
}
