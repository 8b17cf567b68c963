package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"remit/nexus/nip01"
	"remit/nexus/store"
	"remit/proof/atomicfile"
	"remit/proof/nostr"
	"remit/proof/reason"
)

// Event is what the bridge signs and relays take.
type Event = nostr.Event

// Key signs events.
type Key = nostr.Key

// Filter says which events of a relay are asked for.
type Filter = nostr.Filter

// seal signs an event, which must be of a class that may leave.
func seal(k Key, e Event) (Event, error) {
	e.PubKey, e.ID, e.Sig = k.PubKey(), "", ""
	if err := Allowed(&e); err != nil {
		return Event{}, err
	}
	return k.Sign(e)
}

// sign signs rows until none is new, and makes them wait for the relays.
func (p *Publisher) sign(ctx context.Context) error {
	if err := p.nameRelays(ctx); err != nil {
		return err
	}
	waits := false
	err := p.store.View(ctx, func(tx *store.Tx) error { // looks before it writes
		rows, err := tx.UnsignedBridgeEvents(1)
		waits = len(rows) > 0
		return err
	})
	if err != nil || !waits {
		return err
	}
	for more := true; more; {
		var refusals []string
		err := p.store.Update(ctx, func(tx *store.Tx) (err error) {
			refusals, more, err = p.signSome(tx)
			return err
		})
		if err != nil {
			return fmt.Errorf("sign what is to be mirrored: %w", err)
		}
		for _, why := range refusals {
			p.refused.Add(1)
			p.log.Error("an event must not leave and was not signed", "reason", why)
		}
	}
	return nil
}

// nameRelays writes down, now and then, that the relays are served.
func (p *Publisher) nameRelays(ctx context.Context) error {
	p.naming.Lock()
	defer p.naming.Unlock()
	if time.Since(p.named) < namedEvery {
		return nil
	}
	err := p.store.Update(ctx, func(tx *store.Tx) error {
		if err := p.lockKey(tx); err != nil {
			return err
		}
		for _, relay := range p.relays {
			if err := tx.NameRelay(relay, tx.Now()-namedFor.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.named = time.Now()
	}
	return err
}

// lockKey checks that the store still has our key, and keeps other publishers out
// for the rest of the command.
func (p *Publisher) lockKey(tx *store.Tx) error {
	known, err := tx.BridgeKey()
	if err == nil && known != p.key.PubKey() {
		err = foreign("this nexus signs with the key %.16s…, and this process has %.16s…", known, p.key.PubKey())
	}
	return err
}

func (p *Publisher) signSome(tx *store.Tx) (refusals []string, more bool, err error) {
	if err := p.lockKey(tx); err != nil {
		return nil, false, err
	}
	rows, err := tx.UnsignedBridgeEvents(signBatch)
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		e, err := EventOf(row, "")
		if err == nil {
			e, err = seal(p.key, e)
		}
		switch code := reason.CodeOf(err); {
		case err == nil:
			if err := tx.SignBridgeEvent(row.ID, e.ID, e.Sig); err != nil {
				return nil, false, err
			}
			if err := tx.SpreadBridgeEvent(row.ID, tx.Now()-namedFor.Milliseconds()); err != nil {
				return nil, false, err
			}
		case code == reason.BridgeRefused || code == reason.BridgeInvalid:
			refusals = append(refusals, nip01.Plain(err.Error()))
			if err := tx.RefuseBridgeEvent(row.ID, nip01.Plain(err.Error())); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, err
		}
	}
	return refusals, len(rows) == signBatch, nil
}

// KeyFile is the name of the key in a data directory.
const KeyFile = "bridge.key"

// OpenKey reads the signing key of a nexus from a file that only its owner can
// read, or makes it when the nexus has none yet. All replicas of a nexus sign
// with one key, so the store keeps its public half, and another key is refused:
// relays and readers would see two authors.
func OpenKey(ctx context.Context, st *store.Store, path string) (Key, error) {
	var known string
	err := st.View(ctx, func(tx *store.Tx) (err error) {
		if known, err = tx.BridgeKey(); errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	})
	if err != nil {
		return Key{}, err
	}
	made := false
	k, err := nostr.ReadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if known != "" {
			return Key{}, foreign("this nexus signs with the key %.16s…, and %s is not there", known, path)
		}
		k, made, err = makeKey(path)
	}
	if err != nil {
		return Key{}, err
	}
	err = st.Update(ctx, func(tx *store.Tx) error {
		if err := tx.SetBridgeKey(k.PubKey()); err != nil {
			return err
		}
		known, err = tx.BridgeKey()
		return err
	})
	switch {
	case err != nil:
		// The key stays, if it was made: it may have been recorded.
		return Key{}, err
	case known == k.PubKey():
		return k, nil
	}
	err = foreign("this nexus signs with the key %.16s…, and %s holds %.16s…", known, path, k.PubKey())
	if made { // another replica was faster, and this key has signed nothing
		err = errors.Join(err, os.Remove(path))
	}
	return Key{}, err
}

func foreign(format string, args ...any) error {
	return reason.Errorf(reason.BridgeKeyMismatch, format, args...)
}

// makeKey makes a key and its file, whole or not at all. When two processes do
// so at once, both get the key of the first.
func makeKey(path string) (k Key, made bool, err error) {
	k, text, err := nostr.NewKey()
	if err != nil {
		return Key{}, false, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return Key{}, false, fmt.Errorf("write the signing key: %w", err)
	}
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	exists := errors.Is(err, fs.ErrExist)
	if exists {
		err = nil
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return Key{}, false, fmt.Errorf("write the signing key: %w", err)
	}
	if exists {
		k, err = nostr.ReadKey(path)
		return k, false, err
	}
	return k, true, atomicfile.SyncDir(filepath.Dir(path))
}
