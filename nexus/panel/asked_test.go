//go:build !race

package panel

import (
	"slices"
	"strings"
	"testing"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// TestPageAnswers: what a person asks who has nothing but the page of a run that did
// not pass.
func TestPageAnswers(t *testing.T) {
	t.Parallel()
	phase := func(name string, code int) journal.Entry {
		return entry(30, name, name, journal.Completed, 5*time.Second, 0, nil,
			evidence.VerifyPhase{Runs: []evidence.CommandRun{{Command: "make <b>test</b>", ExitCode: code, Passed: code == 0}}})
	}
	judged := func(v evidence.VerificationCompleted) func(*Session) {
		return func(s *Session) {
			for i := range s.Journal {
				if s.Journal[i].Name == evidence.StepVerification {
					s.Journal[i] = entry(10, evidence.StepVerification, "verify", journal.Failed, 6*time.Second, 0, nil, v)
				}
			}
			s.Summary = Summarize(s.ID, s.Phase, s.Repository, s.Journal)
		}
	}
	for name, c := range map[string]struct {
		home      *memoryHome
		says, not string
	}{
		"what was run": {with(func(s *Session) { s.Engine = "command" }, entry(31, evidence.StepEngine, "again", journal.Started, 2*time.Second, 0,
			evidence.EngineStarted{Argv: []string{"sh", "-c", "echo 'a' > b"}}, nil)), `<code>sh -c &#39;echo &#39;\&#39;&#39;a&#39;\&#39;&#39; &gt; b&#39;</code>`, ""},
		"not for an agent": {with(func(*Session) {}, entry(31, evidence.StepEngine, "again", journal.Started, 2*time.Second, 0,
			evidence.EngineStarted{Argv: []string{"agent", "--secret"}}, nil)), "", "What was run on a copy"},
		"it failed before too": {with(func(*Session) {}, phase(evidence.StepVerifyBase, 127), phase(evidence.StepVerifyHead, 127)),
			"<code>make &lt;b&gt;test&lt;/b&gt;</code> base: exit 127, change: exit 127. It failed before the change too.", ""},
		"it fails since": {with(func(*Session) {}, phase(evidence.StepVerifyBase, 0), phase(evidence.StepVerifyHead, 1)), "base: passed, change: exit 1.", "It failed before the change too"},
		"no test was read": {func() *memoryHome {
			h := with(judged(evidence.VerificationCompleted{Control: &evidence.Control{Status: "none"}}))
			delete(h.files, evidence.TestResultsFile)
			return h
		}(), "No single test was read", "no test that passed before fails now"},
		"it was stopped": {with(func(s *Session) {
			s.Report.Blockers = []evidence.Blocker{{Code: reason.Timeout, Message: "the engine was stopped after 2 s"}}
			judged(evidence.VerificationCompleted{PassToFail: []string{"a", "b"}})(s)
			s.Code, s.Why = string(reason.Timeout), s.Report.Blockers[0].Message
		}), "the engine was stopped after 2 s. What it had changed until then breaks 2 tests that passed before; it is kept.", "Nothing was delivered"},
		"where it was cut off": {with(func(s *Session) {
			s.Phase, s.Journal = Interrupted, s.Journal[:3]
			s.Summary = Summarize(s.ID, s.Phase, s.Repository, s.Journal)
			s.Report = nil
		}), "The run was cut off during the step Engine, which began 1.0 s after the run. Nothing of it counts as passed.", "nothing was changed"},
		"its change is not known": {with(func(s *Session) {
			s.Phase, s.Journal = Interrupted, s.Journal[:3]
			s.Summary = Summarize(s.ID, s.Phase, s.Repository, s.Journal)
			s.Report = nil
		}), "not known: the run was cut off before its change was taken over", ""},
		"a run that was not needed": {with(func(*Session) {},
			entry(40, evidence.StepVerifyHead, "head", journal.Started, 4*time.Second, 0, nil, nil),
			entry(41, evidence.StepVerifyRun, "run-2", journal.Started, 4*time.Second, 0, evidence.VerifyRunStarted{Tree: "twin"}, nil),
			entry(42, evidence.StepVerifyRun, "run-2", journal.Skipped, 4*time.Second, 0, nil, nil)), "not run: it was no longer needed", "0 of 0"},
		"what it printed last": {printing("first\n" + strings.Repeat("line\n", 9) + "<b>last</b>\n"), "printed last · not checked</p><blockquote>line\nline\nline\nline\nline\n&lt;b&gt;last&lt;/b&gt;</blockquote>", "first"},
		"its words stand for it": {func() *memoryHome {
			h := printing("printed\n")
			h.sessions[0].Journal[6] = entry(6, evidence.StepEngine, "engine", journal.Completed, time.Second, time.Second, nil, evidence.EngineFinished{Summary: "said"})
			return h
		}(), "says · not checked</p><blockquote>said</blockquote>", "printed last"},
		"what it printed was changed": {func() *memoryHome {
			h := printing("printed\n")
			h.files[streams[1]] = "another\n"
			return h
		}(), "not as sealed: <code>" + streams[1], ""},
		"the tests did not run": {with(func(s *Session) {
			s.Journal = slices.DeleteFunc(s.Journal, func(e journal.Entry) bool { return e.Name == evidence.StepVerification })
		}, phase(evidence.StepVerifyBase, 1)), "The verification commands did not run on this change", "Tests <span"},
		"no engine was started": {func() *memoryHome {
			h := with(func(s *Session) { s.Journal = append(s.Journal[:2:2], s.Journal[11]) })
			h.sessions[0].Summary = Summarize(h.sessions[0].ID, Sealed, "r", h.sessions[0].Journal)
			delete(h.files, evidence.PatchFile)
			return h
		}(), "nothing was changed: no engine was started", "remit logs"},
		"the missing gate in words": {hostileHome(), `<span class="sr"> missing</span>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "the missing") {
				given := entry(13, evidence.StepContract, "contract", journal.Completed, 0, 0, nil, nil)
				given.Inputs = []byte(`{"contract":` + contract(t) + `}`)
				c.home.sessions[0].Journal = append(c.home.sessions[0].Journal, given)
			}
			body := pageOf(t, c.home, "")
			if !strings.Contains(body, c.says) || c.not != "" && strings.Contains(body, c.not) {
				t.Errorf("it does not say %q, or says %q:\n%s", c.says, c.not, body[strings.Index(body, "<main"):])
			}
		})
	}
	if got := (&runPage{Session: &Session{Summary: Summary{Engine: "pi"}}}).Named("`remit agent setup NAME` installs it"); got != "`remit agent setup pi` installs it" {
		t.Errorf("named %q", got)
	}
	if got := typed([]string{"a", "", "b c", "d"}); got != "a '' 'b c' d" {
		t.Errorf("typed %q", got)
	}
}

// printing is a home of a run whose engine has printed something, and said nothing.
func printing(text string) *memoryHome {
	h := with(func(s *Session) {
		s.Journal[6] = entry(6, evidence.StepEngine, "engine", journal.Completed, time.Second, time.Second, nil, evidence.EngineFinished{})
	}, entry(32, evidence.StepArtifact, "artifact-out", journal.Completed, 5*time.Second, 0, nil,
		evidence.ArtifactRecorded{Path: streams[1], SHA256: canon.Digest([]byte(text)), Bytes: int64(len(text))}))
	h.files[streams[1]] = text
	return h
}

// TestReasonLeadsToItsFile: a file that shows why is a link where the session has it,
// and a word where it has not.
func TestReasonLeadsToItsFile(t *testing.T) {
	t.Parallel()
	h := with(func(s *Session) {
		s.Report.Blockers = []evidence.Blocker{{Code: reason.Timeout, Message: "m", Evidence: "backend/stderr.log"}, {Code: reason.NoDiff, Message: "m", Evidence: "../../etc/passwd"}}
	}, entry(20, evidence.StepArtifact, "artifact-backend/stderr.log", journal.Completed, 0, 0, nil, evidence.ArtifactRecorded{Path: "backend/stderr.log"}))
	body := pageOf(t, h, "")
	if strings.Count(body, `/log/backend/stderr.log"><code>backend/stderr.log`) < 1 || strings.Contains(body, `href="/runs/`+h.sessions[0].ID+`/log/../`) {
		t.Error("the link is not there, or leads elsewhere")
	}
}
