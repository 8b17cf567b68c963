package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"remit/proof/reason"
)

// entryOf is one object of a pack as its bytes.
func entryOf(kind byte, size int, between string, content string) []byte {
	c := kind<<4 | byte(size&15)
	var b bytes.Buffer
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	b.WriteString(between)
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, content)
	_ = w.Close()
	return b.Bytes()
}

func blobEntry(content string) []byte { return entryOf(entryBlob, len(content), "", content) }

func deltaEntry(content string) []byte {
	return entryOf(entryRefDelta, len(content), strings.Repeat("i", 20), content)
}

func packOf(entries ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(entries)))
	b = append(b, bytes.Join(entries, nil)...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

// TestScanPack counts what a pack costs, and refuses one entry beyond each limit.
func TestScanPack(t *testing.T) {
	t.Parallel()
	// A delta that begins with the sizes 5 and 130.
	delta := "\x05\x82\x01" + "rest"
	for name, c := range map[string]struct {
		entries [][]byte
		limits  PackLimits
		want    PackSummary // of what passes
		refused string
	}{
		"nothing":                     {nil, PackLimits{Bytes: 32}, PackSummary{}, ""},
		"empty blob":                  {[][]byte{blobEntry("")}, PackLimits{Bytes: 1000, Objects: 1}, PackSummary{Objects: 1}, ""},
		"at every limit":              {[][]byte{blobEntry("hello"), blobEntry("world")}, PackLimits{Bytes: 1000, Objects: 2, Inflated: 10}, PackSummary{Objects: 2, Inflated: 10}, ""},
		"one object too many":         {[][]byte{blobEntry("hello"), blobEntry("world")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "announces 2 objects"},
		"one byte too many":           {[][]byte{blobEntry("hello"), blobEntry("world")}, PackLimits{Bytes: 1000, Objects: 2, Inflated: 9}, PackSummary{}, "more than 9 bytes"},
		"a delta counts with both":    {[][]byte{deltaEntry(delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 137, Delta: 130}, PackSummary{Objects: 1, Inflated: 137}, ""},
		"a delta beyond all":          {[][]byte{deltaEntry(delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 136, Delta: 130}, PackSummary{}, "more than 136 bytes"},
		"a delta beyond its limit":    {[][]byte{deltaEntry(delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 137, Delta: 129}, PackSummary{}, "an object of 130 bytes"},
		"a base beyond the limit":     {[][]byte{deltaEntry("\x82\x01\x05rest")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 137, Delta: 129}, PackSummary{}, "an object of 130 bytes"},
		"a long delta":                {[][]byte{deltaEntry(delta + delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 10}, PackSummary{}, "a delta has 14 bytes"},
		"a delta without sizes":       {[][]byte{deltaEntry("\x85")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 1000}, PackSummary{}, "head ends early"},
		"a delta size without end":    {[][]byte{deltaEntry(strings.Repeat("\xff", 20))}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 1000}, PackSummary{}, "beyond all bounds"},
		"a size without end":          {[][]byte{bytes.Repeat([]byte{0xbf}, 20)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1 << 62}, PackSummary{}, "beyond all bounds"},
		"shorter than announced":      {[][]byte{entryOf(entryBlob, 6, "", "hello")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "not as long"},
		"longer than announced":       {[][]byte{entryOf(entryBlob, 4, "", "hello")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "not as long"},
		"type 0":                      {[][]byte{entryOf(0, 5, "", "hello")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "type 0"},
		"type 5":                      {[][]byte{entryOf(5, 5, "", "hello")}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "type 5"},
		"a base before the beginning": {[][]byte{entryOf(entryOfsDelta, 7, "\x7f", delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 1000}, PackSummary{}, "outside"},
		"a base nowhere":              {[][]byte{entryOf(entryOfsDelta, 7, strings.Repeat("\xff", 30), delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 1000}, PackSummary{}, "outside"},
		"a delta of itself":           {[][]byte{entryOf(entryOfsDelta, 7, "\x00", delta)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 1000, Delta: 1000}, PackSummary{}, "outside"},
		"no zlib":                     {[][]byte{append([]byte{entryBlob<<4 | 5}, "hello"...)}, PackLimits{Bytes: 1000, Objects: 1, Inflated: 10}, PackSummary{}, "cannot be inflated"},
		"a commit": {[][]byte{entryOf(entryCommit, 1, "", "c"), entryOf(entryCommit, 1, "", "d")}, PackLimits{Bytes: 1000, Objects: 2, Inflated: 2},
			PackSummary{Objects: 2, Inflated: 2, Commits: 2, Commit: SHA1.Sum("commit", []byte("c"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := packOf(c.entries...)
			for _, r := range []io.Reader{bytes.NewReader(pack), iotest.OneByteReader(bytes.NewReader(pack)), iotest.DataErrReader(bytes.NewReader(pack))} {
				var copied bytes.Buffer
				got, err := SHA1.ScanPack(t.Context(), r, &copied, c.limits)
				if c.refused != "" {
					if reason.CodeOf(err) != reason.RepositoryInvalid || !strings.Contains(err.Error(), c.refused) {
						t.Errorf("%v, want %q", err, c.refused)
					}
					continue
				}
				if c.want.Checksum = Hex(pack[len(pack)-20:]); err != nil || got != c.want || !bytes.Equal(copied.Bytes(), pack) {
					t.Errorf("%+v, %v, %d bytes copied", got, err, copied.Len())
				}
			}
		})
	}
}

// TestScanPackSaysWhoFailed: errors of both ends are theirs.
func TestScanPackSaysWhoFailed(t *testing.T) {
	t.Parallel()
	pack, limits := packOf(blobEntry("hello")), PackLimits{Bytes: 1000, Objects: 1, Inflated: 5}
	mine := errors.New("mine")
	if _, err := SHA1.ScanPack(t.Context(), io.MultiReader(bytes.NewReader(pack[:20]), iotest.ErrReader(mine)), io.Discard, limits); !errors.Is(err, mine) {
		t.Errorf("reader: %v", err)
	}
	if _, err := SHA1.ScanPack(t.Context(), io.MultiReader(bytes.NewReader(pack[:20]), iotest.ErrReader(io.ErrUnexpectedEOF)), io.Discard, limits); !errors.Is(err, io.ErrUnexpectedEOF) || reason.CodeOf(err) != "" {
		t.Errorf("a line that broke: %v", err)
	}
	if _, err := SHA1.ScanPack(t.Context(), bytes.NewReader(pack), brokenWriter{mine}, limits); !errors.Is(err, mine) {
		t.Errorf("writer: %v", err)
	}
	if _, err := SHA1.ScanPack(t.Context(), silent{}, io.Discard, limits); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("silence: %v", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// FuzzScanPack: whatever comes, the scan ends within its limits; what passes is copied as it is, and git's own reading
// of the head agrees.
func FuzzScanPack(f *testing.F) {
	f.Add(packOf(), false)
	f.Add(packOf(blobEntry("hello"), entryOf(entryCommit, 1, "", "c")), true)
	f.Add(packOf(blobEntry("hello"), deltaEntry("\x05\x05\x90\x05")), true)
	f.Add(packOf(blobEntry("hello"), entryOf(entryOfsDelta, 4, "\x0e", "\x05\x05\x90\x05")), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if len(b) > 20 && seal { // past the checksum
			sum := sha1.Sum(b[:len(b)-20])
			b = append(b[:len(b)-20:len(b)-20], sum[:]...)
		}
		var copied bytes.Buffer
		limits := PackLimits{Bytes: 1 << 16, Objects: 100, Inflated: 1 << 16, Delta: 1 << 12}
		got, err := SHA1.ScanPack(t.Context(), bytes.NewReader(b), &copied, limits)
		if !bytes.HasPrefix(b, copied.Bytes()) {
			t.Error("other bytes were copied")
		}
		if err != nil {
			if reason.CodeOf(err) != reason.RepositoryInvalid {
				t.Errorf("%v", err)
			}
			return
		}
		if copied.Len() != len(b) || got.Objects != int(binary.BigEndian.Uint32(b[8:])) || got.Inflated > limits.Inflated || got.Objects > limits.Objects {
			t.Errorf("%+v of %d bytes, %d copied", got, len(b), copied.Len())
		}
	})
}

// TestIndexPackFile: the settings of one call are its own, objects that lack others are refused, and a git that is
// killed by what it reads has refused it.
func TestIndexPackFile(t *testing.T) {
	t.Parallel()
	index := func(d Dir, pack []byte) error {
		dir := filepath.Join(d.ObjectsDir(), "pack")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "pack-x.pack")
		if err := os.WriteFile(path, pack, 0o600); err != nil {
			t.Fatal(err)
		}
		return d.IndexPackFile(t.Context(), path)
	}
	d := newDir(t, SHA1)
	if err := index(d, packOf(blobEntry("hello"))); err != nil {
		t.Fatal(err)
	}
	id := SHA1.Sum("blob", []byte("hello"))
	got, err := d.Inventory(t.Context(), 1)
	if err != nil || len(got) != 1 || got[id] != (Stored{Kind: "blob", Size: 5}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := d.Inventory(t.Context(), 0); reason.CodeOf(err) != reason.RepositoryInvalid {
		t.Errorf("more than allowed: %v", err)
	}
	commit := "tree " + strings.Repeat("1", 40) + "\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nm\n"
	if err := index(newDir(t, SHA1), packOf(entryOf(entryCommit, len(commit), "", commit))); reason.CodeOf(err) != reason.RepositoryInvalid {
		t.Errorf("a commit without its tree: %v", err)
	}
	if err := index(newDir(t, SHA1), packOf(deltaEntry("\x05\x05\x90\x05"))); reason.CodeOf(err) != reason.RepositoryInvalid {
		t.Errorf("a thin pack: %v", err)
	}
	if err := d.IndexPackFile(t.Context(), "/x/y"); err == nil {
		t.Error("a file of any name is indexed")
	}
	killed := newDir(t, SHA1)
	killed.program = filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(killed.program, []byte("#!/bin/sh\ncase \"$2\" in core.bigFileThreshold=*) kill -SEGV $$;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = index(killed, packOf())
	if _, crashed := errors.AsType[*exec.ExitError](err); reason.CodeOf(err) != reason.RepositoryInvalid || !crashed {
		t.Errorf("a crash: %v", err)
	}
}

func TestInventoryIsReadInPieces(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	text := a + " blob 5 " + SHA1.Zero() + "\n" + b + " tree 7 " + a + "\n"
	for _, size := range []int{1, 7, len(text)} {
		i := &inventory{format: SHA1, most: 2, objects: map[string]Stored{}}
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			if _, err := io.WriteString(i, rest[:min(size, len(rest))]); err != nil {
				t.Fatal(err)
			}
		}
		if len(i.rest) > 0 || i.objects[a] != (Stored{"blob", 5, ""}) || i.objects[b] != (Stored{"tree", 7, a}) {
			t.Errorf("%d: %+v", size, i.objects)
		}
	}
	for _, line := range []string{"x", a + " missing", a + " blob -1 " + a, a + " blob x " + a, a + " blob 5 x", a + " blob 5 " + a + " x"} {
		i := &inventory{format: SHA1, most: 2, objects: map[string]Stored{}}
		if _, err := io.WriteString(i, line+"\n"); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
	i := &inventory{format: SHA1, most: 2, objects: map[string]Stored{}}
	if _, err := io.WriteString(i, strings.Repeat("x", 1000)); err == nil {
		t.Error("a line without end is taken")
	}
}
