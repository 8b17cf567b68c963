package matrix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/canon"
	"remit/proof/evidence"
)

// maxRead bounds a file of a session that is held in memory; the fixtures'
// largest has some tens of kilobytes.
const maxRead = 64 << 20

// session is a session directory, read from disk.
type session struct {
	dir    string
	report *evidence.Report
	events []Event
}

func readSession(dir string) (*session, error) {
	s := &session{dir: dir}
	raw, err := s.read(evidence.ReportFile)
	if err != nil {
		return nil, err
	}
	if s.report, err = evidence.ReadReport(raw); err != nil {
		return nil, fmt.Errorf("reading %s: %w", evidence.ReportFile, err)
	}
	if raw, err = s.read(evidence.EventsFile); err != nil {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading %s: %w", evidence.EventsFile, err)
		}
		s.events = append(s.events, e)
	}
	return s, nil
}

func (s *session) read(name string) ([]byte, error) {
	f, err := os.Open(s.path(name))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() > maxRead {
		err = fmt.Errorf("has %d bytes, more than %d", info.Size(), maxRead)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return os.ReadFile(s.path(name))
}

// text is a file's content, empty if there is none: a check that looks for
// something in it then does not hold.
func (s *session) text(name string) string {
	b, err := s.read(name)
	if err != nil {
		return ""
	}
	return string(b)
}

func (s *session) has(name string) bool {
	info, err := os.Lstat(s.path(name))
	return err == nil && info.Mode().IsRegular()
}

func (s *session) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// event returns the last event of a type, nil if there is none.
func (s *session) event(kind string) *Event {
	for i := len(s.events) - 1; i >= 0; i-- {
		if s.events[i].Type == kind {
			return &s.events[i]
		}
	}
	return nil
}

// field is a text or number of an event's data, "" if it is not there.
func (e *Event) field(name string) string {
	if e == nil {
		return ""
	}
	data, ok := e.Data.(map[string]any)
	if !ok || data[name] == nil {
		return ""
	}
	b, err := json.Marshal(data[name])
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), `"`)
}

// span is one line of trace.jsonl.
type span struct {
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	EndedAt    *string         `json:"ended_at"`
	DurationMS int64           `json:"duration_ms"`
	Attributes json.RawMessage `json:"attributes"`
}

// span returns the first span of a step.
func (s *session) span(name string) (span, bool) {
	for line := range strings.Lines(s.text(evidence.TraceFile)) {
		var p span
		if json.Unmarshal([]byte(line), &p) == nil && p.Name == name {
			return p, true
		}
	}
	return span{}, false
}

// artifacts hashes every file that the report names, and says what is wrong
// with any.
func (s *session) artifacts() (list []Artifact, problems []string) {
	for _, name := range s.report.ArtifactPaths {
		a := Artifact{Path: name, WrittenAt: s.report.Freshness[name].WrittenAt, CheckedAt: s.report.Freshness[name].CheckedAt}
		b, err := s.read(name)
		if err == nil {
			a.Bytes = int64(len(b))
			a.SHA256, err = digest(name, b)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, name+" is missing")
		case err != nil:
			problems = append(problems, err.Error())
		case a.SHA256 != s.report.ArtifactDigests[name]:
			problems = append(problems, fmt.Sprintf("%s has %s, the report says %s", name, a.SHA256, s.report.ArtifactDigests[name]))
		}
		list = append(list, a)
	}
	return list, problems
}

// digest is a file's digest as the report means it: its own is that of the
// canonical report with this one value empty.
func digest(name string, b []byte) (string, error) {
	if name != evidence.ReportFile {
		return canon.Digest(b), nil
	}
	var rep, digests map[string]json.RawMessage
	if err := json.Unmarshal(b, &rep); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if err := json.Unmarshal(rep["artifact_digests"], &digests); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	digests[evidence.ReportFile] = json.RawMessage(`""`)
	var err error
	if rep["artifact_digests"], err = json.Marshal(digests); err != nil {
		return "", err
	}
	return canon.DigestOf(rep)
}
