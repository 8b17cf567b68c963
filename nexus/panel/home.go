package panel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Home is the sessions of a machine, as the panel reads them. It changes nothing.
// Errors about a session that is not there have the code not_found.
type Home interface {
	// List is every session that was read so far, the newest first, and how many
	// there are.
	List(ctx context.Context) (sessions []Summary, all int, err error)
	// Session is one with its journal, of which every entry was checked.
	Session(ctx context.Context, id string) (*Session, error)
	// Version is a number that grows with a session's journal, and whether the run
	// goes on. It is cheap enough to be asked often.
	Version(ctx context.Context, id string) (version int64, running bool, err error)
	// Open opens a file that the session's manifest lists, or its journal.
	Open(ctx context.Context, id, name string) (io.ReadSeekCloser, int64, error)
	// Export writes a sealed session in one of [ExportForms]. It checks the bundle first,
	// and then writes nothing that does not follow from it.
	Export(ctx context.Context, id, to string, w io.Writer) error
	// Audit checks the bundle of a session, and runs no command.
	Audit(ctx context.Context, id string) (*bundle.Report, error)
}

// The phases of a session.
const (
	Running     = "running"
	Interrupted = "interrupted"
	Unsealed    = "unsealed"
	Sealed      = "sealed"
	Damaged     = "damaged" // its journal cannot be read
)

// DamagedSession is one whose journal cannot be read, for the reason that it has.
// Nothing that the journal says is shown.
func DamagedSession(id string, why *reason.Error) *Session {
	said := why.Message
	if place := filepath.Base(why.File); why.File != "" && why.Line > 0 {
		said = fmt.Sprintf("%s:%d: %s", place, why.Line, said)
	} else if why.File != "" {
		said = place + ": " + said
	}
	return &Session{Summary: Summary{ID: id, Phase: Damaged, Status: Damaged, Title: id, Code: string(why.Code), Why: said}}
}

// Session is one run of this machine.
type Session struct {
	Summary
	Journal []journal.Entry
	Report  *evidence.Report // nil before the first entry
	Torn    int64            // bytes of an incomplete last line
}

// Summary is what a list shows of a session. It follows from the journal.
type Summary struct {
	ID, Phase           string
	Status              string // pass, fail, blocked; "running" or "interrupted" without an end
	Title, Task         string
	Contract            string // its digest: attempts at one task have the same
	Engine, Version     string
	Provider, Model     string // as asked
	Repository, Base    string
	Started, Ended      time.Time
	Code, Why           string // of the first blocker
	Outcome             string
	Changed             []string
	ChangedMore         int // files that are not among those
	Added, Removed      int
	Measured            bool // a verification said what follows
	Fixed, Broken, Kept int
	NotRun              int // tests that ran before and did not run on the change
	Requests            int64
	Tokens, MicroUSD    int64
	CostKnown           *bool // nil: nothing was asked of a model
	Patch               string
	Nexus               *NexusFacts // of a run that a nexus shows, else nil

	words string // what a search looks at, in lower case
}

// Summarize reads a journal that was checked: it is the summary that a nexus has
// of the run but for digests, with what only this machine knows. Repository is how it calls where the
// run started, and never a path.
func Summarize(id, phase, repository string, entries []journal.Entry) (s Summary) {
	defer s.index()
	s = Summary{ID: id, Phase: phase, Status: phase, Repository: repository}
	if len(entries) == 0 {
		return s
	}
	told, err := evidence.OutlineOf(entries)
	if err != nil {
		s.Why = err.Error()
		return s
	}
	if o, err := evidence.OpenedOf(entries); err == nil {
		s.Contract = o.ContractSHA256
	}
	s.take(told)
	if s.Ended.IsZero() {
		s.Code, s.Why = "", "" // it may yet go on, or end otherwise
	} else if s.Status = *told.Status; phase == Unsealed && s.Status == evidence.StatusPass {
		s.Status = evidence.StatusBlocked // nothing counts as passed that no audit accepts
	}
	return s
}

// take takes over what the summary of a run says, but for its status.
func (s *Summary) take(told *evidence.RunSummary) {
	s.Title, s.Task, s.Base = cmp.Or(told.Title, s.Title), told.TaskID, string(told.BaselineCommit)
	s.Engine, s.Version = told.Engine.Name, told.Engine.Version
	s.Provider, s.Model, s.Patch = api.Value(told.ModelProvider), api.Value(told.Model), api.Value(told.PatchSHA256)
	if at := instant(told.StartedAt); !at.IsZero() {
		s.Started = at
	}
	if at := instant(api.Value(told.FinishedAt)); !at.IsZero() {
		s.Ended = at
	}
	s.Outcome = cmp.Or(s.Outcome, told.Outcome)
	if b := told.Blocker; b != nil {
		s.Code, s.Why = string(b.Code), b.Message
	}
	if c := told.Changed; c != nil {
		s.Added, s.Removed, s.ChangedMore = c.Added, c.Removed, c.Files-len(c.List)
		for _, f := range c.List {
			s.Changed = append(s.Changed, f.Path)
		}
	}
	if t := told.Tests; t != nil {
		s.Measured, s.Fixed, s.Kept, s.Broken, s.NotRun = true, t.Fixed, t.Kept, t.Broken, t.Missing
	}
	s.Requests, s.Tokens = api.Value(told.Requests), api.Value(told.Tokens)
	s.MicroUSD, s.CostKnown = api.Value(told.CostMicroUSD), told.CostKnown
}

// decode reads what an entry holds. The journal was checked when it was read; what
// this version does not know stays zero, and the audit says so.
func decode(raw json.RawMessage, v any) { _ = json.Unmarshal(raw, v) }

// index collects what a search looks at: title, task, engine, model, repository, id,
// reason and files.
func (s *Summary) index() {
	s.words = strings.ToLower(strings.Join(slices.Concat([]string{s.Title, s.Task, s.Engine, s.Provider, s.Model, s.Repository, s.ID, s.Code,
		s.Why, s.Base}, s.Changed), "\n"))
}

// has reports whether a search finds the session by all of its words.
func (s *Summary) has(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.words, w) })
}

// Took is how long the run lasted, or has lasted so far.
func (s Summary) Took(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return -1
	case !s.Ended.IsZero():
		return s.Ended.Sub(s.Started)
	case s.Phase == Running:
		return now.Sub(s.Started)
	}
	return -1
}

// Word is the status as a page says it.
func (s Summary) Word() string { return statusWord(s.Status) }

// Mark is the shape of the status, the name of a symbol and a class.
func (s Summary) Mark() string { return markOf(s.Status) }

func markOf(status string) string {
	switch status {
	case evidence.StatusPass:
		return "pass"
	case evidence.StatusFail:
		return "fail"
	case evidence.StatusBlocked, Interrupted, Unsealed, Damaged:
		return "block"
	case Running:
		return "run"
	}
	return "none"
}

func statusWord(status string) string {
	switch status {
	case evidence.StatusPass:
		return "Pass"
	case evidence.StatusFail:
		return "Fail"
	case evidence.StatusBlocked:
		return "Blocked"
	case Running:
		return "Running"
	case Interrupted:
		return "Interrupted"
	case Damaged:
		return "Damaged"
	}
	return status
}

// CostCell is what a run cost, without a unit; "–" where that is not known.
func (s Summary) CostCell() string {
	switch {
	case s.CostKnown == nil:
		return "–"
	case !*s.CostKnown && s.MicroUSD == 0:
		return "–"
	}
	amount := strings.TrimPrefix(money(s.MicroUSD), "$")
	if !*s.CostKnown {
		return "≥ " + amount
	}
	return amount
}

// CostWhy is why the cost is not a figure, "" if it is.
func (s Summary) CostWhy() string {
	switch {
	case s.CostKnown == nil && s.Nexus != nil:
		return s.Nexus.Unknown["cost_micro_usd"]
	case s.CostKnown == nil:
		return "no model was asked"
	case !*s.CostKnown && s.MicroUSD == 0:
		return "what the model cost is not known"
	case !*s.CostKnown:
		return "part of the cost is not known"
	}
	return ""
}

// Unmeasured is why there is no number of tests.
func (s Summary) Unmeasured() string {
	if s.Nexus != nil && s.Nexus.Unknown["tests"] != "" {
		return s.Nexus.Unknown["tests"]
	}
	return "nothing was measured"
}

// Unchanged is why no file is named.
func (s Summary) Unchanged() string {
	if s.Nexus != nil && s.Nexus.Unknown["changed"] != "" {
		return s.Nexus.Unknown["changed"]
	}
	if s.Phase == Interrupted || s.Phase == Damaged {
		return "not known: the run was cut off before its change was taken over"
	}
	return "nothing was changed"
}

// Program reports whether the engine is a command of who runs it, whatever a machine
// calls it.
func (s Summary) Program() bool { return s.Engine == "command" || s.Nexus != nil && s.Nexus.Program }

// BrokenCell counts the tests that passed before and fail now, and those that did not
// run any more, if there are some.
func (s Summary) BrokenCell() string {
	if s.NotRun == 0 {
		return itoa(int64(s.Broken))
	}
	return fmt.Sprintf("%d, %d not run", s.Broken, s.NotRun)
}

// Figures are what a row of a list says of the run, in its order: tests fixed and
// broken, lines, cost in dollars and how long it took. What is not known is "–".
func (s Summary) Figures(now time.Time) (fixed, broken, lines, cost, lasted string) {
	fixed, broken, lines = "–", "–", "–"
	if s.Measured {
		fixed, broken = itoa(int64(s.Fixed)), s.BrokenCell()
	}
	if len(s.Changed) > 0 {
		lines = "+" + itoa(int64(s.Added)) + " -" + itoa(int64(s.Removed))
	}
	return fixed, broken, lines, s.CostCell(), took(s.Took(now))
}

// Href is the page of the run.
func (s Summary) Href() string {
	if s.Nexus != nil {
		return "/nexus/runs/" + url.PathEscape(s.Nexus.RunID)
	}
	return "/runs/" + url.PathEscape(s.ID)
}

// OutcomeWord is what became of the result, "" while there is none.
func (s Summary) OutcomeWord() string {
	return map[string]string{"accepted": "Accepted", "rejected": "Rejected", "reverted": "Reverted", "failing": "Failing"}[s.Outcome]
}
