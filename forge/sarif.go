package forge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// The parts of SARIF 2.1.0 that are written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Results     []sarifResult     `json:"results"`
		Properties  map[string]string `json:"properties"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string       `json:"id"`
		ShortDescription     sarifMessage `json:"shortDescription"`
		Help                 sarifMessage `json:"help"`
		DefaultConfiguration sarifLevel   `json:"defaultConfiguration"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool   `json:"executionSuccessful"`
		StartTimeUTC        string `json:"startTimeUtc"`
		EndTimeUTC          string `json:"endTimeUtc"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI       string `json:"uri"`
		URIBaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
		EndLine   int `json:"endLine,omitempty"`
	}
)

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	// sourceRoot is the base of paths in the repository; others are files of the bundle.
	sourceRoot = "SRCROOT"
	// ruleUnobserved is the one rule that is no reason code: no test notices a part of
	// the change.
	ruleUnobserved = "verify.unobserved_change"
)

// SARIF writes what speaks against the change of the session in dir: a result for each
// blocker, whose rule is its reason code, and a note for each part of the change that no
// test notices. A run that passed without such a part has no results.
func SARIF(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	run := sarifRun{Tool: sarifTool{sarifDriver{Name: "remit", Rules: []sarifRule{}}}, Results: []sarifResult{},
		Properties: map[string]string{"session_id": c.receipt.SessionID,
			"policy_bundle_id": c.receipt.PolicyBundleID, "trajectory_hash": c.receipt.TrajectoryHash, "status": c.report.Status, "receipt_sha256": c.digest},
		// The tool did its work whatever it found; a verdict is no failure of it.
		Invocations: []sarifInvocation{{ExecutionSuccessful: true, StartTimeUTC: c.receipt.StartedAt, EndTimeUTC: c.receipt.CompletedAt}}}
	changed := map[string]bool{}
	for _, name := range c.report.ChangedFiles {
		changed[name] = true
	}
	for _, b := range c.report.Blockers {
		info, known := reason.Lookup(b.Code)
		if !known {
			info = reason.Info{Code: b.Code, Domain: "unknown", Status: reason.Blocked, Description: string(b.Code)}
		}
		level := "error"
		if info.Status == reason.Blocked {
			level = "warning" // something was not allowed, or could not be checked
		}
		run.add(sarifRule{ID: info.String(), ShortDescription: sarifMessage{info.Description},
			Help: sarifMessage{cmp.Or(b.Hint, info.HintFor(c.report.Checked != nil), info.Description)}},
			level, cmp.Or(b.Message, info.Description), locate(b, changed))
	}
	if o := c.report.Observation; o != nil {
		for _, h := range o.Unobserved {
			place := sarifPhysical{ArtifactLocation: sarifArtifact{URI: uriOf(h.Path), URIBaseID: sourceRoot}, Region: regionOf(h)}
			run.add(sarifRule{ID: ruleUnobserved, ShortDescription: sarifMessage{"no test notices this part of the change"},
				Help: sarifMessage{"taken back alone, it makes no command fail: add a test for it"}}, "note",
				"no test notices the change of "+h.Place(), []sarifLocation{{place}})
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}})
}

// add adds a result, and its rule where it is the first one of it.
func (r *sarifRun) add(rule sarifRule, level, message string, at []sarifLocation) {
	rules := &r.Tool.Driver.Rules
	index := -1
	for i := range *rules {
		if (*rules)[i].ID == rule.ID {
			index = i
		}
	}
	if index < 0 {
		rule.DefaultConfiguration.Level = level
		index = len(*rules)
		*rules = append(*rules, rule)
	}
	r.Results = append(r.Results, sarifResult{RuleID: rule.ID, RuleIndex: index, Level: level, Message: sarifMessage{message}, Locations: at})
}

// locate is where a blocker is seen: the changed file that it is about, else the
// artifact that shows it.
func locate(b evidence.Blocker, changed map[string]bool) []sarifLocation {
	switch {
	case changed[b.Evidence]:
		return []sarifLocation{{sarifPhysical{ArtifactLocation: sarifArtifact{URI: uriOf(b.Evidence), URIBaseID: sourceRoot}}}}
	case b.Evidence != "" && path.Clean(b.Evidence) == b.Evidence && !path.IsAbs(b.Evidence) && !strings.HasPrefix(b.Evidence, "../"):
		return []sarifLocation{{sarifPhysical{ArtifactLocation: sarifArtifact{URI: uriOf(b.Evidence)}}}}
	}
	return nil
}

// regionOf is where a part of the change stands in the patched file: nowhere, where its
// lines are those of the base, or it has none.
func regionOf(h evidence.HunkOfPatch) *sarifRegion {
	if h.Removed || h.First < 1 {
		return nil
	}
	return &sarifRegion{StartLine: h.First, EndLine: max(h.First, h.Last)}
}

// uriOf is a relative path as a URI: every byte outside of the unreserved ones is
// escaped, so that no name becomes a scheme, a query or a fragment.
func uriOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
