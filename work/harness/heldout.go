package harness

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/tree"
)

// maxHeldOut bounds one held-out test.
const maxHeldOut = 16 << 20

// keepHeldOut puts the held-out tests of the contract among the evidence, now
// that the engine is dead, and gives them to the verifier.
func (r *run) keepHeldOut() ([]tree.Change, error) {
	for _, h := range r.Contract.HeldOutTests {
		name := heldOutName(h.SHA256)
		if r.artifact[name] {
			continue
		}
		content, err := readHeldOut(r.Contract.Dir, h.Source)
		if err != nil {
			return nil, fmt.Errorf("reading the held-out test %q: %w", h.Source, err)
		}
		if canon.Digest(content) != h.SHA256 {
			return nil, reason.Errorf(reason.ArtifactDigest, "the held-out test %q changed while the run went on", h.Source)
		}
		if err := r.writeHeldOut(name, content); err != nil {
			return nil, writeFailure(name, err)
		}
		if err := r.recordArtifact(name); err != nil {
			return nil, err
		}
	}
	return heldOutFrom(os.DirFS(r.session.Dir), r.Contract)
}

// readHeldOut never follows a link out of the task file's directory.
func readHeldOut(dir, source string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(source))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxHeldOut+1))
	if err == nil && len(content) > maxHeldOut {
		err = fmt.Errorf("is larger than %d bytes", maxHeldOut)
	}
	return content, err
}

func (r *run) writeHeldOut(name string, content []byte) error {
	root, err := os.OpenRoot(r.session.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(evidence.HeldOutDir, 0o700); err != nil {
		return err
	}
	return root.WriteFile(filepath.FromSlash(name), content, 0o600)
}

// heldOutFrom takes the held-out tests of a contract from its evidence and
// checks their digests.
func heldOutFrom(files fs.FS, c *task.Contract) ([]tree.Change, error) {
	var out []tree.Change
	for _, h := range c.HeldOutTests {
		content, err := fs.ReadFile(files, heldOutName(h.SHA256))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, reason.Errorf(reason.ArtifactMissing, "the held-out test %q is not in the evidence", h.Path)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the held-out test %q: %w", h.Path, err)
		}
		if canon.Digest(content) != h.SHA256 {
			return nil, reason.Errorf(reason.ArtifactDigest, "the held-out test %q is not the one that the contract names", h.Path)
		}
		text := string(content)
		out = append(out, tree.Change{Path: h.Path, Kind: tree.File, Size: int64(len(text)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }})
	}
	return out, nil
}

func heldOutName(digest string) string {
	return evidence.HeldOutDir + "/" + strings.TrimPrefix(digest, "sha256:")
}
