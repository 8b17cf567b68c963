package panel

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
)

// command is what to type, and what that does.
type command struct{ Line, Does string }

// wanted are the reasons for which a change was not taken that say nothing against
// having it: a person may look at it and go on.
var wanted = []reason.Code{reason.VerificationFailed, reason.FlakyVerification, reason.ControlMissing, reason.ChangeUnobserved,
	reason.BaseIncomplete, reason.ReviewRequired, reason.ReviewerRejected, reason.MissingTestCommand, reason.LifecycleTimeout, reason.Timeout, reason.BudgetExhausted,
	reason.Cancelled, reason.AuthUnavailable, reason.ProviderRefused, reason.ProviderUnavailable, reason.QuotaExhausted,
	reason.ResponseShape, reason.EngineFailed, reason.AgentProtocolFailed}

// usable reports whether the change is one that a person may want in their tree:
// every path is allowed, and nothing stands against it but such reasons.
func (d *runPage) usable() bool {
	return len(d.Changed) > 0 && len(d.NotSealed) == 0 && d.Report != nil && d.Report.AllowedWritesPassed &&
		!slices.ContainsFunc(d.Report.Blockers, func(b evidence.Blocker) bool { return !slices.Contains(wanted, b.Code) })
}

// commands are what to type next.
func (d *runPage) commands() {
	say := func(line, does string) { d.Commands = append(d.Commands, command{line, does}) }
	apply := "remit diff " + d.ID + " | git apply"
	switch {
	case d.Phase == Damaged:
		say("remit audit "+d.ID, "Says what is damaged, file by file.")
		return
	case d.Phase == Interrupted || d.Phase == Unsealed:
		say("remit resume "+d.ID, "Goes on where the run stopped, or seals what there is.")
		return
	case d.Phase == Running:
		say("remit logs "+d.ID, "Prints what the engine and the tests printed.")
		return
	case d.Status == evidence.StatusPass && len(d.NotSealed) == 0:
		if d.Report != nil && d.Report.OperatorOutcome == evidence.Pending {
			say("remit accept "+d.ID, "Records that you take the change.")
			say("remit reject "+d.ID+` --reason "why"`, "Records that you do not, and takes a delivered branch back.")
		}
		say(apply, "Puts the change into the working tree where you type it.")
	default:
		if d.ApprovalID != "" && d.Code == string(reason.ApprovalMissing) {
			say("remit approve "+d.ApprovalID, "Lets one run work under this contract. Start the task again after it.")
		}
		switch {
		case d.continues():
			say("remit run --continue "+d.ID+` --message "what is to be changed"`+d.maker(),
				"Starts a new run from this change, with your words and the rest of its budget.")
		case d.usable() && d.Verified == nil:
			say("remit run --patch-of "+d.ID, "Has what there is of the change judged, without the engine.")
		}
		if d.usable() {
			say(apply, "Puts the change of this run, which did not pass, into the working tree where you type it, for you to finish by hand.")
		}
		if d.started() {
			say("remit logs "+d.ID, "Prints what the engine and the tests printed.")
		}
	}
	if d.Phase == Sealed {
		say("remit audit "+d.ID, "Checks that the evidence is complete and agrees with itself.")
	}
}

// continues reports whether `remit run --continue` takes the change: of a run that
// failed, and of whose patch nothing was taken out.
func (d *runPage) continues() bool {
	return d.Status == evidence.StatusFail && len(d.Changed) > 0 && len(d.NotSealed) == 0 && d.Report != nil &&
		!slices.ContainsFunc(d.Report.Blockers, func(b evidence.Blocker) bool { return b.Code == reason.SecretLeak })
}

// maker returns the argument that a follow-up needs when a command, and no agent, makes
// the change.
func (d *runPage) maker() string {
	if d.Program() {
		return " -- COMMAND"
	}
	return ""
}

// started reports whether an engine was started at all.
func (d *runPage) started() bool {
	return slices.ContainsFunc(d.Journal, func(e journal.Entry) bool { return e.Name == evidence.StepEngine })
}

// Unchanged is why no file is shown.
func (d *runPage) Unchanged() string {
	if d.Phase == Sealed && d.Summary.Nexus == nil && !d.started() {
		return "nothing was changed: no engine was started"
	}
	return d.Session.Unchanged()
}

// Named puts the ids of the run where a hint of the registry has a word for them.
func (d *runPage) Named(hint string) string {
	words := []string{"SESSION", d.session()}
	if d.ApprovalID != "" {
		words = append(words, "`remit approve ID`", "`remit approve "+d.ApprovalID+"`")
	}
	if slices.Contains([]string{"codex", "claude", "pi", "case"}, d.Engine) {
		words = append(words, "agent setup NAME", "agent setup "+d.Engine)
	}
	return strings.NewReplacer(words...).Replace(hint)
}

// Asking is the page of the approval that the run waits for, at the nexus that shows
// this page; "" for none. One that another authority keeps is not there, and says so.
func (d *runPage) Asking() string {
	if d.ApprovalID == "" || d.Summary.Nexus == nil || d.Code != string(reason.ApprovalMissing) {
		return ""
	}
	return "/approvals/" + url.PathEscape(d.ApprovalID)
}

// session is the id of the run on its machine, the word for one where it is not known.
func (d *runPage) session() string {
	if d.Summary.Nexus == nil {
		return d.ID
	}
	return cmp.Or(d.Summary.Nexus.Session, "SESSION")
}

// The first lines of what was asked.
const (
	askedLines = 8
	askedChars = 800
)

// Asked is how the instructions begin.
func (d *runPage) Asked() string {
	if d.Contract == nil {
		return ""
	}
	lines := strings.SplitAfterN(d.Contract.Instructions, "\n", askedLines+1)
	if len(lines) > askedLines {
		lines = append(lines[:askedLines], "…")
	}
	return clip(askedChars, strings.Join(lines, ""))
}
