package panel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// open opens a file of a session and compares it with the digest that its journal,
// its report or its manifest has of it. same is false where it differs; who shows
// the file says so.
func (p *Panel) open(ctx context.Context, s *Session, name string) (f io.ReadSeekCloser, n int64, same bool, err error) {
	f, n, err = p.opt.Home.Open(ctx, s.ID, name)
	if err != nil {
		return nil, 0, true, err
	}
	want, bytes := s.recorded(name)
	if want == "" {
		want = p.listed(ctx, s, name)
	}
	switch {
	case want == "" || s.Phase == Running: // what runs may write it anew
		return f, n, true, nil
	case bytes >= 0 && bytes != n:
		return f, n, false, nil // whatever its size is, it is not read whole for that
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, io.LimitReader(f, n)); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, true, fmt.Errorf("read %s: %w", name, err)
	}
	return f, n, hex.EncodeToString(sum.Sum(nil)) == strings.TrimPrefix(want, "sha256:"), nil
}

// recorded is the digest of a file that follows from the journal, and its size, -1
// where the journal does not have that.
func (s *Session) recorded(name string) (digest string, bytes int64) {
	bytes = -1
	for _, e := range s.Journal {
		var a evidence.ArtifactRecorded
		if e.Name != evidence.StepArtifact {
			continue
		}
		if decode(e.Outputs, &a); a.Path == name {
			digest, bytes = a.SHA256, a.Bytes
		}
	}
	if digest == "" && s.Report != nil {
		digest = s.Report.ArtifactDigests[name]
	}
	return digest, bytes
}

// maxManifest bounds what is read of a manifest.
const maxManifest = 4 << 20

// listed is the digest that the manifest of a sealed session has.
func (p *Panel) listed(ctx context.Context, s *Session, name string) string {
	if name == evidence.ManifestFile {
		return ""
	}
	src, err := p.readAll(ctx, s.ID, evidence.ManifestFile, maxManifest)
	if err != nil {
		return ""
	}
	lines, _ := bundle.ParseManifest(bundle.ProfileBundle, src)
	for _, l := range lines {
		if l.Path == name {
			return l.SHA256
		}
	}
	return ""
}

// shown are the artifacts of which the page of a run shows a part.
var shown = []string{evidence.PatchFile, evidence.TestResultsFile, evidence.TestLogFile}

// compareSealed notes which of the artifacts that a page shows are not as recorded.
func (p *Panel) compareSealed(ctx context.Context, d *runPage) error {
	for _, name := range shown {
		want, _ := d.recorded(name)
		f, _, same, err := p.open(ctx, d.Session, name)
		switch {
		case err == nil:
			if err := f.Close(); err != nil {
				return err
			}
		case reason.CodeOf(err) == reason.NotFound:
			same = want == "" || d.Phase == Running // else it was recorded, and is gone
		default:
			return err
		}
		if !same {
			d.NotSealed = append(d.NotSealed, name)
		}
	}
	return nil
}
