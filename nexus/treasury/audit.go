package treasury

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/nexus/store"
	"remit/proof/reason"
)

// SweepGrace is how long a reservation may stay held after its TTL before the
// sweeper counts as stopped: several of its intervals.
const SweepGrace = 10 * time.Minute

// Writable refuses mutations while the books are known to be wrong. Every
// command of the authority asks it, not only those that move money.
func Writable(tx *store.Tx) error {
	f, err := tx.LedgerFreeze()
	if err != nil || f == nil {
		return err
	}
	return reason.Errorf(reason.ReadOnlyMode, "the authority has been read-only since %s: %s",
		time.UnixMilli(f.FrozenAt).UTC().Format("2006-01-02T15:04:05.000Z"), f.Reason)
}

// Invariants audits the books and lists what does not hold, "rule: row:
// detail". An empty list is a clean audit.
func Invariants(tx *store.Tx) ([]string, error) {
	breaches, err := tx.LedgerBreaches(tx.Now() - SweepGrace.Milliseconds())
	return text(breaches), err
}

func text(breaches []store.LedgerBreach) []string {
	var list []string
	for _, b := range breaches {
		list = append(list, fmt.Sprintf("%s: %s: %s", b.Rule, b.Row, b.Detail))
	}
	return list
}

// NightlyHour is when everything is folded again, in UTC.
const NightlyHour = 3

// Check is the regular audit: it folds the transfers behind the checkpoint, adds
// them to it, and so costs what has happened since and not what ever happened.
// Every night, at the first check of a store, and whenever it finds something, it
// is [Audit]: that alone decides what is wrong.
func Check(ctx context.Context, s *store.Store) ([]string, error) {
	var at store.LedgerCheckpoint
	var horizon int64
	var breaches []store.LedgerBreach
	whole := false
	err := s.View(ctx, func(tx *store.Tx) (err error) {
		if at, err = tx.LedgerCheckpoint(); err != nil {
			return err
		}
		if horizon, err = tx.LedgerHorizon(); err != nil {
			return err
		}
		if whole = at.Horizon == 0 || at.WholeAt < lastNight(tx.Now()); !whole {
			breaches, err = tx.RecentLedgerBreaches(at, tx.Now()-SweepGrace.Milliseconds())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check the ledger: %w", err)
	}
	found := text(breaches)
	wrong := len(outOfBalance(breaches)) > 0
	if whole || wrong {
		if found, err = Audit(ctx, s); err != nil {
			return found, err
		}
		for _, breach := range found {
			if !strings.HasPrefix(breach, store.RuleOverdue+": ") {
				return found, nil // nothing is built on what is wrong
			}
		}
		if wrong { // and it is the checkpoint, of another moment than this audit
			return append(found, text(breaches)...), s.Update(ctx, (*store.Tx).DropLedgerCheckpoint)
		}
	}
	err = s.Update(ctx, func(tx *store.Tx) error { return tx.MoveLedgerCheckpoint(at.Horizon, horizon, whole) })
	if errors.Is(err, store.ErrConflict) {
		err = nil // another replica has moved or dropped it
	}
	return found, err
}

// lastNight is the last time that it was NightlyHour.
func lastNight(now int64) int64 {
	const hour, day = int64(time.Hour / time.Millisecond), 24 * int64(time.Hour/time.Millisecond)
	return now - (now-NightlyHour*hour)%day
}

// Audit runs [Invariants] on a snapshot, from the first transfer, and switches the
// authority to read-only when the books do not balance. Overdue reservations alone
// do not: they mean that no sweep runs, and the sweep that repairs them is a
// mutation. Nor does a checkpoint that is wrong: it is reported and forgotten, so
// that the next check makes a new one.
func Audit(ctx context.Context, s *store.Store) ([]string, error) {
	var breaches []store.LedgerBreach
	err := s.View(ctx, func(tx *store.Tx) (err error) {
		breaches, err = tx.LedgerBreaches(tx.Now() - SweepGrace.Milliseconds())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the ledger: %w", err)
	}
	if slices.ContainsFunc(breaches, func(b store.LedgerBreach) bool { return b.Rule == store.RuleCheckpoint }) {
		if err := s.Update(ctx, (*store.Tx).DropLedgerCheckpoint); err != nil {
			return text(breaches), fmt.Errorf("forget the checkpoint of the books: %w", err)
		}
	}
	wrong := text(outOfBalance(breaches))
	if len(wrong) == 0 {
		return text(breaches), nil
	}
	// One line is enough here: Invariants returns the whole list.
	why := fmt.Sprintf("%d ledger invariants are violated, the first: %.160s", len(wrong), wrong[0])
	if err := s.Update(ctx, func(tx *store.Tx) error { return tx.FreezeLedger(why) }); err != nil {
		return text(breaches), fmt.Errorf("switch to read-only mode: %w", err)
	}
	return text(breaches), nil
}

// Reopen ends read-only mode if the books balance; otherwise it is
// ledger_invariant_violated.
func Reopen(tx *store.Tx) error {
	breaches, err := tx.LedgerBreaches(0)
	if err != nil {
		return err
	}
	if wrong := text(outOfBalance(breaches)); len(wrong) > 0 {
		return reason.Errorf(reason.LedgerInvariant, "%s", strings.Join(wrong, "; "))
	}
	return tx.ThawLedger()
}

func outOfBalance(breaches []store.LedgerBreach) []store.LedgerBreach {
	var wrong []store.LedgerBreach
	for _, b := range breaches {
		if b.Rule != store.RuleOverdue && b.Rule != store.RuleCheckpoint {
			wrong = append(wrong, b)
		}
	}
	return wrong
}
