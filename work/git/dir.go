package git

import (
	"fmt"
	"os"
	"path/filepath"
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
