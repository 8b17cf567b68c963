package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"remit/proof/reason"
	"remit/work/verify/results"
)

// The base phase depends on nothing of the patch, so it can be kept and used
// for the next patch against the same baseline. A record holds all that Judge
// reads of it, what it has shown about each test included. Only a phase that says the same
// when it is run again may be kept; see Reusable.

// MaxRecord bounds the record of a phase.
const MaxRecord = 16 << 20

type recordedPhase struct {
	Runs  []recordedRun  `json:"runs"`
	Proof *recordedProof `json:"proof"`
	Held  []string       `json:"held_out,omitempty"`
}

type recordedRun struct {
	RunResult
	Commands []recordedCommand `json:"commands"` // in the place of those of RunResult
}

type recordedCommand struct {
	CommandResult
	Tests     map[string]results.Outcome `json:"per_test"`
	Direct    bool                       `json:"direct"`
	Complete  bool                       `json:"complete"`
	Filed     bool                       `json:"filed,omitempty"`
	Empty     bool                       `json:"empty"`
	Failed    []string                   `json:"failed_names"`
	Messages  map[string]string          `json:"messages"`
	Transient []string                   `json:"transient"`
}

// recordedProof is a baseProof without the sources of the tests: these are read
// from the tree that they are used for, and must have the digest.
type recordedProof struct {
	Reason string            `json:"reason"`
	InTree bool              `json:"in_tree"`
	Hides  []int             `json:"hides,omitempty"`
	Quiet  map[string]string `json:"quiet,omitempty"` // the files of the framework
	Loud   string            `json:"loud,omitempty"`  // why there is none
	Left   []string          `json:"left"`
	Groups []recordedGroup   `json:"groups"`
	Files  []recordedFile    `json:"files"`
}

type recordedGroup struct {
	First  int    `json:"first"`
	End    int    `json:"end"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

type recordedFile struct {
	Path   string               `json:"path"`
	SHA256 string               `json:"sha256"`
	Pkg    string               `json:"pkg"`
	Lang   string               `json:"lang"`
	Go     string               `json:"go_version"`
	Finder string               `json:"finder"`
	Held   bool                 `json:"held_out"`
	Hidden bool                 `json:"hidden,omitempty"`
	Tests  map[string]baseFacts `json:"tests"`
}

// Reusable says why a phase may not stand for another run of the same
// commands over the same tree, nil when it may. What depends on more than the
// tree is not kept: an infrastructure fault, a limit that was reached, a signal,
// repetitions that disagree, and a command that failed without saying which
// tests did: it may have lacked a module that is there the next time.
func (r *PhaseResult) Reusable() error {
	if len(r.Findings) > 0 || len(r.Runs) == 0 {
		return errors.New("the phase has findings, or did not run")
	}
	first := map[string]*RunResult{}
	for i := range r.Runs {
		run := &r.Runs[i]
		if run.Fault != nil || run.OOMKilled || len(run.Rewritten) > 0 {
			return fmt.Errorf("the run of tree %s has a fault, or changed its tests", run.Tree)
		}
		for j := range run.Commands {
			c := &run.Commands[j]
			if !c.Started || c.Signal != "" || c.TimedOut || c.OutputExceeded {
				return fmt.Errorf("%q was not run to its end", c.Command)
			}
			if c.starved {
				return fmt.Errorf("%q failed for lack of a resource, or seems to have", c.Command)
			}
			if run.Tree != TreeTwin && !c.Passed && !c.settled() {
				return fmt.Errorf("%q failed, and its tests do not say why", c.Command)
			}
		}
		if run.Tree == TreeTwin {
			continue // each has tests that must fail
		}
		if earlier := first[run.Tree]; earlier == nil {
			first[run.Tree] = run
		} else if !sameOutcome(earlier, run) {
			return errors.New("the repetitions disagree")
		}
	}
	return r.failedTwice()
}

// failedTwice says why a base that failed is not known to fail again: a test
// failed in the plain run and not in each run of the control, which leaves it as
// it is.
func (r *PhaseResult) failedTwice() error {
	if len(r.Unstable) > 0 {
		return fmt.Errorf("%s does not always fail", r.Unstable[0])
	}
	for i := range r.Commands {
		if !r.Commands[i].Passed && len(r.twins()) == 0 {
			return fmt.Errorf("%q failed once, and once is no fact to keep", r.Commands[i].Command)
		}
	}
	return nil
}

// settled says whether a failed command failed because of tests that it names.
func (c *CommandResult) settled() bool {
	if !c.complete || c.Tests == nil || c.Tests.Passed+c.Tests.Failed == 0 || c.Tests.Failed == 0 {
		return false
	}
	for id := range c.transient {
		if c.PerTest[id] == results.Fail {
			return false
		}
	}
	return true
}

func sameOutcome(a, b *RunResult) bool {
	return slices.EqualFunc(a.Commands, b.Commands, func(x, y CommandResult) bool {
		return x.ExitCode == y.ExitCode && x.Passed == y.Passed && maps.Equal(x.PerTest, y.PerTest)
	})
}

// Same says whether two base phases came to the same result.
func (r *PhaseResult) Same(other *PhaseResult) bool {
	return slices.EqualFunc(r.Runs, other.Runs, func(a, b RunResult) bool { return a.Tree == b.Tree && (a.Tree == TreeTwin || sameOutcome(&a, &b)) })
}

// Record encodes a base phase that is Reusable.
func (r *PhaseResult) Record() ([]byte, error) {
	if err := r.Reusable(); err != nil {
		return nil, err
	}
	if r.Phase != PhaseBase {
		return nil, fmt.Errorf("phase %s cannot be recorded", r.Phase)
	}
	var out recordedPhase
	for _, run := range r.Runs {
		kept := recordedRun{RunResult: run}
		for _, c := range run.Commands {
			kept.Commands = append(kept.Commands, recordedCommand{c, c.PerTest, c.direct, c.complete, c.filed, c.emptyRun, c.failedNames, c.messages, slices.Sorted(maps.Keys(c.transient))})
		}
		out.Runs = append(out.Runs, kept)
	}
	out.Proof, out.Held = r.proof.record(), r.heldOut
	text, err := json.Marshal(out)
	if err == nil && len(text) > MaxRecord {
		err = fmt.Errorf("the record has %d bytes, the limit is %d", len(text), MaxRecord)
	}
	return text, err
}

// ReadRecord decodes a base phase and refuses what Base would not return for
// the commands, or Record not keep.
func ReadRecord(text []byte, commands []string) (*PhaseResult, error) {
	if len(text) > MaxRecord {
		return nil, reason.Errorf(reason.SchemaInvalid, "a record of %d bytes, the limit is %d", len(text), MaxRecord)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var in recordedPhase
	if err := dec.Decode(&in); err != nil {
		return nil, reason.Errorf(reason.SchemaInvalid, "reading the record of a phase: %w", err)
	}
	r := &PhaseResult{Phase: PhaseBase, Repeats: 1, heldOut: in.Held}
	for _, kept := range in.Runs {
		run := kept.RunResult
		run.Commands = nil
		for _, c := range kept.Commands {
			c.PerTest, c.direct, c.complete, c.emptyRun, c.failedNames, c.messages = c.Tests, c.Direct, c.Complete, c.Empty, c.Failed, c.Messages
			c.filed = c.Filed
			if c.PerTest != nil {
				c.transient = map[string]bool{}
			}
			for _, id := range c.Transient {
				c.transient[id] = true
			}
			run.Commands = append(run.Commands, c.CommandResult)
		}
		if run.Tree == TreeTwin {
			r.Runs = append(r.Runs, run)
		} else {
			r.add(run)
		}
	}
	r.proof = in.Proof.read()
	return r, r.checkRecord(commands)
}

// record is what is kept of a proof.
func (b *baseProof) record() *recordedProof {
	if b == nil {
		return nil
	}
	out := &recordedProof{Reason: b.reason}
	for _, g := range b.groups {
		out.Groups = append(out.Groups, recordedGroup{g.first, g.end, g.by, g.reason})
	}
	if b.suite == nil {
		return out
	}
	out.InTree, out.Left, out.Hides = b.suite.inTree, b.suite.left, b.suite.hides
	out.Quiet, out.Loud = b.suite.framework.files, b.suite.framework.why
	for _, f := range b.suite.files {
		kept := recordedFile{f.path, f.sha256, f.pkg, f.lang, f.version, f.finder, f.heldOut, f.hidden, make(map[string]baseFacts)}
		for _, t := range f.tests {
			kept.Tests[t.name] = t.baseFacts
		}
		out.Files = append(out.Files, kept)
	}
	return out
}

// read is the proof that was recorded. Its suite has no sources: see suite.at.
func (k *recordedProof) read() *baseProof {
	if k == nil {
		return nil
	}
	b := &baseProof{reason: k.Reason}
	for _, g := range k.Groups {
		b.groups = append(b.groups, groupProof{view{g.First, g.End}, g.By, g.Reason})
	}
	if len(k.Files) == 0 {
		return b
	}
	b.suite = &suite{inTree: k.InTree, left: k.Left, hides: k.Hides, framework: framework{k.Quiet, k.Loud}}
	for i, f := range k.Files {
		file := &suiteFile{path: f.Path, lang: f.Lang, sha256: f.SHA256, pkg: f.Pkg, version: f.Go, finder: f.Finder, heldOut: f.Held, hidden: f.Hidden, key: "f" + strconv.Itoa(i)}
		for _, name := range slices.Sorted(maps.Keys(f.Tests)) {
			file.tests = append(file.tests, &suiteTest{file: file, name: name, baseFacts: f.Tests[name]})
		}
		b.suite.files = append(b.suite.files, file)
	}
	return b
}

// checkRecord holds a decoded phase to the form that Base gives it.
func (r *PhaseResult) checkRecord(commands []string) error {
	if err := r.Reusable(); err != nil {
		return reason.Errorf(reason.SchemaInvalid, "the record of a phase: %w", err)
	}
	wrong := r.Runs[0].Tree != TreeBase || r.Runs[0].Repetition != 1 ||
		slices.ContainsFunc(r.Runs[1:], func(run RunResult) bool { return run.Tree != TreeTwin }) ||
		!slices.EqualFunc(r.Commands, commands, func(c CommandResult, given string) bool { return c.Command == given })
	if r.proof != nil {
		at := 0
		for _, g := range r.proof.groups {
			wrong = wrong || g.first != at || g.end <= g.first || g.end > len(commands) || g.by != "" && g.by != byTest && g.by != byExit
			at = g.end
		}
		wrong = wrong || r.proof.reason == "" && (at != len(commands) || r.proof.suite == nil)
	}
	if wrong {
		return reason.Errorf(reason.SchemaInvalid, "the record of a phase is not one of these commands")
	}
	return nil
}
