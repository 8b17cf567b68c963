package redact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/law/secret"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/tree"
)

// scan is what was found in one artifact, as it was before anything was taken
// out of it.
type scan struct {
	Path        string `json:"path"`
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"`
	Hits        int64  `json:"hits"`
	Quarantined bool   `json:"quarantined"`

	hits     []hit
	held     int              // bytes of text in hits
	sections []secret.Finding // binary files in a patch
}

// Screen searches the artifacts of one session for secrets before their digests
// are recorded.
type Screen struct {
	*Secrets
	Dir        string // of the session
	Quarantine string // where the originals of artifacts go that hold a secret
	Kept       string // what a message calls that place
	// Binaries are the binary files that the patch makes, which stand in it
	// compressed: known is false where there is no tree to read them from.
	Binaries func(context.Context) (files []tree.Change, known bool, err error)
	// Found is called with each blocker as it is made.
	Found func(evidence.Blocker)
}

// Artifact looks for secrets in an artifact before its digest is recorded. If
// there is one, the original leaves the session and a redacted copy takes its
// place, so that what is recorded, sealed and exported is the copy; the
// blockers say what was found. The run fails and nothing of it is lost.
func (s Screen) Artifact(name string) ([]evidence.Blocker, error) {
	found, err := s.look(name, true)
	if err != nil {
		return nil, err
	}
	leaks := leaksOf(found.hits)
	earlier := s.scans[name]
	if earlier == nil || len(leaks) > 0 {
		s.scans[name] = found
	}
	if len(leaks) == 0 {
		return nil, nil
	}
	if err := s.quarantine(name, found, leaks); err != nil {
		return nil, err
	}
	found.Quarantined = true
	blocker := evidence.Blocker{Code: reason.SecretLeak, Evidence: ProofFile,
		Message: fmt.Sprintf("%s; it was redacted, and the original is kept outside of the bundle as %s/%s", describe(name, leaks, found.Hits), s.Kept, name)}
	s.Found(blocker)
	return []evidence.Blocker{blocker}, nil
}

// Holds reports whether a secret was found in an artifact.
func (s *Secrets) Holds(name string) bool {
	found := s.scans[name]
	return found != nil && found.Hits > 0
}

// describe names the first finds of an artifact.
func describe(name string, leaks []hit, all int64) string {
	first := leaks[0]
	where := fmt.Sprintf("at byte %d", first.Offset)
	if first.Place != "" {
		where += " of " + first.Place
	}
	text := fmt.Sprintf("%s holds %s %s", name, first.what(), where)
	if all > 1 {
		text += fmt.Sprintf(", and %d more", all-1)
	}
	return text
}

func (s *scan) add(h hit, text []byte) {
	s.Hits++
	if len(s.hits) == maxHits {
		return
	}
	if h.Kind != secret.Credential && s.held+len(text) <= maxHitText {
		h.text = shapeText(h.Finding, text)
		s.held += len(h.text)
	}
	s.hits = append(s.hits, h)
}

// look scans an artifact as it stands in the session; deep is to look into the
// binary files of a patch as well.
func (s Screen) look(name string, deep bool) (*scan, error) {
	f, err := os.Open(filepath.Join(s.Dir, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("looking for secrets: %w", err)
	}
	defer f.Close()
	out, sum, n := &scan{Path: name}, sha256.New(), new(counter)
	read := io.TeeReader(f, io.MultiWriter(sum, n))
	found := func(f secret.Finding, text []byte) { out.add(hit{Artifact: name, Finding: f}, text) }
	switch {
	case name == evidence.PatchFile:
		if out.sections, err = s.scanner.ScanPatch(read, found); err == nil && deep && len(out.sections) > 0 {
			err = s.lookIntoBinaries(out)
		}
	case strings.HasPrefix(name, evidence.HeldOutDir+"/"):
		// The contract names their digests. They are the user's own, and were
		// searched for credentials before the run began.
		err = s.scanner.Scan(read, secret.Values, found)
	default:
		err = s.scanner.Scan(read, secret.All, found)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for secrets in %s: %w", name, err)
	}
	out.Bytes, out.SHA256 = n.n, canon.DigestSum(sum)
	s.mu.Lock()
	defer s.mu.Unlock()
	out.hits = s.compare(out.hits)
	return out, nil
}

// lookIntoBinaries searches the binary files of the patch.
func (s Screen) lookIntoBinaries(out *scan) error {
	ctx, cancel := context.WithTimeout(context.Background(), binariesTime)
	defer cancel()
	files, known, err := s.Binaries(ctx)
	if err != nil {
		return err
	}
	if !known {
		for _, section := range out.sections {
			out.add(hit{Artifact: out.Path, Finding: section}, nil)
		}
		return nil
	}
	for _, file := range files {
		content, err := file.Open()
		if err != nil {
			return err
		}
		place := s.Redact(evidence.DisplayPath(file.Path))
		err = s.scanner.Scan(content, secret.All, func(f secret.Finding, text []byte) {
			out.add(hit{Artifact: out.Path, Place: place, Finding: f}, text)
		})
		if closeErr := content.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// binariesTime bounds the search of the binary files of one patch.
const binariesTime = 2 * time.Minute

// quarantine moves the original of an artifact out of the session and puts a
// redacted copy in its place. An original that cannot be moved is removed: a
// lost log is better than a sealed secret.
func (s Screen) quarantine(name string, found *scan, leaks []hit) error {
	here, there := filepath.Join(s.Dir, filepath.FromSlash(name)), filepath.Join(s.Quarantine, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(there), 0o700)
	if err == nil {
		err = os.Rename(here, there)
	}
	if err != nil {
		return fmt.Errorf("moving an artifact that holds a secret to the quarantine (it is removed instead): %w", errors.Join(err, os.Remove(here)))
	}
	if err := os.Chmod(there, 0o600); err != nil {
		return fmt.Errorf("closing the quarantine: %w", err)
	}
	cuts, whole := cutsOf(found, leaks)
	if !whole {
		if err := rewrite(here, there, func(dst io.Writer, src io.Reader) error {
			return secret.Copy(dst, src, cuts, name == evidence.PatchFile)
		}); err != nil {
			return err
		}
		// To take one secret out can bring another to a border where it shows.
		again, err := s.look(name, false)
		if err != nil {
			return err
		}
		if len(leaksOf(again.hits)) == 0 {
			return nil
		}
		if err := os.Remove(here); err != nil {
			return fmt.Errorf("removing what could not be redacted: %w", err)
		}
	}
	return rewrite(here, there, func(dst io.Writer, src io.Reader) error {
		if name == evidence.PatchFile {
			return s.scanner.OutlinePatch(dst, src)
		}
		_, err := fmt.Fprintf(dst, "This artifact held %d secrets and is left out.\n", found.Hits)
		return err
	})
}

// cutsOf says what is taken out of an artifact; whole if that is not known.
func cutsOf(found *scan, leaks []hit) (cuts []secret.Finding, whole bool) {
	binary := false
	for _, h := range leaks {
		if h.Place != "" || h.Kind == secret.BinaryContent {
			binary = true // its place in the patch is compressed
			continue
		}
		cuts = append(cuts, h.Finding)
	}
	if binary {
		cuts = append(cuts, found.sections...)
	}
	return cuts, found.Hits > int64(len(found.hits))
}

// rewrite makes a new file of another.
func rewrite(to, from string, f func(dst io.Writer, src io.Reader) error) error {
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("reading what is redacted: %w", err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing a redacted artifact: %w", err)
	}
	err = f(dst, src)
	if closeErr := dst.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing a redacted artifact: %w", errors.Join(err, os.Remove(to)))
	}
	return nil
}

// Rest looks at the files of the session that no step has recorded, and again
// at those that an earlier part of the run has: whatever is sealed was searched.
func (s Screen) Rest(recorded map[string]bool) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("looking for secrets: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == evidence.JournalFile || s.scans[name] != nil {
			return err
		}
		if !recorded[name] {
			_, err := s.Artifact(name)
			return err
		}
		found, err := s.look(name, false) // the binary files were looked into when it was recorded
		if err != nil {
			return err
		}
		if leaks := leaksOf(found.hits); len(leaks) > 0 {
			return reason.Errorf(reason.SecretLeak, "%s, and its digest is recorded already", describe(name, leaks, found.Hits)).
				WithHint("the session is not sealed: do not give it away")
		}
		_, err = os.Lstat(filepath.Join(s.Quarantine, filepath.FromSlash(name)))
		found.Quarantined = err == nil
		s.scans[name] = found
		return nil
	})
}

// counter counts bytes.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
