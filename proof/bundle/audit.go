package bundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"remit/proof/reason"
)

// Audit checks the zip file or directory at path and reports every gate. The
// error is for an audit that could not take place at all (path cannot be
// opened, options make no sense, ctx ended); there is no report then, and so
// nothing that could be taken for a pass.
func Audit(ctx context.Context, path string, opt Options) (*Report, error) {
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	name := filepath.Base(filepath.Clean(path))
	switch {
	case info.IsDir():
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		defer func() { _ = root.Close() }() // read-only handle of a directory
		return newAudit(name, opt).directory(ctx, root)
	case info.Mode().IsRegular():
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		return newAudit(name, opt).file(ctx, f)
	}
	return nil, fmt.Errorf("audit %q: neither a directory nor a regular file", path)
}

// validate refuses options that would let a mistake of the caller look like a
// check that was made.
func (o Options) validate() error {
	if o.Profile != "" && o.Profile != ProfileBundle && o.Profile != ProfilePortable {
		return fmt.Errorf("unknown profile %q", o.Profile)
	}
	seen := map[string]bool{}
	for _, g := range o.Gates {
		if !slices.Contains(contentGates, g.Name) || seen[g.Name] || g.Check == nil && g.State == nil {
			return fmt.Errorf("gate %q is unknown, given twice or without a check", g.Name)
		}
		seen[g.Name] = true
	}
	for _, g := range o.Further {
		if g.Name == "" || g.Check == nil && g.State == nil || seen[g.Name] || slices.Contains(allGates, g.Name) {
			return fmt.Errorf("further gate %q has the name of another, or no check", g.Name)
		}
		seen[g.Name] = true
	}
	if o.Extract != "" {
		return checkEmpty(o.Extract)
	}
	return nil
}

// audit is one audit in progress.
type audit struct {
	opt      Options
	lim      limits
	report   *Report
	found    findings // of gates 1 and 2
	contents *contents
}

func newAudit(name string, opt Options) *audit {
	return &audit{opt: opt, lim: defaultLimits, report: &Report{
		Schema: ReportSchema, Path: name, Profile: opt.Profile, Gates: []GateResult{}, Commands: []Command{},
	}}
}

// directory audits the files below root.
func (a *audit) directory(ctx context.Context, root *os.Root) (*Report, error) {
	a.contents = scanDirectory(root, a.lim, &a.found)
	a.settleProfile()
	if err := hashAll(ctx, a.contents.hashable); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	for _, f := range a.contents.files {
		if f.err != nil && !errors.Is(f.err, errNotRead) {
			a.found.add(reason.ZipUnreadable, f.name, "%v", f.err)
		}
	}
	return a.gates(ctx)
}

// file audits an open zip file and notices when it is being changed.
func (a *audit) file(ctx context.Context, f *os.File) (*Report, error) {
	before, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	report, err := a.zip(ctx, f, before.Size())
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !unchanged(before, after) {
		return nil, errors.Join(fmt.Errorf("audit: %q changed while it was being audited", a.report.Path), err)
	}
	return report, nil
}

// zip audits the zip in r. Its own digest is computed beside those of the
// entries, on another processor.
func (a *audit) zip(ctx context.Context, r io.ReaderAt, size int64) (*Report, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var whole [sha256.Size]byte
	done := make(chan error, 1)
	go func() {
		done <- withHasher(func(h *hasher) (err error) {
			whole, _, _, err = h.sum(reading, nil, io.NewSectionReader(r, 0, size), size)
			return err
		})
	}()
	err := a.readZip(reading, r, size)
	if err != nil {
		stop()
	}
	if err := errors.Join(err, <-done); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	a.report.ZipSHA256 = digestText(whole[:])
	return a.gates(ctx)
}

func (a *audit) readZip(ctx context.Context, r io.ReaderAt, size int64) error {
	c, zip := scanZip(r, size, a.lim)
	a.contents = c
	a.settleProfile()
	err := hashAll(ctx, c.hashable)
	if err != nil {
		return err
	}
	if c.complete {
		zip.contentFindings()
		if a.report.Profile == ProfileBundle {
			zip.checkCanonical()
		}
	}
	a.found.addAll(zip.findings.all())
	return nil
}

// settleProfile detects the profile and holds all names against it.
func (a *audit) settleProfile() {
	c := a.contents
	if !c.complete {
		return
	}
	if a.report.Profile == "" {
		a.report.Profile = detect(c.files)
	}
	checkNames(a.report.Profile, c.names, &a.found)
	a.report.Entries = len(c.files)
	for _, f := range c.files {
		a.report.Bytes += f.size
	}
}
