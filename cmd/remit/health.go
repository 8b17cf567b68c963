package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/audit"
	"remit/law/board"
	"remit/law/health"
	"remit/law/ladder"
	"remit/nexus/treasury"
	"remit/proof/bundle"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/matrix"
	"remit/work/prove"
	"remit/work/route"
	"remit/work/session"
)

// recordsDir is where the records of a project are looked for.
const recordsDir = "governance"

func (a *app) healthCommand() *cobra.Command {
	var records string
	cmd := &cobra.Command{
		Use: "health", Short: "One verdict over this machine, its records and all its evidence", Args: cobra.NoArgs,
		Long: `Health asks what a run needs of this machine (as doctor does), and reads everything
that is kept below REMIT_HOME: the books of the authority, the records that grant, the
failure matrices of this build, the stage proofs with their sessions, recorded passes,
and every session with its audit. With a folder of records (--records, or ./` + recordsDir + `
where that has a WORKBOARD.yaml) it checks that, too.

A proof without a signature that counts is a fault; so is any other record, where the
remit.yaml of this directory asks for signed records (records: {signed: true}).

What is not there is no fault. Each cause has a name and a hint. Exit code 0 when all
is well, 2 when something fails, 3 when something is blocked.`,
		Example: `  remit health
  remit health --records governance --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if records == "" {
				if _, err := os.Lstat(filepath.Join(recordsDir, board.WorkboardFile)); err == nil {
					records = recordsDir
				}
			}
			rep := a.health(cmd.Context(), records)
			if err := a.present(cmd.OutOrStdout(), rep, func(w io.Writer) error { return printHealth(w, rep) }); err != nil || rep.OK {
				return err
			}
			return exitCode(rep.ExitCode)
		},
	}
	cmd.Flags().StringVar(&records, "records", "", "folder of governance records (default ./"+recordsDir+" where it has a workboard)")
	return cmd
}

// healthCheck collects the causes of one verdict.
type healthCheck struct {
	*app
	signed bool // records count with a signature only, by the policy of this directory
	health.Findings
}

func (a *app) health(ctx context.Context, records string) health.Report {
	h := &healthCheck{app: a, signed: signedHere(ctx, ".")}
	h.doctor(ctx)
	h.home(ctx)
	if records != "" {
		h.records(records)
	}
	return h.Report()
}

// home looks at what is kept. A home that is not there keeps nothing.
func (h *healthCheck) home(ctx context.Context) {
	h.store(ctx)
	h.keys()
	h.admissions()
	for _, name := range engineNames() {
		h.matrix(name)
		h.proofs(ctx, name)
		h.refreshed(ctx, name)
	}
	h.sessions(ctx)
}

// fault adds an error, under its own code or the one given.
func (h *healthCheck) fault(check, what string, err error, otherwise reason.Code) {
	code, hint, message := otherwise, "", err.Error()
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		code, hint, message = coded.Code, coded.Hint, coded.Message
	}
	h.Add(check, code, what, message, hint)
}

func (h *healthCheck) doctor(ctx context.Context) {
	for _, c := range h.examine(ctx) {
		h.Looked(health.Doctor, 1)
		h.judge(c)
	}
}

// judge adds the cause of a checkup that would have runs blocked.
func (h *healthCheck) judge(c checkup) {
	if c.Status != missing {
		return
	}
	switch c.Check {
	case proofsCheckup:
		h.Looked(health.Proofs, 1)
		h.Add(health.Proofs, reason.StageNotProven, c.Check, c.Detail, c.Hint)
	case "sessions":
		h.Add(health.Doctor, reason.HomeUnusable, c.Check, c.Detail, c.Hint)
	default:
		h.Add(health.Doctor, reason.SandboxUnavailable, c.Check, c.Detail, c.Hint)
	}
}

// store reads the whole books of this machine, where there are any. While a run
// has them open, that they answer has to do.
func (h *healthCheck) store(ctx context.Context) {
	if _, err := os.Lstat(filepath.Join(h.app.home.AuthorityDir(), "nexus.db")); errors.Is(err, fs.ErrNotExist) {
		return
	}
	h.Looked(health.Store, 1)
	const books = "authority/nexus.db"
	st, err := h.existing(ctx, &serveFlags{data: h.app.home.AuthorityDir()})
	if reason.CodeOf(err) == reason.StoreUnavailable {
		conn, busy := h.ownAuthority("")(ctx)
		if err = busy; err == nil {
			err = conn.Close()
		}
	} else if err == nil {
		problems, wrong := st.Integrity(ctx)
		unbalanced, audit := treasury.Audit(ctx, st)
		err = errors.Join(wrong, audit, st.Close())
		for _, p := range append(problems, unbalanced...) {
			h.Add(health.Store, reason.LedgerInvariant, books, p, "")
		}
	}
	if err != nil {
		h.fault(health.Store, books, err, reason.StoreUnavailable)
	}
}

// keys asks whether what records are signed with, and held against, can be read and
// is the user's alone. A machine without a key makes one.
func (h *healthCheck) keys() {
	ring := h.app.home.Keys()
	_, own := ring.Load()
	_, trusted := ring.Signers()
	_, revoked := ring.Revoked()
	for _, err := range []error{own, trusted, revoked} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.fault(health.Admissions, filepath.Base(ring.Dir), err, reason.HomeUnusable)
		}
	}
}

func (h *healthCheck) admissions() {
	all, err := route.Records(h.app.home.Dir, h.signed, nil).Load()
	if err != nil {
		h.fault(health.Admissions, admission.Dir, err, reason.InvalidAdmission)
		return
	}
	h.Looked(health.Admissions, len(all.Sources)+len(all.Models)+len(all.Targets)+len(all.Providers)+len(all.Promotions)+len(all.Damaged))
	for _, damaged := range all.Damaged {
		h.Add(health.Admissions, damaged.Code, filepath.Base(damaged.File), damaged.Message, damaged.Hint)
	}
}

// matrix judges the failure matrix that this build has made of an engine; another
// build's says nothing of this one.
func (h *healthCheck) matrix(name string) {
	r, err := matrix.ReadRecords(h.app.home.Dir, name, build())
	if err != nil {
		h.fault(health.Matrix, name, err, reason.SchemaInvalid)
		return
	}
	if m := r.Matrix; m != nil {
		h.Looked(health.Matrix, 1)
		if m.Current && (m.Status != evidence.StatusPass || m.Held != m.Total) {
			h.Add(health.Matrix, reason.RefreshFailed, m.Path,
				fmt.Sprintf("the failure matrix of this build is %s: %d of %d rows hold", m.Status, m.Held, m.Total),
				"run `remit ladder matrix --engine "+name+"` and read which row does not hold")
		}
	}
}

func (h *healthCheck) proofs(ctx context.Context, name string) {
	stored, err := prove.Load(h.app.home.Dir, name, h.signed)
	if err != nil {
		h.fault(health.Proofs, name, err, reason.HomeUnusable)
		return
	}
	for _, s := range stored {
		h.Looked(health.Proofs, 1)
		if err := prove.Audit(ctx, s); err != nil {
			h.fault(health.Proofs, s.Path, err, reason.ProofInvalid)
		} else if s.Proof.Expired(time.Now()) {
			h.Add(health.Proofs, reason.ReviewOverdue, s.Path, "the review of the proof was due at "+s.Proof.ReviewBy,
				"prove the stage again: `"+ladder.ProveCommand(s.Proof.Key, s.Stage)+"`")
		}
	}
}

// refreshed judges recorded passes. An engine without any has nothing to repeat.
func (h *healthCheck) refreshed(ctx context.Context, name string) {
	r, err := h.refresh(ctx, name, false)
	if err != nil {
		h.fault(health.Refresh, name, err, reason.RefreshFailed)
		return
	}
	for _, p := range r.Passes {
		h.Looked(health.Refresh, 1)
		for _, c := range p.Checks {
			if c.Status != evidence.StatusPass {
				h.Add(health.Refresh, c.Code, cmp.Or(p.SessionID, p.Proof), c.Name+": "+c.Detail, "")
			}
		}
	}
}

func (h *healthCheck) records(dir string) {
	rep, err := board.Check(dir, time.Now())
	if err != nil {
		h.fault(health.Records, dir, err, reason.FileUnusable)
		return
	}
	h.Looked(health.Records, rep.Checked.Records+rep.Checked.Items)
	for _, f := range rep.Findings {
		h.Add(health.Records, f.Code, fmt.Sprintf("%s:%d", f.File, f.Line), f.Message, "")
	}
}

// sessions makes the audit of every session that has ended. One that is running is
// left alone.
func (h *healthCheck) sessions(ctx context.Context) {
	all, err := h.app.home.List()
	if err != nil {
		h.fault(health.Sessions, "sessions", err, reason.HomeUnusable)
		return
	}
	for _, s := range all {
		h.Looked(health.Sessions, 1)
		st, err := s.Inspect()
		switch {
		case err != nil:
			h.fault(health.Sessions, s.ID, err, reason.JournalSyntax)
		case st.Phase == session.Running:
		case st.Phase == session.Interrupted:
			h.Add(health.Sessions, reason.Interrupted, s.ID, "the run stopped at "+st.At, "`remit resume "+s.ID+"` closes it")
		case st.Phase == session.Unsealed:
			h.Add(health.Sessions, reason.JournalUnfinished, s.ID, "the session is not sealed", "`remit resume "+s.ID+"` seals it")
		default:
			h.audited(ctx, s, st.Report)
		}
	}
}

func (h *healthCheck) audited(ctx context.Context, s session.Session, rep *evidence.Report) {
	found, err := bundle.Audit(ctx, s.Dir, audit.Options())
	if err != nil {
		h.fault(health.Sessions, s.ID, err, reason.FileUnusable)
		return
	}
	if rep.SessionID != s.ID {
		h.Add(health.Sessions, reason.SessionNotFound, s.ID, "it is session "+rep.SessionID+" under another name",
			"give its directory that name again")
	}
	for _, g := range found.Gates {
		for _, f := range g.Findings {
			if g.Status == bundle.Fail {
				h.Add(health.Sessions, f.Code, s.ID+"/"+f.Path, f.Detail, cmp.Or(f.Hint, "`remit audit "+s.Dir+"` lists every finding"))
			}
		}
	}
	if missing := ladder.OutcomeMissing(rep); missing != nil {
		h.Add(health.Sessions, missing.Code, s.ID, missing.Message, missing.Hint)
	}
}

func printHealth(w io.Writer, r health.Report) error {
	for _, c := range r.Checks {
		fmt.Fprintf(w, "%-8s %-11s looked at %d\n", c.Status, c.Name, c.Looked)
		for _, cause := range r.Causes {
			if cause.Check != c.Name {
				continue
			}
			fmt.Fprintf(w, "         %s: %s (%s)\n", plain(cause.What), plain(cause.Message), cause.Code)
			if cause.Hint != "" {
				fmt.Fprintf(w, "         hint: %s\n", plain(cause.Hint))
			}
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", upper(r.Status))
	return err
}
