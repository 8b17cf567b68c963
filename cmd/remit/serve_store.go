package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"remit/nexus/identity"
	"remit/nexus/server"
	"remit/nexus/store"
	"remit/nexus/treasury"
	"remit/proof/reason"
)

// storeFlags name the store of a nexus, as those of remit serve do.
func (a *app) storeFlags(cmd *cobra.Command, f *serveFlags) {
	cmd.Flags().StringVar(&f.data, "data", "", "the data directory of the nexus (default the home of remit, nexus/)")
	cmd.Flags().StringVar(&f.store, "store", "", "postgres://… or sqlite:PATH (default nexus.db in the data directory)")
}

// name is the dsn, and the file of a SQLite store, "" for another.
func (a *app) name(f *serveFlags) (dsn, file string, err error) {
	if f.data == "" {
		f.data = filepath.Join(a.home.Dir, "nexus")
	}
	if dsn, err = f.dsn(); err != nil {
		return "", "", err
	}
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		file = strings.TrimPrefix(path, "//")
	}
	return dsn, file, nil
}

// existing opens a store that is there: looking at one makes none.
func (a *app) existing(ctx context.Context, f *serveFlags) (*store.Store, error) {
	dsn, file, err := a.name(f)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); file != "" && err != nil {
		return nil, reason.Errorf(reason.NotFound, "there is no store: %w", err).WithHint("name it with --data or --store, as for `remit serve`")
	}
	st, err := store.Open(ctx, dsn, store.Options{})
	if errors.Is(err, store.ErrInUse) {
		return nil, reason.Errorf(reason.StoreUnavailable, "%w", err).
			WithHint("stop the nexus first: a SQLite store is open in one process at a time")
	}
	return st, f.local(err)
}

const storeNote = `A SQLite store is open in one process at a time, so its nexus has to be stopped; on
PostgreSQL it goes on meanwhile.`

func (a *app) serveBackupCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "backup FILE", Short: "Write one snapshot of the store to a new file", Args: cobra.ExactArgs(1),
		Long: `Backup writes all that the store of a nexus has, as of one moment, to a new file with
a digest at its end. It is the same text for both databases. It holds no secret, only
digests of tokens, and all else that the nexus knows: keep it like the store.

` + storeNote + `

The files beside the store are not in it: copy artifacts/ of the data directory after
the backup (files there are never changed), and bridge.key if there is one.`,
		Example: `  remit serve backup nexus-monday.backup
  remit serve backup --store postgres://remit@db/remit nexus-monday.backup`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			st, err := a.existing(cmd.Context(), &f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			if err := st.Backup(cmd.Context(), args[0]); err != nil {
				if errors.Is(err, fs.ErrExist) {
					return reason.Errorf(reason.OutputExists, "%w", err).WithHint("choose another name: no backup is ever overwritten")
				}
				return err
			}
			return a.exported(cmd, args[0], func(string) error { return nil })
		},
	}
	a.storeFlags(cmd, &f)
	return cmd
}

func (a *app) serveRestoreCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Load a backup into a new store", Args: cobra.ExactArgs(1),
		Long: `Restore loads a backup into a store that is new or empty, brings its schema up to date
and checks it. It loads everything or nothing, and never overwrites: a store that has
something in it is refused. A backup of SQLite loads into PostgreSQL, and the reverse.

Then put the copies of artifacts/ and bridge.key into the data directory, and start the
nexus. Tokens are good as they were when the backup was made.`,
		Example: `  remit serve restore --data /srv/remit nexus-monday.backup
  remit serve restore --store postgres://remit@db/empty nexus-monday.backup`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dsn, file, err := a.name(&f)
			if err != nil {
				return err
			}
			fresh := false
			if file != "" {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					return fmt.Errorf("make the data directory: %w", err)
				}
				_, err := os.Lstat(file)
				fresh = errors.Is(err, fs.ErrNotExist)
			}
			if err := store.Restore(cmd.Context(), dsn, args[0]); err != nil {
				if fresh { // half a store is worse than none
					for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
						_ = os.Remove(file + suffix)
					}
				}
				if reason.CodeOf(err) == reason.Conflict {
					return reason.Errorf(reason.Conflict, "%w", err).WithHint("name a new directory with --data, or an empty database with --store")
				}
				return f.local(err)
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"restored": args[0]})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored %s\n", args[0])
			return err
		},
	}
	a.storeFlags(cmd, &f)
	return cmd
}

func (a *app) serveCheckCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "check", Short: "Check the store and its books", Args: cobra.NoArgs,
		Long: `Check reads the whole store of a nexus: the pages and references of a SQLite file, the
logs without a gap and the digest of every event, and that the books balance. Books
that do not balance switch the nexus to read-only, as its own check every minute does.

` + storeNote + `

Exit code 0 when all holds, 2 when something does not.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			st, err := a.existing(cmd.Context(), &f)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			problems, err := st.Integrity(cmd.Context())
			if err != nil {
				return f.local(err)
			}
			books, err := treasury.Audit(cmd.Context(), st)
			if err != nil {
				return f.local(err)
			}
			return a.showProblems(cmd, append(problems, books...))
		},
	}
	a.storeFlags(cmd, &f)
	return cmd
}

func (a *app) showProblems(cmd *cobra.Command, problems []string) error {
	out := cmd.OutOrStdout()
	if a.json {
		if err := printJSON(out, map[string]any{"passed": len(problems) == 0, "problems": append([]string{}, problems...)}); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintf(out, "FAIL %s\n", plain(p))
		}
		if len(problems) == 0 {
			fmt.Fprintln(out, "PASS the store is sound, and its books balance")
		}
	}
	if len(problems) > 0 {
		return exitCode(codeOf(reason.LedgerInvariant))
	}
	return nil
}

// The journal of how administrators came to be. The secret of a token is in one
// place only, the output of the command that made it.
const (
	setupStream    = "nexus:setup"
	setupKey       = "admin-token"
	setupMade      = "admin.token_made"      // the first one of a store
	setupForgotten = "admin.token_forgotten" // it was not handed over: the next start makes another
	setupAdded     = "admin.token_added"     // asked for by an account that can open the store
)

// announceFirst says where the nexus is, with the administrator's token of a
// store that never had one. A token that could not be handed over is revoked.
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
// An account that may open the store is an administrator already.
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

// setups counts the first tokens that were made, and those that were not handed over.
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

// forget revokes a first token that was not handed over.
func forget(ctx context.Context, st *store.Store, t store.Token) error {
	return st.Update(ctx, func(tx *store.Tx) error {
		if err := tx.RevokeToken(t.ID); err != nil {
			return err
		}
		return noteSetup(tx, setupForgotten, "forgotten:"+t.ID, t)
	})
}

// announce says where the nexus is, and a token that was made, in one write:
// half of it would be lost. With a file the token goes there.
func (a *app) announce(cmd *cobra.Command, url, token, file string) error {
	to := secretTo{path: file}
	doc := map[string]string{}
	text := ""
	if token != "" && file != "" {
		if err := to.open(); reason.CodeOf(err) == reason.OutputExists {
			return reason.Errorf(reason.OutputExists, "%w", err).WithHint("choose another name with --admin-token-file, or remove it first")
		} else if err != nil {
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
