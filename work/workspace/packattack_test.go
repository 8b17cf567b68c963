package workspace

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/git"
)

// packBuilder writes packs that no git would write.
type packBuilder struct {
	b     bytes.Buffer
	count uint32
	seen  map[string]bool
}

func newPack() *packBuilder { return &packBuilder{seen: map[string]bool{}} }

func (p *packBuilder) head(kind byte, size uint64) {
	p.count++
	c := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	p.b.WriteByte(c)
}

func (p *packBuilder) deflate(content []byte) {
	w := zlib.NewWriter(&p.b)
	_, _ = w.Write(content)
	_ = w.Close()
}

// add appends an object, once, and returns its id.
func (p *packBuilder) add(kind string, content []byte) string {
	id := git.SHA1.Sum(kind, content)
	if !p.seen[id] {
		p.seen[id] = true
		p.head(map[string]byte{"commit": 1, "tree": 2, "blob": 3, "tag": 4}[kind], uint64(len(content)))
		p.deflate(content)
	}
	return id
}

func (p *packBuilder) blob(text string) string { return p.add("blob", []byte(text)) }

// delta appends a difference to the object base.
func (p *packBuilder) delta(base string, content []byte) {
	p.head(7, uint64(len(content)))
	p.b.Write(rawID(base))
	p.deflate(content)
}

func rawID(id string) []byte {
	b, err := hex.DecodeString(id)
	if err != nil {
		panic(err)
	}
	return b
}

func entry(mode, name, id string) []byte {
	return append([]byte(mode+" "+name+"\x00"), rawID(id)...)
}

func (p *packBuilder) tree(entries ...[]byte) string { return p.add("tree", bytes.Join(entries, nil)) }

func (p *packBuilder) commit(tree string, parents ...string) string {
	text := "tree " + tree + "\n"
	for _, parent := range parents {
		text += "parent " + parent + "\n"
	}
	return p.add("commit", []byte(text+"author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nm\n"))
}

func (p *packBuilder) bytes() []byte { return sealPack(2, p.count, p.b.Bytes()) }

func sealPack(version, count uint32, entries []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK"), version)
	b = append(binary.BigEndian.AppendUint32(b, count), entries...)
	sum := sha1.Sum(b)
	return append(b, sum[:]...)
}

const absentID = "1111111111111111111111111111111111111111"

// TestOpenPackRefuses sends packs that are broken, too much, or not what was asked for. Each case is the good pack of the
// first case with one thing changed.
func TestOpenPackRefuses(t *testing.T) {
	t.Parallel()
	one := func(mode, name string) func(*packBuilder) string {
		return func(p *packBuilder) string {
			target := p.blob("x")
			if mode == "40000" {
				target = p.tree(entry("100644", "a", target))
			}
			return p.commit(p.tree(entry(mode, name, target)))
		}
	}
	const invalid, none = reason.RepositoryInvalid, reason.BaseNotFound
	for name, c := range map[string]struct {
		code  reason.Code
		build func(p *packBuilder) string // returns the id to be asked for
	}{
		"nothing wrong":         {"", one("100644", "a")},
		"a commit with parents": {"", func(p *packBuilder) string { return p.commit(p.tree(entry("100644", "a", p.blob("x"))), absentID) }},
		"a submodule":           {"", func(p *packBuilder) string { return p.commit(p.tree(entry("160000", "a", absentID))) }},

		".git":                {invalid, one("100644", ".git")},
		".git directory":      {invalid, one("40000", ".git")},
		".GIT":                {invalid, one("40000", ".GIT")},
		"git~1":               {invalid, one("40000", "git~1")},
		"ignored code points": {invalid, one("40000", ".g\u200cit")},
		"..":                  {invalid, one("40000", "..")},
		".. as a link":        {invalid, one("120000", "..")},
		".":                   {invalid, one("100644", ".")},
		"slash":               {invalid, one("100644", "../../x")},
		"absolute":            {invalid, one("100644", "/etc/passwd")},
		"no name":             {invalid, one("100644", "")},
		"a mode of its own":   {invalid, one("100777", "a")},
		"a device":            {invalid, one("060000", "a")},
		"a name too long":     {invalid, one("100644", strings.Repeat("n", 300))},
		".gitmodules link":    {invalid, one("120000", ".gitmodules")},
		"link and directory": {invalid, func(p *packBuilder) string {
			link, dir := p.blob("/etc"), p.tree(entry("100644", "passwd", p.blob("x")))
			return p.commit(p.tree(entry("120000", "a", link), entry("40000", "a", dir)))
		}},
		"link twice": {invalid, func(p *packBuilder) string {
			return p.commit(p.tree(entry("120000", "a", p.blob("/etc")), entry("100644", "a", p.blob("x"))))
		}},
		"out of order": {invalid, func(p *packBuilder) string {
			x := p.blob("x")
			return p.commit(p.tree(entry("100644", "b", x), entry("100644", "a", x)))
		}},
		".gitmodules that starts a program": {invalid, func(p *packBuilder) string {
			return p.commit(p.tree(entry("100644", ".gitmodules", p.blob("[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n"))))
		}},
		"a directory that is a file": {invalid, func(p *packBuilder) string { return p.commit(p.tree(entry("40000", "a", p.blob("x")))) }},
		"a file that is a directory": {invalid, func(p *packBuilder) string {
			return p.commit(p.tree(entry("100644", "a", p.tree(entry("100644", "b", p.blob("x"))))))
		}},
		"a file that is a commit": {invalid, func(p *packBuilder) string {
			tree := p.tree(entry("100644", "b", p.blob("x")))
			return p.commit(p.tree(entry("100644", "a", p.commit(tree))))
		}},
		"a tree that is cut off": {invalid, func(p *packBuilder) string {
			return p.commit(p.add("tree", entry("100644", "a", p.blob("x"))[:20]))
		}},
		"a tree that is a blob":      {invalid, func(p *packBuilder) string { return p.commit(p.blob("x")) }},
		"a commit of no form":        {invalid, func(p *packBuilder) string { return p.add("commit", []byte("tree x\n")) }},
		"a commit with a NUL":        {invalid, func(p *packBuilder) string { return p.add("commit", []byte("tree "+p.tree()+"\n\x00")) }},
		"missing blob":               {invalid, func(p *packBuilder) string { return p.commit(p.tree(entry("100644", "a", absentID))) }},
		"missing directory":          {invalid, func(p *packBuilder) string { return p.commit(p.tree(entry("40000", "a", absentID))) }},
		"missing tree":               {invalid, func(p *packBuilder) string { return p.commit(absentID) }},
		"the empty tree as a file":   {invalid, func(p *packBuilder) string { return p.commit(p.tree(entry("100644", "a", git.SHA1.EmptyTree()))) }},
		"missing commit":             {none, func(p *packBuilder) string { one("100644", "a")(p); return absentID }},
		"no objects":                 {none, func(*packBuilder) string { return absentID }},
		"the id of a blob":           {none, func(p *packBuilder) string { one("100644", "a")(p); return git.SHA1.Sum("blob", []byte("x")) }},
		"the id of a tree":           {none, func(p *packBuilder) string { return p.tree(entry("100644", "a", p.blob("x"))) }},
		"the id of a tag":            {none, func(p *packBuilder) string { return p.tag(one("100644", "a")(p)) }},
		"the id in capitals":         {none, func(p *packBuilder) string { return strings.ToUpper(one("100644", "a")(p)) }},
		"an id of the other format":  {invalid, func(p *packBuilder) string { one("100644", "a")(p); return strings.Repeat("1", 64) }},
		"a name for an id":           {none, func(p *packBuilder) string { one("100644", "a")(p); return "HEAD" }},
		"an extra blob":              {invalid, func(p *packBuilder) string { p.blob("hidden"); return one("100644", "a")(p) }},
		"an extra tag":               {invalid, func(p *packBuilder) string { id := one("100644", "a")(p); p.tag(id); return id }},
		"an extra commit":            {invalid, func(p *packBuilder) string { id := one("100644", "a")(p); p.commit(p.tree(), id); return id }},
		"the parent":                 {invalid, func(p *packBuilder) string { tree := p.tree(); return p.commit(tree, p.commit(tree)) }},
		"an object twice":            {invalid, func(p *packBuilder) string { p.blob("x"); clear(p.seen); return one("100644", "a")(p) }},
		"a base outside of the pack": {invalid, func(p *packBuilder) string { p.delta(absentID, []byte{1, 1, 1, 'y'}); return one("100644", "a")(p) }},
		"a delta beyond its base":    {invalid, func(p *packBuilder) string { p.delta(p.blob("x"), []byte{1, 5, 0x90, 5}); return one("100644", "a")(p) }},
		"a delta of itself": {invalid, func(p *packBuilder) string {
			p.delta(git.SHA1.Sum("blob", []byte("y")), []byte{1, 1, 1, 'y'})
			return one("100644", "a")(p)
		}},
		"a delta of nothing": {invalid, func(p *packBuilder) string { p.delta(absentID, nil); return one("100644", "a")(p) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPack()
			id := c.build(p)
			src, err := openPack(t, p.bytes(), id)
			if reason.CodeOf(err) != c.code {
				t.Fatalf("%v, want %q", err, c.code)
			}
			if (src == nil) != (c.code != "") {
				t.Error("a refused pack has a source, or a good one has none")
			}
			if src != nil {
				received(t, src, id)
			}
		})
	}
}

func (p *packBuilder) tag(id string) string {
	return p.add("tag", []byte("object "+id+"\ntype commit\ntag v1\ntagger a <a@b> 1700000000 +0000\n\nm\n"))
}

// TestOpenPackRefusesDamage changes the bytes of a good pack: cut off, changed, longer, with a wrong head.
func TestOpenPackRefusesDamage(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	p := newPack()
	commit := p.commit(p.tree(entry("100644", "a", p.blob("hello")), entry("100644", "b", p.blob("world"))))
	good := p.bytes()
	if _, err := openPack(t, good, commit); err != nil {
		t.Fatal(err)
	}
	refused := func(name string, pack []byte) {
		t.Helper()
		if _, err := openPack(t, pack, commit); err == nil || reason.CodeOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	body := good[12 : len(good)-20]
	for i := 0; i < len(good); i += 2 {
		refused(fmt.Sprintf("cut off at %d", i), good[:i])
		changed := bytes.Clone(good)
		changed[i] ^= 0x41
		refused(fmt.Sprintf("changed at %d", i), changed)
	}
	for i := 0; i < len(body); i += 9 { // git's own checks are slower
		changed := bytes.Clone(body)
		changed[i] ^= 0x10
		refused(fmt.Sprintf("changed at %d, with the right checksum", i), sealPack(2, p.count, changed))
	}
	refused("longer", append(bytes.Clone(good), 'x'))
	refused("twice", append(bytes.Clone(good), good...))
	refused("version 3", sealPack(3, p.count, body))
	refused("version 1", sealPack(1, p.count, body))
	refused("one object more", sealPack(2, p.count+1, body))
	refused("one object less", sealPack(2, p.count-1, body))
	refused("four billion objects", sealPack(2, 1<<32-1, body))
	refused("not a pack", []byte(strings.Repeat("x", 1000)))
}

// TestOpenPackIsBounded sends little that stands for much. None of it may take as long, or as much memory, as it asks
// for.
func TestOpenPackIsBounded(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("\x00", 1<<20)
	for name, build := range map[string]func(p *packBuilder) string{
		"a blob that announces too much": func(p *packBuilder) string {
			p.head(3, MaxPackInflated+1)
			p.deflate([]byte("x"))
			return p.commit(p.tree())
		},
		"a blob that announces everything": func(p *packBuilder) string {
			p.head(3, 1<<59)
			p.deflate([]byte("x"))
			return p.commit(p.tree())
		},
		"one blob under many names": func(p *packBuilder) string {
			id := p.blob(big)
			var entries [][]byte
			for i := range MaxPackInflated/len(big) + 1 {
				entries = append(entries, entry("100644", fmt.Sprintf("f%06d", i), id))
			}
			return p.commit(p.tree(entries...))
		},
		"directories that hold the next ten times": func(p *packBuilder) string {
			tree := p.tree(entry("100644", "a", p.blob("x")))
			for range 30 {
				var entries [][]byte
				for i := range 10 {
					entries = append(entries, entry("40000", fmt.Sprint(i), tree))
				}
				tree = p.tree(entries...)
			}
			return p.commit(tree)
		},
		"a delta that announces too much": func(p *packBuilder) string {
			base := p.blob("x")
			p.delta(base, append([]byte{1}, binary.AppendUvarint(nil, MaxPackDelta+1)...))
			return p.commit(p.tree(entry("100644", "a", base)))
		},
		"a chain of deltas, each twice as large": func(p *packBuilder) string {
			content := []byte(strings.Repeat("x", 60000))
			base := p.add("blob", content)
			for size := len(content); size <= MaxPackDelta; size *= 2 {
				p.delta(base, growing(size))
				base = absentID // the check ends before it is looked for
			}
			return p.commit(p.tree())
		},
		"a long chain of deltas": func(p *packBuilder) string { return p.chain(MaxPackDepth + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPack()
			id := build(p)
			began := time.Now()
			_, err := openPack(t, p.bytes(), id)
			wantCode(t, err, reason.RepositoryInvalid)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("the longest chain that is allowed", func(t *testing.T) {
		t.Parallel()
		p := newPack()
		id := p.chain(MaxPackDepth)
		if _, err := openPack(t, p.bytes(), id); err != nil {
			t.Error(err)
		}
	})
}

// growing is a delta to a base of size bytes that is the base twice.
func growing(size int) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(size)), uint64(2*size))
	for range 2 {
		for done := 0; done < size; {
			n := min(size-done, 1<<16-1)
			d = append(d, 0xbf, byte(done), byte(done>>8), byte(done>>16), byte(done>>24), byte(n), byte(n>>8))
			done += n
		}
	}
	return d
}

// chain makes a commit of n+1 files, each but the first a delta to the one before.
func (p *packBuilder) chain(n int) string {
	content := []byte{'0'}
	base := p.add("blob", content)
	entries := [][]byte{entry("100644", "f000000", base)}
	for i := range n {
		delta := append([]byte{byte(len(content)), byte(len(content))}, byte(len(content)))
		content = fmt.Appendf(nil, "%d", i+1)
		delta[1], delta[2] = byte(len(content)), byte(len(content))
		p.delta(base, append(delta, content...))
		base = git.SHA1.Sum("blob", content)
		entries = append(entries, entry("100644", fmt.Sprintf("f%06d", i+1), base))
	}
	return p.commit(p.tree(entries...))
}

// TestOpenPackLimit counts the bytes of the pack, and stops reading.
func TestOpenPackLimit(t *testing.T) {
	t.Parallel()
	p := newPack()
	commit := p.commit(p.tree(entry("100644", "a", p.blob("hello"))))
	good := p.bytes()
	for limit, want := range map[int64]reason.Code{int64(len(good)): "", int64(len(good)) - 1: reason.RepositoryInvalid, 0: reason.RepositoryInvalid, -1: reason.RepositoryInvalid} {
		_, err := OpenPack(t.Context(), filepath.Join(t.TempDir(), "x"), bytes.NewReader(good), commit, limit)
		if reason.CodeOf(err) != want {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	endless := &endlessReader{head: sealPack(2, 1, nil)[:12]}
	_, err := OpenPack(t.Context(), filepath.Join(t.TempDir(), "x"), endless, commit, 1<<20)
	wantCode(t, err, reason.RepositoryInvalid)
	if endless.given > 2<<20 {
		t.Errorf("%d bytes were read", endless.given)
	}
}

// endlessReader goes on with a blob that is stored, not compressed, for ever.
type endlessReader struct {
	head  []byte
	given int
}

func (r *endlessReader) Read(p []byte) (int, error) {
	if len(r.head) == 12 {
		blob := newPack()
		blob.head(3, 1<<31)
		r.head = append(r.head, blob.b.Bytes()...)
		r.head = append(r.head, 0x78, 0x01)
		for range 100 {
			r.head = append(append(r.head, 0, 0xff, 0xff, 0, 0), make([]byte, 0xffff)...)
		}
	}
	n := copy(p, r.head[min(r.given, len(r.head)):])
	r.given += n
	if n == 0 {
		return 0, errors.New("more than a megabyte was asked for")
	}
	return n, nil
}

// TestOpenPackAndItsReader: what the reader says is not blamed on the pack, and who gives up gets his own reason.
func TestOpenPackAndItsReader(t *testing.T) {
	t.Parallel()
	p := newPack()
	commit := p.commit(p.tree(entry("100644", "a", p.blob("hello"))))
	good := p.bytes()
	broken := reason.Errorf(reason.StoreUnavailable, "the line is down")
	for _, at := range []int{0, 5, 12, 20, len(good) - 1, len(good)} {
		_, err := OpenPack(t.Context(), filepath.Join(t.TempDir(), "x"), &failingReader{bytes.NewReader(good[:at]), broken}, commit, packLimit)
		wantCode(t, err, reason.StoreUnavailable)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason.Errorf(reason.Cancelled, "enough"))
	_, err := OpenPack(ctx, filepath.Join(t.TempDir(), "x"), bytes.NewReader(good), commit, packLimit)
	wantCode(t, err, reason.Cancelled)

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = OpenPack(t.Context(), full, bytes.NewReader(good), commit, packLimit)
	wantCode(t, err, reason.OutputExists)
	if _, err := os.Stat(filepath.Join(full, "mine")); err != nil {
		t.Error("what was in the directory is gone")
	}
}

type failingReader struct {
	r   *bytes.Reader
	err error
}

func (f *failingReader) Read(p []byte) (int, error) {
	if f.r.Len() == 0 {
		return 0, f.err
	}
	return f.r.Read(p)
}
