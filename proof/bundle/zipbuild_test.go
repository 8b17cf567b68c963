package bundle

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// The recipe language of vectors/zip: a zip is described entry by entry and
// then broken. See vectors/zip/README.md for the instructions.

// side is one of the two headers of an entry.
type side struct {
	fields
	omit bool
}

// part is an entry under construction.
type part struct {
	handle         string
	text           []byte // unpacked
	packed         []byte
	listed         bool // in the manifest
	local, central side
	madeBy, disk   uint16
	internal       uint16
	external       uint32
	comment        string
	offset         *uint32 // overrides the real one
	descriptor     []byte
	before         []byte // bytes in front of the local header
}

type recipe struct {
	parts     []*part
	edits     [][2]string // of the manifest text
	manifest  *string
	comment   string
	atEnd     map[string]uint64
	gaps      map[string][]byte // "directory", "end"
	afterward []func([]byte) []byte
}

func buildZip(text string) (zip []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("recipe: %v", p)
		}
	}()
	r := &recipe{atEnd: map[string]uint64{}, gaps: map[string][]byte{}}
	var late [][]string // instructions on finished entries
	for line := range strings.Lines(text) {
		words := splitWords(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "base":
			r.base(words[1])
		case "file", "entry":
			r.parts = append(r.parts, newPart(words))
		case "manifest":
			r.manifest = &words[1]
		case "manifest-replace":
			r.edits = append(r.edits, [2]string{words[1], words[2]})
		default:
			late = append(late, words)
		}
	}
	r.addManifest()
	for _, p := range r.parts {
		p.fill()
	}
	for _, words := range late {
		r.apply(words)
	}
	out := r.encode()
	for _, f := range r.afterward {
		out = f(out)
	}
	return out, nil
}

// splitWords splits at spaces; a word may be a Go string in quotes.
func splitWords(line string) []string {
	var out []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '#' {
			break
		}
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			must(err)
			s, err := strconv.Unquote(q)
			must(err)
			out, line = append(out, s), line[len(q):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		out, line = append(out, word), rest
	}
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *recipe) base(name string) {
	files := map[string][]string{
		"bundle":   {"PR_SUMMARY.md", "# Summary\n", "RECEIPT.json", "{}\n", "journal.jsonl", "{\"seq\":0}\n", "proofs/workspace-clean.json", "{\"clean\":true}\n"},
		"portable": {"docs/read me.txt", "hello hello hello hello hello\n", "src/main.py", "print('hello')\n"},
	}[name]
	for i := 0; i < len(files); i += 2 {
		p := newPart([]string{"file", files[i], files[i+1]})
		if name == "portable" {
			p.local.method, p.local.date, p.local.time = methodDeflate, 0x5a21, 0x6000
		}
		r.parts = append(r.parts, p)
	}
}

// newPart is: file|entry NAME TEXT [as HANDLE].
func newPart(words []string) *part {
	p := &part{handle: words[1], text: []byte(words[2]), listed: words[0] == "file", madeBy: writtenMadeBy, external: writtenExternal}
	if len(words) == 5 && words[3] == "as" {
		p.handle = words[4]
	}
	if strings.HasSuffix(words[1], "/") {
		p.external, p.listed = (modeDir|0o755)<<16|0x10, false
	}
	p.local.fields = fields{name: words[1], needed: writtenNeeded, date: writtenDate}
	return p
}

func (r *recipe) addManifest() {
	if slices.ContainsFunc(r.parts, func(p *part) bool { return p.handle == ManifestName }) {
		return
	}
	var m Manifest
	for _, p := range r.parts {
		if p.listed {
			m = append(m, Line{SHA256: fmt.Sprintf("%x", sha256.Sum256(p.text)), Path: p.local.name})
		}
	}
	text := string(m.Bytes())
	if r.manifest != nil {
		text = *r.manifest
	}
	for _, e := range r.edits {
		if !strings.Contains(text, e[0]) {
			panic("manifest has no " + e[0])
		}
		text = strings.Replace(text, e[0], e[1], 1)
	}
	if text == "none" {
		return
	}
	p := newPart([]string{"entry", ManifestName, text})
	i, _ := slices.BinarySearchFunc(r.parts, ManifestName, func(p *part, n string) int { return strings.Compare(p.local.name, n) })
	if !slices.IsSortedFunc(r.parts, func(a, b *part) int { return strings.Compare(a.local.name, b.local.name) }) {
		i = len(r.parts)
	}
	r.parts = slices.Insert(r.parts, i, p)
}

// fill computes sizes, checksum and the central header.
func (p *part) fill() {
	p.packed = p.text
	if p.local.method == methodDeflate {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, 9)
		must(err)
		_, err = w.Write(p.text)
		must(err)
		must(w.Close())
		p.packed = b.Bytes()
		p.local.needed = 20
	}
	p.local.crc = crc32.ChecksumIEEE(p.text)
	p.local.size, p.local.packed = uint32(len(p.text)), uint32(len(p.packed))
	p.central = p.local
}

func (r *recipe) part(handle string) *part {
	i := slices.IndexFunc(r.parts, func(p *part) bool { return p.handle == handle })
	if i < 0 {
		panic("no entry " + handle)
	}
	return r.parts[i]
}

func (p *part) sides(which string) []*side {
	switch which {
	case "local":
		return []*side{&p.local}
	case "central":
		return []*side{&p.central}
	case "both":
		return []*side{&p.local, &p.central}
	}
	panic("local, central or both, not " + which)
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "_", ""))
	must(err)
	return b
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	must(err)
	return n
}

func (r *recipe) apply(w []string) {
	switch w[0] {
	case "deflate":
		p := r.part(w[1])
		p.local.method = methodDeflate
		p.fill()
	case "set":
		r.part(w[1]).set(w[2], w[3], number(w[4]))
	case "name":
		for _, s := range r.part(w[1]).sides(w[2]) {
			s.name = w[3]
		}
	case "extra":
		for _, s := range r.part(w[1]).sides(w[2]) {
			s.extra = append(s.extra, unhex(w[3])...)
		}
	case "comment":
		r.part(w[1]).comment = w[2]
	case "descriptor":
		r.part(w[1]).addDescriptor(w[2])
	case "data":
		p := r.part(w[1])
		p.packed = unhex(w[2])
		p.set("both", "packed", uint64(len(p.packed)))
	case "append-data":
		p := r.part(w[1])
		p.packed = append(p.packed, unhex(w[2])...)
		p.set("both", "packed", uint64(len(p.packed)))
	case "hide":
		r.part(w[1]).central.omit = true
	case "phantom":
		r.part(w[1]).local.omit = true
	case "last":
		p := r.part(w[1])
		r.parts = append(slices.DeleteFunc(r.parts, func(q *part) bool { return q == p }), p)
	case "before":
		p := r.part(w[1])
		p.before = unhex(w[2])
	case "gap":
		r.gaps[w[1]] = unhex(w[2])
	case "end":
		r.atEnd[w[1]] = number(w[2])
	case "archive-comment":
		r.comment = w[1]
	default:
		r.afterward = append(r.afterward, transform(w))
	}
}

// transform changes the finished bytes.
func transform(w []string) func([]byte) []byte {
	switch w[0] {
	case "prepend":
		return func(b []byte) []byte { return append(unhex(w[1]), b...) }
	case "append":
		return func(b []byte) []byte { return append(b, unhex(w[1])...) }
	case "prepend-zip", "append-zip":
		other, err := buildZip(strings.Join(w[1:], "\n"))
		must(err)
		if w[0] == "prepend-zip" {
			return func(b []byte) []byte { return append(other, b...) }
		}
		return func(b []byte) []byte { return append(b, other...) }
	case "truncate":
		return func(b []byte) []byte { return b[:len(b)-int(number(w[1]))] }
	case "keep":
		return func(b []byte) []byte { return b[:number(w[1])] }
	case "patch":
		return func(b []byte) []byte { copy(b[number(w[1]):], unhex(w[2])); return b }
	case "replace":
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(w[1])) || len(w[1]) != len(w[2]) {
				panic("cannot replace " + w[1])
			}
			return bytes.ReplaceAll(b, []byte(w[1]), []byte(w[2]))
		}
	}
	panic("unknown instruction " + w[0])
}

func (p *part) set(which, field string, n uint64) {
	switch field {
	case "madeby":
		p.madeBy = uint16(n)
		return
	case "internal":
		p.internal = uint16(n)
		return
	case "external":
		p.external = uint32(n)
		return
	case "mode":
		p.external = uint32(n) << 16
		return
	case "disk":
		p.disk = uint16(n)
		return
	case "offset":
		o := uint32(n)
		p.offset = &o
		return
	}
	for _, s := range p.sides(which) {
		switch field {
		case "needed":
			s.needed = uint16(n)
		case "flags":
			s.flags = uint16(n)
		case "method":
			s.method = uint16(n)
		case "time":
			s.time = uint16(n)
		case "date":
			s.date = uint16(n)
		case "crc":
			s.crc = uint32(n)
		case "packed":
			s.packed = uint32(n)
		case "size":
			s.size = uint32(n)
		default:
			panic("no field " + field)
		}
	}
}

// addDescriptor moves crc and sizes behind the data.
func (p *part) addDescriptor(kind string) {
	le := binary.LittleEndian
	if kind == "signed" {
		p.descriptor = le.AppendUint32(nil, sigDescriptor)
	}
	p.descriptor = le.AppendUint32(p.descriptor, p.central.crc)
	p.descriptor = le.AppendUint32(p.descriptor, p.central.packed)
	p.descriptor = le.AppendUint32(p.descriptor, p.central.size)
	p.local.flags |= flagDescriptor
	p.central.flags |= flagDescriptor
	p.local.crc, p.local.packed, p.local.size = 0, 0, 0
}

func (s *side) append(b []byte) []byte {
	le := binary.LittleEndian
	for _, v := range []uint16{s.needed, s.flags, s.method, s.time, s.date} {
		b = le.AppendUint16(b, v)
	}
	for _, v := range []uint32{s.crc, s.packed, s.size} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint16(b, uint16(len(s.name)))
	return le.AppendUint16(b, uint16(len(s.extra)))
}

func (r *recipe) encode() []byte {
	le := binary.LittleEndian
	var out, dir []byte
	entries := 0
	for _, p := range r.parts {
		out = append(out, p.before...)
		offset := uint32(len(out))
		if p.offset != nil {
			offset = *p.offset
		}
		if !p.local.omit {
			out = p.local.append(le.AppendUint32(out, sigLocal))
			out = append(append(append(out, p.local.name...), p.local.extra...), p.packed...)
			out = append(out, p.descriptor...)
		}
		if p.central.omit {
			continue
		}
		entries++
		dir = p.central.append(le.AppendUint16(le.AppendUint32(dir, sigCentral), p.madeBy))
		dir = le.AppendUint16(dir, uint16(len(p.comment)))
		dir = le.AppendUint16(le.AppendUint16(dir, p.disk), p.internal)
		dir = le.AppendUint32(le.AppendUint32(dir, p.external), offset)
		dir = append(append(append(dir, p.central.name...), p.central.extra...), p.comment...)
	}
	out = append(out, r.gaps["directory"]...)
	at := len(out)
	out = append(append(out, dir...), r.gaps["end"]...)
	field := func(name string, real int) uint64 {
		if n, ok := r.atEnd[name]; ok {
			return n
		}
		return uint64(real)
	}
	out = le.AppendUint32(out, sigEnd)
	out = le.AppendUint16(out, uint16(field("disk", 0)))
	out = le.AppendUint16(out, uint16(field("directory-disk", 0)))
	out = le.AppendUint16(out, uint16(field("entries-here", entries)))
	out = le.AppendUint16(out, uint16(field("entries", entries)))
	out = le.AppendUint32(out, uint32(field("size", len(dir))))
	out = le.AppendUint32(out, uint32(field("offset", at)))
	out = le.AppendUint16(out, uint16(field("comment", len(r.comment))))
	return append(out, r.comment...)
}
