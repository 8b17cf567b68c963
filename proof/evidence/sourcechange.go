package evidence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// SourceChange is what changed in the source repository while a run went on
// whose sandbox kept all that it started away from there. A person who works in
// their own repository is the usual cause. It says what and when, not who, and
// is not held against the run: the verdict is about the change, which was made
// and verified in copies of the base commit.
//
// A change that the sandbox could not have kept out is SourceChecked.Mutated
// instead, and fails the run.
type SourceChange struct {
	// From and To are when the source was looked at before and after.
	From string `json:"from"`
	To   string `json:"to"`
	// KeptOutBy is the sandbox driver, as the run opened with it.
	KeptOutBy string             `json:"kept_out_by"`
	Changes   []SourceDifference `json:"changes"`
}

// SourceDifference is one thing that is not as it was: "index", "refs:
// refs/heads/main", "worktree: notes.txt".
type SourceDifference struct {
	What string `json:"what"`
	// At is when the file system says that it changed last, "" where it does
	// not: of what is gone, or changed before the window or after it.
	At string `json:"at,omitempty"`
}

// keepsOut reports whether a sandbox driver keeps what it runs away from every
// file of its host that it was not given, and gives no file to write to. A
// driver that is not known here keeps nothing out.
func keepsOut(driver string) bool { return driver == "bwrap" }

// KeepsOut is keepsOut for the facts that a run opened with.
func (s SandboxFacts) KeepsOut() bool { return keepsOut(s.Driver) }

// sourceKept reports whether the source was left alone by the run, as far as
// the journal shows: nothing changed, or what did was out of the run's reach.
func (r *run) sourceKept() bool {
	s := r.source
	return s != nil && !s.Mutated && (s.Meanwhile == nil || r.opened.Host.Sandbox.KeepsOut() && s.Meanwhile.KeptOutBy == r.opened.Host.Sandbox.Driver)
}

// RunsPrograms reports whether one of the changes is in a place from which git
// starts programs: the hooks, the configuration, the attributes.
func (s *SourceChange) RunsPrograms() bool {
	return slices.ContainsFunc(s.Changes, func(d SourceDifference) bool { return d.order() == 0 })
}

// order puts what can start a program first: a flood of other changes must not
// keep it out of sight.
func (d SourceDifference) order() int {
	switch section, _, _ := strings.Cut(d.What, ":"); section {
	case "hooks", "config", "info":
		return 0
	}
	return 1
}

// maxSourceNamed is how many changes of the source a text for people names.
const maxSourceNamed = 5

// Sentence says what changed in a text for people. It claims no more than is
// known: not who it was.
func (s *SourceChange) Sentence() string {
	first := slices.Clone(s.Changes)
	slices.SortStableFunc(first, func(a, b SourceDifference) int { return a.order() - b.order() })
	var names []string
	for _, d := range first[:min(len(first), maxSourceNamed)] {
		names = append(names, d.What)
	}
	text := strings.Join(names, ", ")
	if more := len(s.Changes) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	text = fmt.Sprintf("changed while the run went on (%s); not judged, since the sandbox (%s) kept the run away from it", text, s.KeptOutBy)
	if s.RunsPrograms() {
		text += "; hooks, configuration and attributes can start programs: look at them if the change is not yours"
	}
	return text
}

// contradictSource holds the proof about the source against its step: the two
// looks at it differ exactly if the step says that something changed.
func (r *run) contradictSource(name string, body json.RawMessage, agree agreeFunc) {
	var looks struct {
		Before, After *struct{ Sections json.RawMessage }
		Meanwhile     *SourceChange `json:"changed_meanwhile"`
	}
	if json.Unmarshal(body, &looks) != nil {
		return
	}
	stated := r.source != nil && r.source.Meanwhile != nil
	agree(looks.Meanwhile == nil || stated, "proofs/%s.json does not say what its step found", name)
	if looks.Before == nil || looks.After == nil || len(looks.Before.Sections) == 0 || r.source == nil {
		return
	}
	same := string(looks.Before.Sections) == string(looks.After.Sections) // both are canonical
	agree(same == (!r.source.Mutated && !stated), "proofs/%s.json shows another source than its step found", name)
}
