package ladder

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// The dimensions in which engines are compared. None of them is a figure: a lane
// keeps to one or does not.
const (
	DimensionShape     = "report_shape"
	DimensionEvents    = "event_validity"
	DimensionPaths     = "allowed_path_compliance"
	DimensionFailures  = "failure_closure"
	DimensionArtifacts = "artifact_completeness"
)

// DimensionNames lists them, in the order in which they are reported.
func DimensionNames() []string {
	return []string{DimensionShape, DimensionEvents, DimensionPaths, DimensionFailures, DimensionArtifacts}
}

// Shown is what the session of one lane shows.
type Shown struct {
	Lane    string
	Blocked reason.Code      // why the lane has no session that counts, "" where it has one
	Report  *evidence.Report // nil exactly if it is blocked
	Fields  []string         // of report.json
	// EventFault says what is wrong with the events, "" for nothing.
	EventFault string
	// Ends say how each failure class ended, as "status code"; nil where no class was
	// brought about.
	Ends map[string][]string
}

// Dimension is one dimension over all lanes.
type Dimension struct {
	Name  string          `json:"name"`
	Lanes []DimensionLane `json:"lanes"`
}

// DimensionLane is what one lane shows in it: pass, fail, or blocked for a lane
// that could not run.
type DimensionLane struct {
	Lane   string `json:"lane"`
	Status string `json:"status"`
	Detail string `json:"detail"`
}

// Dimensions holds each lane against all others. What one session lacks and
// another has is a failure of the one that lacks it; a lane that could not run is
// blocked, and measures no engine.
func Dimensions(lanes []Shown) []Dimension {
	out := make([]Dimension, 0, len(DimensionNames()))
	for _, name := range DimensionNames() {
		d := Dimension{Name: name, Lanes: []DimensionLane{}}
		for i := range lanes {
			line := DimensionLane{Lane: lanes[i].Lane, Status: evidence.StatusBlocked, Detail: string(lanes[i].Blocked)}
			if lanes[i].Report != nil {
				line.Status, line.Detail = evidence.StatusPass, lanes[i].lacks(name, lanes)
				if line.Detail != "" {
					line.Status = evidence.StatusFail
				}
			}
			d.Lanes = append(d.Lanes, line)
		}
		out = append(out, d)
	}
	return out
}

// Of is what a lane shows in the dimension.
func (d Dimension) Of(lane string) DimensionLane {
	if i := slices.IndexFunc(d.Lanes, func(l DimensionLane) bool { return l.Lane == lane }); i >= 0 {
		return d.Lanes[i]
	}
	return DimensionLane{Lane: lane, Status: evidence.StatusBlocked, Detail: "it is no lane of the comparison"}
}

// lacks says what the lane lacks in a dimension, "" for nothing.
func (s *Shown) lacks(dimension string, lanes []Shown) string {
	switch dimension {
	case DimensionShape:
		return without("report.json has no ", s.Fields, lanes, func(o *Shown) []string { return o.Fields })
	case DimensionEvents:
		return s.EventFault
	case DimensionPaths:
		if !s.Report.AllowedWritesPassed && len(s.Report.ChangedFiles) > 0 {
			return "the change left the allowed paths"
		}
	case DimensionFailures:
		return s.open(lanes)
	case DimensionArtifacts:
		return without("the session has no ", interfaceFiles(s), lanes, interfaceFiles)
	}
	return ""
}

// without names what other lanes have and this one has not.
func without(words string, own []string, lanes []Shown, of func(*Shown) []string) string {
	missing := map[string]bool{}
	for i := range lanes {
		if lanes[i].Report == nil {
			continue
		}
		for _, name := range of(&lanes[i]) {
			if !slices.Contains(own, name) {
				missing[name] = true
			}
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return words + strings.Join(slices.Sorted(maps.Keys(missing)), ", ")
}

// interfaceFiles are the files of the evidence interface that a session has. Raw
// logs and proofs are an engine's own, and follow from what it asked and how it ended.
func interfaceFiles(s *Shown) (names []string) {
	for _, name := range s.Report.ArtifactPaths {
		if !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// open says in what the lane fails to close its failures: a run that is no pass
// without a cause that has a code, or a failure class that ends otherwise than with
// another lane.
func (s *Shown) open(lanes []Shown) string {
	rep := s.Report
	if (rep.Status == evidence.StatusPass) != (len(rep.Blockers) == 0) {
		return fmt.Sprintf("it ended as %s with %d blockers", rep.Status, len(rep.Blockers))
	}
	for _, b := range rep.Blockers {
		if _, known := reason.Lookup(b.Code); !known {
			return fmt.Sprintf("it ended as %s without a cause that has a code", rep.Status)
		}
	}
	if rep.SourceRepositoryMutated {
		return "it changed the repository that it was to leave alone"
	}
	for class, ends := range s.Ends {
		for i := range lanes {
			if others, both := lanes[i].Ends[class]; both && !slices.Equal(ends, others) {
				return fmt.Sprintf("%s ends with %s, and for %s with %s", class, strings.Join(ends, ", "), lanes[i].Lane, strings.Join(others, ", "))
			}
		}
	}
	return ""
}

// EndsOf are the ends of the rows of the matrix in proofs, sorted. A code that is
// closer than the row's counts as the row's.
func EndsOf(proofs ...*Proof) map[string][]string {
	out := map[string][]string{}
	for _, p := range proofs {
		for _, s := range p.Failures {
			row, ok := RowNamed(s.Class)
			if !ok {
				continue // what refuses a run depends on how far the engine is
			}
			end := s.Status + " " + s.Code
			if Says(row.Code, reason.Code(s.Code)) {
				end = s.Status + " " + string(row.Code)
			}
			if !slices.Contains(out[s.Class], end) {
				out[s.Class] = append(out[s.Class], end)
				slices.Sort(out[s.Class])
			}
		}
	}
	return out
}
