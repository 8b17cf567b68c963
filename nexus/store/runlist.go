package store

import "strings"

// Lists of runs with their summaries, by what people look for. Each filter has an
// index that begins with the owner and ends with the order of the list.

// RunSummaryRow is what is known of a run besides its log.
type RunSummaryRow struct {
	Body      string // canonical text of the summary, "" when there is none
	Source    string // "told" (by the client) or "bundle"
	Findings  string // JSON array
	UpdatedAt int64
}

// SummedRun is a run with its summary.
type SummedRun struct {
	RunRow
	Summary RunSummaryRow
	LastSeq int64 // of its log
}

// RunFilter says which runs of an owner are listed. "" and 0 are any.
type RunFilter struct {
	Before  string // the newest ones before this one
	State   string
	RepoRef string
	Also    []string // other refs of the same repository
	Outcome string
	// Key is the Idempotency-Key of the request that made the run. There is one such
	// run, unless two principals of the owner have used the same key.
	Key string
	RunFacts
	Since, Until int64    // made at Since or later, and before Until
	Words        []string // each begins a word of the run; in lower case
	Limit        int
}

const summedRuns = `SELECT ` + runColumns + `, COALESCE(s.body, ''), COALESCE(s.source, ''), COALESCE(s.findings, ''), COALESCE(s.updated_at, 0),
	COALESCE((SELECT l.head FROM stream l WHERE l.name = 'run:' || run.id || ':events'), 0)
	FROM run LEFT JOIN run_summary s ON s.run_id = run.id WHERE `

func scanSummedRun(s scanner) (r SummedRun, err error) {
	err = r.scan(s, &r.Summary.Body, &r.Summary.Source, &r.Summary.Findings, &r.Summary.UpdatedAt, &r.LastSeq)
	return r, err
}

// SummedRun reads a run with its summary; ErrNotFound when there is none.
func (tx *Tx) SummedRun(id string) (SummedRun, error) {
	return scanSummedRun(tx.row(summedRuns+`run.id = ?`, id))
}

// ListRuns lists the runs of an owner that have all of the filter, the newest
// first: by id, which grows with time, or by the time that they were made at
// where the filter names one.
func (tx *Tx) ListRuns(owner string, f RunFilter) ([]SummedRun, error) {
	where, args := []string{"run.owner = ?"}, []any{owner}
	and := func(condition string, with ...any) { where, args = append(where, condition), append(args, with...) }
	for _, c := range []struct{ column, value string }{
		{"state", f.State}, {"outcome", f.Outcome}, {"verdict", f.Verdict}, {"engine", f.Engine}, {"model", f.Model},
		{"blocker", f.Blocker}, {"request_key", f.Key},
	} {
		if c.value != "" { // the second condition lets both databases use the partial index
			and("run."+c.column+" = ? AND run."+c.column+" <> ''", c.value)
		}
	}
	switch {
	case len(f.Also) > 0:
		and("run.repo_ref IN (?"+strings.Repeat(", ?", len(f.Also))+")", append([]any{f.RepoRef}, anys(f.Also)...)...)
	case f.RepoRef != "":
		and("run.repo_ref = ?", f.RepoRef)
	}
	order := "run.id DESC"
	timed := f.Since > 0 || f.Until > 0
	if timed {
		order = "run.created_at DESC, run.id DESC"
	}
	if f.Since > 0 {
		and("run.created_at >= ?", f.Since)
	}
	if f.Until > 0 {
		and("run.created_at < ?", f.Until)
	}
	switch {
	case f.Before != "" && timed:
		and("(run.created_at, run.id) < ((SELECT b.created_at FROM run b WHERE b.id = ?), ?)", f.Before, f.Before)
	case f.Before != "":
		and("run.id < ?", f.Before)
	}
	for _, word := range f.Words {
		and("run.id IN (SELECT w.run_id FROM run_word w WHERE w.owner = ? AND w.word >= ? AND w.word < ?)", owner, word, word+"\U0010FFFF")
	}
	return list(tx, scanSummedRun, summedRuns+strings.Join(where, " AND ")+" ORDER BY "+order+" LIMIT ?", append(args, f.Limit)...)
}

// Repositories are those of some refs that runs of an owner have.
func (tx *Tx) Repositories(owner string, refs []string) ([]string, error) {
	scan := func(s scanner) (ref string, err error) {
		err = s.Scan(&ref)
		return ref, err
	}
	return list(tx, scan, "SELECT DISTINCT repo_ref FROM run WHERE owner = ? AND repo_ref IN (?"+strings.Repeat(", ?", len(refs)-1)+
		") ORDER BY repo_ref", append([]any{owner}, anys(refs)...)...)
}

func anys(texts []string) (out []any) {
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}

// PutRunSummary writes the summary of a locked run, what it is filtered by and the
// words that it is found by.
func (tx *Tx) PutRunSummary(run RunRow, s RunSummaryRow, words []string) error {
	if err := tx.write(missing("write the facts of run", run.ID), `UPDATE run SET verdict = ?, engine = ?, model = ?, blocker = ?,
		revision = revision + 1 WHERE id = ?`, run.Verdict, run.Engine, run.Model, run.Blocker, run.ID); err != nil {
		return err
	}
	if err := tx.write(deferredWrite{doing: "write the summary of a run"}, `INSERT INTO run_summary (run_id, body, source, findings, updated_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id) DO UPDATE SET body = excluded.body, source = excluded.source,
			findings = excluded.findings, updated_at = excluded.updated_at`, run.ID, s.Body, s.Source, s.Findings, tx.Now()); err != nil {
		return err
	}
	for _, word := range words {
		if err := tx.write(deferredWrite{doing: "write a word of a run"}, `INSERT INTO run_word (run_id, word, owner) VALUES (?, ?, ?)
			ON CONFLICT DO NOTHING`, run.ID, word, run.Owner); err != nil {
			return err
		}
	}
	return nil
}

// SetRunJournal writes how much of its journal the log of a locked run has.
func (tx *Tx) SetRunJournal(id string, entries int64, head string) error {
	return tx.write(missing("write the journal of run", id), `UPDATE run SET journal_entries = ?, journal_head = ?, revision = revision + 1
		WHERE id = ?`, entries, head, id)
}
