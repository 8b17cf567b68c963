package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"remit/law/job"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// ofThisMachine reports whether a run was blocked by something that neither its
// contract, its repository nor its engine could be the reason of. The model and
// the way to it are of this machine; but an engine works on what a stranger wrote,
// and may be made to say that its model failed. Once it was started only the
// gateway's record counts for that.
func ofThisMachine(blockers []evidence.Blocker, started bool) bool {
	if len(blockers) == 0 {
		return false
	}
	switch b := blockers[0]; b.Code {
	case reason.AuthUnavailable, reason.ProviderUnavailable:
		return !started || b.Evidence == evidence.JournalFile
	case reason.LocalConfigMissing, reason.ProgramNotFound, reason.ProgramNotExecutable, reason.ProgramLineEndings, reason.InterpreterNotFound:
		return !started
	case reason.SandboxUnavailable, reason.InfrastructureFault, reason.ArtifactWriteFailure, reason.HomeUnusable, reason.FileUnusable:
		return true
	}
	return false
}

// ownTrouble is an error that no request can be the reason of, whatever its code
// says elsewhere. Its text is for the operator of this machine alone.
type ownTrouble struct{ error }

func (e ownTrouble) Unwrap() error { return e.error }

// cannot says that this machine could not run a job. The error itself may name
// paths of this host.
func cannot(code reason.Code) *string {
	text := "the provider could not run the job"
	if code != "" {
		text += ": " + string(code)
	}
	return &text
}

func isOwnTrouble(err error) bool {
	_, own := errors.AsType[ownTrouble](err)
	return own
}

// hintOf is what the operator can do about an error.
func hintOf(err error) string {
	if e, ok := errors.AsType[*reason.Error](err); ok {
		return e.Hint
	}
	return ""
}

// maxRefusal bounds the message of a refusal, in bytes.
const maxRefusal = 2 << 10

// refusalOf tells a requester what is wrong with the request.
func refusalOf(err error, scratch string) *job.Refusal {
	refusal := &job.Refusal{Code: reason.CodeOf(err), Message: "the job could not begin"}
	if e, ok := errors.AsType[*reason.Error](err); ok && strings.TrimSpace(e.Message) != "" {
		refusal.Message = e.Message
	}
	if refusal.Code == reason.SecretLeak {
		// What it is called here, or that it is known here, stays on this machine.
		refusal.Message = "the contract or the run holds what evidence must not show, such as a credential"
	}
	text := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(strings.ReplaceAll(refusal.Message, scratch, "<work>"), "\uFFFD"))
	refusal.Message = cut(text, maxRefusal)
	return refusal
}

// errDismissed is the cause for which a daemon ends by itself.
var errDismissed = errors.New("dismissed")

// dismissed reports whether an answer of the authority says that the credential
// of this provider is of no use any more, and ends the daemon if so. To go on
// asking would not help, and the operator would not learn of it.
func (d *Daemon) dismissed(err error) bool {
	if !refusedCredential(err) {
		return false
	}
	if d.dismiss != nil {
		d.dismiss(fmt.Errorf("%w: %w", errDismissed, err))
	}
	return true
}

func refusedCredential(err error) bool {
	code := reason.CodeOf(err)
	return code == reason.TokenExpired || code == reason.Unauthenticated
}

func isDismissed(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errDismissed) }

// explain says what an operator can do about a credential that is not taken.
// Other errors are left as they are.
func (d *Daemon) explain(err error) error {
	refusal, ok := errors.AsType[*reason.Error](err)
	if !ok || !refusedCredential(err) {
		return err
	}
	return reason.Errorf(refusal.Code, "the nexus does not take the credential of provider %s any more: %w", d.id.ProviderID, refusal).
		WithHint("it was revoked, or a provider of this name was registered anew: ask the owner. To go on, register anew with "+
			"`remit provider join --replace %s`; what was not handed in is lost", d.id.ProviderID)
}
