package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"remit/proof/evidence"
	"remit/work/verify"
)

// Difference is one field of report.json in which two runs differ.
type Difference struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// incidental are the fields that two equal runs differ in anyway.
var incidental = []string{"session_id", "run_started_at", "run_finished_at", "artifact_digests", "freshness"}

// Compare says in which fields the reports of two sessions differ.
func Compare(a, b Session) ([]Difference, error) {
	left, err := reportFields(a)
	if err != nil {
		return nil, err
	}
	right, err := reportFields(b)
	if err != nil {
		return nil, err
	}
	for field := range right {
		if _, ok := left[field]; !ok {
			left[field] = json.RawMessage("null")
		}
	}
	out := []Difference{}
	for _, field := range slices.Sorted(maps.Keys(left)) {
		if slices.Contains(incidental, field) || bytes.Equal(left[field], right[field]) {
			continue
		}
		out = append(out, Difference{field, string(left[field]), string(right[field])})
	}
	return out, nil
}

// reportFields are the fields of a session's report, without the times inside
// its verification list.
func reportFields(s Session) (map[string]json.RawMessage, error) {
	st, err := s.Inspect()
	if err != nil {
		return nil, err
	}
	for i := range st.Report.Verification {
		v := &st.Report.Verification[i]
		v.DurationMS, v.StdoutSHA256, v.StderrSHA256 = 0, "", ""
	}
	text, err := json.Marshal(st.Report)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(text, &fields)
}

// Open opens an artifact of the session.
func (s Session) Open(name string) (*os.File, error) {
	return os.Open(filepath.Join(s.Dir, filepath.FromSlash(name)))
}

// Report reads report.json of a sealed session.
func (s Session) Report() (*evidence.Report, error) {
	raw, err := os.ReadFile(filepath.Join(s.Dir, evidence.ReportFile))
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	return evidence.ReadReport(raw)
}

// eventLine is progress of the verifier for a person.
func eventLine(e verify.Event) string {
	what := e.Run
	switch what {
	case verify.TreeTwin:
		what = fmt.Sprintf("twin %d (tests edited, some so that they must fail)", e.Repetition)
	case verify.TreeNewTests:
		what = "new tests on the base's code"
	case verify.TreeHunk:
		what = fmt.Sprintf("without part %d of the change", e.Repetition)
	}
	if e.Kind == verify.CommandFinished {
		return fmt.Sprintf("verify %s: command %d exited with %d after %d ms", what, e.Command+1, e.ExitCode, e.DurationMS)
	}
	return fmt.Sprintf("verify %s: %s", what, e.Kind)
}
