package provider

import (
	"context"
	"errors"
	"fmt"

	"remit/proof/reason"
)

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
