package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"remit/nexus/identity"
	"remit/nexus/server"
	"remit/nexus/store"
)

// The journal of how administrators came to be. The secret of a token is in one
// place only, the output of the command that made it.
const (
	setupStream    = "nexus:setup"
	setupKey       = "admin-token"
	setupMade      = "admin.token_made"      // the first one of a store
	setupForgotten = "admin.token_forgotten" // it was told to nobody: the next start makes another
	setupAdded     = "admin.token_added"     // somebody who has the store asked for it
)

// announceFirst says where the nexus is, with the administrator's token of a
// store that never had one. A token that could not be told is taken back.
func (a *app) announceFirst(cmd *cobra.Command, st *store.Store, url, file string) error {
	text, made, err := firstToken(cmd.Context(), st)
	if err != nil {
		return err
	}
	if err = a.announce(cmd, url, text, file); err == nil || made.ID == "" {
		return err
	}
	err = fmt.Errorf("print the administrator's token: %w", err)
	return errors.Join(err, forget(context.WithoutCancel(cmd.Context()), st, made))
}

// newAdmin makes one more administrator's token, for who has lost the first.
// Whoever may open the store is an administrator already.
func (a *app) newAdmin(cmd *cobra.Command, f serveFlags) error {
	st, blobs, err := f.open(cmd.Context())
	if err != nil {
		return f.local(err)
	}
	defer func() { _ = errors.Join(st.Close(), blobs.Close()) }()
	text, made, err := firstToken(cmd.Context(), st) // on a new store it is that one
	takeBack := func(ctx context.Context) error { return forget(ctx, st, made) }
	if err == nil && text == "" {
		takeBack = func(ctx context.Context) error {
			return st.Update(ctx, func(tx *store.Tx) error { return tx.RevokeToken(made.ID) })
		}
		err = st.Update(cmd.Context(), func(tx *store.Tx) (err error) {
			text, made, err = mintAdmin(tx, setupAdded, "")
			return err
		})
	}
	if err != nil {
		return f.local(err)
	}
	if err = a.announce(cmd, "", text, f.adminFile); err == nil {
		return nil
	}
	err = fmt.Errorf("print the administrator's token: %w", err)
	return errors.Join(err, takeBack(context.WithoutCancel(cmd.Context())))
}

// firstToken makes the administrator's token of a store that has none. Of
// replicas that start together, one does.
func firstToken(ctx context.Context, st *store.Store) (text string, made store.Token, err error) {
	err = st.Update(ctx, func(tx *store.Tx) error {
		text, made = "", store.Token{}
		tries, forgotten, err := setups(tx)
		if err != nil || tries > forgotten {
			return err
		}
		key := setupKey
		if tries > 0 {
			key = fmt.Sprintf("%s:%d", setupKey, tries+1)
		}
		text, made, err = mintAdmin(tx, setupMade, key)
		return err
	})
	if errors.Is(err, store.ErrConflict) {
		return "", store.Token{}, nil // another replica was faster
	}
	return text, made, err
}

// setups counts the first tokens that were made, and those that nobody saw.
func setups(tx *store.Tx) (made, forgotten int, err error) {
	for after := int64(0); ; {
		list, err := tx.Events(setupStream, after, store.MaxEvents)
		if err != nil || len(list) == 0 {
			return made, forgotten, err
		}
		for _, e := range list {
			switch after = e.Seq; e.Type {
			case setupMade:
				made++
			case setupForgotten:
				forgotten++
			}
		}
	}
}

// mintAdmin makes a token with an entry in the journal.
func mintAdmin(tx *store.Tx, event, key string) (text string, made store.Token, err error) {
	if text, made, err = identity.Mint(tx, server.AdminGrant()); err != nil {
		return "", store.Token{}, err
	}
	return text, made, noteSetup(tx, event, key, made)
}

func noteSetup(tx *store.Tx, event, key string, t store.Token) error {
	payload, err := json.Marshal(map[string]string{"token_id": t.ID})
	if err != nil {
		return err
	}
	_, err = tx.Append(store.Event{Stream: setupStream, Type: event, IdempotencyKey: key, Payload: payload, Principal: "service:setup"})
	return err
}

// forget takes back a first token that nobody has seen.
func forget(ctx context.Context, st *store.Store, t store.Token) error {
	return st.Update(ctx, func(tx *store.Tx) error {
		if err := tx.RevokeToken(t.ID); err != nil {
			return err
		}
		return noteSetup(tx, setupForgotten, "forgotten:"+t.ID, t)
	})
}

// announce says where the nexus is, and a token that was made, in one write:
// half of it would be told to nobody. With a file the token goes there.
func (a *app) announce(cmd *cobra.Command, url, token, file string) error {
	to := secretTo{path: file}
	doc := map[string]string{}
	text := ""
	if token != "" && file != "" {
		if err := to.open(); err != nil {
			return err
		}
		if err := to.write(token); err != nil {
			return errors.Join(err, to.giveUp())
		}
		doc["admin_token_file"] = file
		text = fmt.Sprintf("admin token (nowhere else): %s\n", plain(file))
	} else if token != "" {
		doc["admin_token"] = token
		text = fmt.Sprintf("admin token (shown once): %s\n", token)
	}
	if url != "" {
		doc["url"] = url
		text += fmt.Sprintf("nexus at %s\n", url)
	}
	if err := a.tell(cmd, doc, text); err != nil {
		return errors.Join(err, to.giveUp())
	}
	return nil
}

func (a *app) tell(cmd *cobra.Command, doc map[string]string, text string) error {
	out := cmd.OutOrStdout()
	if a.json {
		return printJSON(out, doc)
	}
	_, err := fmt.Fprint(out, text)
	return err
}
