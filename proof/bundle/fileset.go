package bundle

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
)

// fileSet is the read-only view of hashed members that the content gates get.
// Directories are derived from the names. Files stream, and a reader that
// reaches the end of one has read exactly what was hashed, or gets an error.
type fileSet struct {
	files map[string]*member
	names []string // in the order of compareTree
	zip   string   // digest of the zip, "" for a directory
}

// newFileSet is the view of the content that is being audited.
func (a *audit) newFileSet() *fileSet {
	s := newFileSet(a.contents.files)
	s.zip = a.report.ZipSHA256
	return s
}

// ZipSHA256 is the digest of the zip that holds the files; of a directory, that
// of the zip which [WriteZip] makes of it. It is "" when there is none.
func (s *fileSet) ZipSHA256() string {
	if s.zip != "" {
		return s.zip
	}
	files := slices.Collect(maps.Values(s.files))
	slices.SortFunc(files, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	sum := sha256.New()
	if checkSealed(files) != nil || withHasher(func(h *hasher) error { return writeEntries(sum, h, files) }) != nil {
		return ""
	}
	return digestText(sum.Sum(nil))
}

// newFileSet leaves out names that no fs.FS can hold; they are findings of
// gate 2.
func newFileSet(files []*member) *fileSet {
	s := &fileSet{files: make(map[string]*member, len(files))}
	for _, f := range files {
		if fs.ValidPath(f.name) && s.files[f.name] == nil {
			s.files[f.name] = f
			s.names = append(s.names, f.name)
		}
	}
	slices.SortFunc(s.names, compareTree)
	return s
}

// list returns the entries of a directory, sorted by name; nil if no file is
// below it. What lies deeper is skipped by binary search.
func (s *fileSet) list(dir string) []fs.DirEntry {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	var out []fs.DirEntry
	i, _ := slices.BinarySearchFunc(s.names, prefix, compareTree)
	for i < len(s.names) && strings.HasPrefix(s.names[i], prefix) {
		name, _, below := strings.Cut(s.names[i][len(prefix):], "/")
		if !below {
			out = append(out, fs.FileInfoToDirEntry(s.files[s.names[i]].info()))
			i++
			continue
		}
		out = append(out, fs.FileInfoToDirEntry(memberInfo{name: name, dir: true}))
		sub := prefix + name + "/"
		i += sort.Search(len(s.names)-i, func(k int) bool { return !strings.HasPrefix(s.names[i+k], sub) })
	}
	return out
}

// Open implements fs.FS.
func (s *fileSet) Open(name string) (fs.File, error) {
	fail := func(err error) (fs.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	f, ok := s.files[name]
	if !ok {
		if list := s.list(name); len(list) > 0 || name == "." {
			return &openDir{info: memberInfo{name: path.Base(name), dir: true}, list: list}, nil
		}
	}
	switch {
	case !ok:
		return fail(fs.ErrNotExist)
	case f.err != nil:
		return fail(f.err)
	}
	r, err := f.open()
	if err != nil {
		return fail(err)
	}
	return &openMember{member: f, r: r, sha: sha256.New()}, nil
}

// read returns the whole content of a small member, verified.
func (f *member) read() ([]byte, error) {
	r, err := f.open()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	_, err = io.Copy(&text, &openMember{member: f, r: r, sha: sha256.New()})
	return text.Bytes(), errors.Join(err, r.Close())
}

// openMember reads a member and checks at its end that it is what was hashed.
type openMember struct {
	*member
	r    io.ReadCloser
	sha  hash.Hash
	done int64
}

func (o *openMember) Stat() (fs.FileInfo, error) { return o.info(), nil }
func (o *openMember) Close() error               { return o.r.Close() }

func (o *openMember) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := o.r.Read(p)
	o.done += int64(n)
	o.sha.Write(p[:n])
	if o.done > o.size || errors.Is(err, io.EOF) && !bytes.Equal(o.sha.Sum(nil), o.sum[:]) {
		return 0, &fs.PathError{Op: "read", Path: o.name, Err: errChanged}
	}
	return n, err
}

// openDir is a directory being listed.
type openDir struct {
	info memberInfo
	list []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }
func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: errors.New("is a directory")}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.list) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.list) {
		n = len(d.list)
	}
	out := slices.Clone(d.list[:n])
	d.list = d.list[n:]
	return out, nil
}

// memberInfo describes files and directories without times: a bundle has none
// that would be evidence.
type memberInfo struct {
	name string
	size int64
	dir  bool
}

func (f *member) info() memberInfo {
	return memberInfo{name: f.name[strings.LastIndex(f.name, "/")+1:], size: f.size}
}

func (i memberInfo) Name() string       { return i.name }
func (i memberInfo) Size() int64        { return i.size }
func (i memberInfo) ModTime() time.Time { return time.Time{} }
func (i memberInfo) IsDir() bool        { return i.dir }
func (i memberInfo) Sys() any           { return nil }
func (i memberInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
