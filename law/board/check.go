package board

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"remit/law/secret"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// Schema names the report of a check.
const Schema = "remit.records.check.v1"

// MaxFindings is how many findings a report lists.
const MaxFindings = 1_000

// Report is what came of a check.
type Report struct {
	Schema   string    `json:"schema"`
	OK       bool      `json:"ok"`
	Status   string    `json:"status"` // pass, or fail with at least one finding
	ExitCode int       `json:"exit_code"`
	Checked  Checked   `json:"checked"`
	Findings []Finding `json:"findings"` // by file and line
	Omitted  int       `json:"findings_omitted"`
}

// Checked counts what was looked at.
type Checked struct {
	Files    int `json:"files"`
	Records  int `json:"records"`
	Items    int `json:"items"`
	Evidence int `json:"evidence"`
}

// Finding is one thing that is wrong.
type Finding struct {
	File    string      `json:"file"` // relative to the folder
	Line    int         `json:"line"` // 0 where the file has none
	Rule    string      `json:"rule"`
	Code    reason.Code `json:"code"`
	Message string      `json:"message"`
}

// findings collects what is wrong. A message never repeats a credential.
type findings struct {
	list []Finding
	more int
}

func (f *findings) add(file string, line int, rule string, code reason.Code, format string, args ...any) {
	if len(f.list) == MaxFindings {
		f.more++
		return
	}
	clean := func(text string, most int) string {
		if len(text) > most {
			text = strings.ToValidUTF8(text[:most], "") + "…"
		}
		return secret.Redact(text, nil)
	}
	f.list = append(f.list, Finding{File: clean(file, 512), Line: line, Rule: rule, Code: code, Message: clean(fmt.Sprintf(format, args...), 1024)})
}

// Check reads the folder of records at dir and judges it as of now. The error is
// that of a folder that cannot be read; everything else is a finding.
func Check(dir string, now time.Time) (*Report, error) {
	out := &findings{}
	f, err := openFolder(dir, out)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	rep := &Report{Schema: Schema, Checked: Checked{Files: len(f.names)}}
	records := f.records(now, out)
	rep.Checked.Records = len(records)
	b := f.workboard(out)
	if b != nil {
		b.check(now, out)
		shows := b.pointers(f, out)
		rep.Checked.Items = len(b.items)
		for _, i := range b.items {
			rep.Checked.Evidence += len(i.Evidence)
		}
		for _, r := range records {
			r.statements(b.required, out)
			r.claims(shows, out)
		}
	}
	f.secrets(out)
	slices.SortStableFunc(out.list, func(x, y Finding) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line)) })
	rep.Findings, rep.Omitted = append([]Finding{}, out.list...), out.more
	rep.OK, rep.Status = len(out.list) == 0, evidence.StatusPass
	if !rep.OK {
		rep.Status = evidence.StatusFail
	}
	rep.ExitCode = evidence.ExitCode(rep.Status)
	return rep, nil
}

// records reads every record of the folder.
func (f *folder) records(now time.Time, out *findings) []*Record {
	var all []*Record
	named := map[string]string{}
	for _, name := range f.names {
		if !isRecord(name) {
			continue
		}
		src, err := f.read(name)
		if err != nil {
			out.add(name, 0, "folder.regular", reason.RecordUnreadable, "cannot be read")
			continue
		}
		r := front(name, src, out)
		if r == nil {
			continue
		}
		r.check(now, out)
		if other, twice := named[r.Name]; twice && r.Name != "" {
			out.add(name, r.lines["name"], "record.name", reason.RecordInvalid, "%q is the name of %s, too", r.Name, other)
		}
		named[r.Name] = name
		all = append(all, r)
	}
	return all
}

func (f *folder) workboard(out *findings) *workboard {
	if _, there := f.sizes[WorkboardFile]; !there {
		out.add(WorkboardFile, 0, "workboard.there", reason.WorkboardInvalid, "the folder has no %s", WorkboardFile)
		return nil
	}
	src, err := f.read(WorkboardFile)
	if err != nil {
		out.add(WorkboardFile, 0, "workboard.there", reason.RecordUnreadable, "cannot be read")
		return nil
	}
	return parseWorkboard(src, out)
}

// claims holds what a record says of itself against what the workboard shows.
func (r *Record) claims(s shown, out *findings) {
	if r.Status == validated && !s.records[r.file] {
		out.add(r.file, r.lines["status"], "record.validated", reason.PassWithoutReport, "is validated, and is the evidence of no validated item of the workboard")
	}
	if line := r.claimsPass(); line > 0 && !s.backed[r.file] {
		out.add(r.file, line, "record.pass", reason.PassWithoutReport, "claims a pass, and no item that names this record has a report that says pass")
	}
}

// secrets scans every file of the folder for what looks like a credential, and
// names the place without the text.
func (f *folder) secrets(out *findings) {
	scanner := secret.New(nil)
	for _, name := range f.names {
		file, err := f.open(name)
		if err != nil {
			out.add(name, 0, "folder.regular", reason.RecordUnreadable, "cannot be read")
			continue
		}
		lines := &lineCounter{r: io.LimitReader(file, MaxFileBytes)}
		err = scanner.Scan(lines, secret.All, func(found secret.Finding, _ []byte) {
			out.add(name, lines.at(found.Offset), "secret.shape", reason.SecretLeak, "holds a text with the form of a %s (%d bytes, digest %s)", found.Kind, found.Length, found.Digest)
		})
		if closing := file.Close(); err != nil || closing != nil {
			out.add(name, 0, "folder.regular", reason.RecordUnreadable, "cannot be read")
		}
	}
}

// lineCounter remembers where the lines of what is read through it begin.
type lineCounter struct {
	r    io.Reader
	read int64
	ends []int64 // offsets of line ends
}

// maxLines bounds the memory of a lineCounter; later lines count as the last one.
const maxLines = 1 << 20

func (l *lineCounter) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' && len(l.ends) < maxLines {
			l.ends = append(l.ends, l.read+int64(i))
		}
	}
	l.read += int64(n)
	return n, err
}

func (l *lineCounter) at(offset int64) int {
	i, _ := slices.BinarySearch(l.ends, offset)
	return i + 1
}
