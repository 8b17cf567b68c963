package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
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
