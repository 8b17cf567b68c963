package git

import (
	"crypto/sha1" //nolint:gosec // git's object ids are SHA-1 where the repository says so
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Dir says where git works. Nothing is discovered: what is not named here is not seen.
type Dir struct {
	Path       string   // the git directory, absolute; one that Create made
	Format     Format   // of its object ids
	Objects    string   // where objects are read and written; "" is Path/objects
	Alternates []string // further object directories, any bytes but NUL in their names
	Index      string   // the index file; "" is Path/index
	WorkTree   string   // only CheckIgnore looks at one
	Volatile   bool     // it is thrown away soon: nothing is forced to disk
	// Limit is how long one process, or one round of questions to a Batch, may
	// take; 0 is as long as the context allows. Beyond it the call ends with
	// reason timeout: git's work on a hostile tree or patch can grow faster than
	// its size.
	Limit time.Duration

	program string // in place of the git that Find found; only tests set it
}

// ObjectsDir returns the directory that objects are written to.
func (d Dir) ObjectsDir() string {
	if d.Objects != "" {
		return d.Objects
	}
	return filepath.Join(d.Path, "objects")
}

// Create writes an empty bare repository at path and returns it. It does not start git, so no template takes
// part. An existing one is completed, not emptied.
func Create(path string, format Format) (Dir, error) {
	if !format.Valid() {
		return Dir{}, fmt.Errorf("creating a git directory: unknown object format %q", format)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("creating a git directory: %w", err)
	}
	for _, sub := range []string{"objects", "refs", "info"} {
		if err := os.MkdirAll(filepath.Join(path, sub), 0o700); err != nil {
			return Dir{}, fmt.Errorf("creating a git directory: %w", err)
		}
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if format == SHA256 {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	for name, text := range map[string]string{
		"HEAD":            "ref: refs/heads/unborn\n",
		"config":          config,
		"info/attributes": Attributes,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			return Dir{}, fmt.Errorf("creating a git directory: %w", err)
		}
	}
	return Dir{Path: path, Format: format}, nil
}

// Format is the hash that a repository names its objects with.
type Format string

// The two formats that exist.
const (
	SHA1   Format = "sha1"
	SHA256 Format = "sha256"
)

// Valid says whether the format is known.
func (f Format) Valid() bool { return f == SHA1 || f == SHA256 }

// Size is the length of a binary object id.
func (f Format) Size() int {
	if f == SHA256 {
		return sha256.Size
	}
	return sha1.Size
}

// NewHash starts the hash of an object; write exactly size bytes of content to it.
func (f Format) NewHash(kind string, size int64) hash.Hash {
	h := f.newHash()
	var head [48]byte
	b := append(head[:0], kind...)
	b = strconv.AppendInt(append(b, ' '), size, 10)
	h.Write(append(b, 0))
	return h
}

func (f Format) newHash() hash.Hash {
	if f == SHA256 {
		return sha256.New()
	}
	return sha1.New() //nolint:gosec // see the import
}

// Sum is the id of an object, in hexadecimal.
func (f Format) Sum(kind string, content []byte) string {
	h := f.NewHash(kind, int64(len(content)))
	h.Write(content)
	return hexOf(h)
}

// EmptyTree is the id of the tree without entries.
func (f Format) EmptyTree() string { return f.Sum("tree", nil) }

// Zero is the id that stands for no object.
func (f Format) Zero() string { return zeros[:2*f.Size()] }

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// IsID says whether s is a full object id of this format, in lower-case hexadecimal.
func (f Format) IsID(s string) bool { return len(s) == 2*f.Size() && isHex(s) }

// FormatOf tells the format of a full id by its length; "" when s is none.
func FormatOf(id string) Format {
	for _, f := range []Format{SHA1, SHA256} {
		if f.IsID(id) {
			return f
		}
	}
	return ""
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

const hexDigits = "0123456789abcdef"

func hexOf(h hash.Hash) string {
	var sum [sha256.Size]byte
	return Hex(h.Sum(sum[:0]))
}

// Hex writes a binary id in hexadecimal.
func Hex(id []byte) string {
	var out [2 * sha256.Size]byte
	b := out[:0]
	for _, c := range id {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return string(b)
}
