package panel

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// pageDiff is how much of a change the page of a run has; the rest is a link away.
var pageDiff = bounds{most: 30, lines: 400, perFile: 160, bytes: 40_000, only: -1}

func (p *Panel) diffs(ctx context.Context, d *runPage) error {
	if len(d.Changed) == 0 {
		return nil
	}
	f, _, err := p.opt.Home.Open(ctx, d.ID, evidence.PatchFile)
	if reason.CodeOf(err) == reason.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	files, err := parseDiff(bufio.NewReader(f), pageDiff)
	if err != nil {
		return err
	}
	d.annotate(files)
	if most := 60; len(files) > most {
		files, d.FilesMore = files[:most], len(files)-most
	}
	d.Files = files
	return nil
}

// annotate says of each file which rule of the contract holds for it, and which
// lines no test notices. Code comes first, tests after.
func (d *runPage) annotate(files []diffFile) {
	for i := range files {
		f := &files[i]
		f.Test = isTest(f.Path)
		for _, b := range d.Blockers {
			if strings.HasPrefix(b.Message, f.Path+":") {
				f.Rule, f.Bad = strings.TrimSpace(strings.TrimPrefix(b.Message, f.Path+":")), true
			}
		}
		if d.Verified == nil || d.Verified.Observation == nil {
			continue
		}
		for _, h := range d.Verified.Observation.Unobserved {
			if h.Path != f.Path {
				continue
			}
			for k := range f.Lines {
				l := &f.Lines[k]
				n := l.New
				if h.Removed {
					n = l.Old
				}
				l.Unobserved = l.Unobserved || (l.Kind == "add") != h.Removed && l.Kind != "ctx" && n >= h.First && n <= h.Last
			}
		}
	}
	slices.SortStableFunc(files, func(a, b diffFile) int {
		switch {
		case a.Test == b.Test:
			return 0
		case b.Test:
			return -1
		}
		return 1
	})
}

// isTest reports whether a path looks like a test: it only orders the files.
func isTest(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.Contains(base, "_test.") || strings.HasPrefix(base, "test_") || strings.Contains(base, ".test.") ||
		strings.Contains(base, ".spec.") || strings.HasPrefix(path, "tests/") || strings.Contains(path, "/tests/")
}

// changesPage is one file of a change.
type changesPage struct {
	*Session
	File *diffFile
	Next string
	All  int

	NotSealed []string
}

// wholeDiff bounds one page of one file.
var wholeDiff = bounds{most: 1, lines: 1500, perFile: 1500, bytes: 120_000}

// changes shows one file of a change, a page at a time.
func (p *Panel) changes(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	s, err := p.session(r, v)
	if err != nil {
		return nil, err
	}
	file, from, err := whole(r, "file", "from")
	if err != nil {
		return nil, err
	}
	f, _, same, err := p.open(r.Context(), s, evidence.PatchFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := wholeDiff
	b.only, b.skip = int(file), int(from)
	files, err := parseDiff(bufio.NewReader(f), b)
	if err != nil {
		return nil, err
	}
	if int(file) >= len(files) {
		return nil, reason.Errorf(reason.NotFound, "the change has %s", count(len(files), "file"))
	}
	d := changesPage{Session: s, File: &files[file], All: len(files)}
	if !same {
		d.NotSealed = []string{evidence.PatchFile}
	}
	if d.File.Cut > 0 {
		d.Next = fmt.Sprintf("/runs/%s/changes?%s", url.PathEscape(s.ID), url.Values{"file": {fmt.Sprint(file)},
			"from": {fmt.Sprint(int(from) + len(d.File.Lines))}}.Encode())
	}
	return &page{name: "changes", Title: d.File.Path, Nav: "runs", Data: d}, nil
}

// whole reads two numbers of an address, 0 where there is none.
func whole(r *http.Request, first, second string) (a, b int64, err error) {
	for name, to := range map[string]*int64{first: &a, second: &b} {
		given := r.URL.Query().Get(name)
		if given == "" {
			continue
		}
		n, err := json.Number(given).Int64()
		if err != nil || n < 0 || n > 1<<40 {
			e := reason.Errorf(reason.RequestInvalid, "%.40q is not a number from 0 on", given)
			e.Field = name
			return 0, 0, e
		}
		*to = n
	}
	return a, b, nil
}
