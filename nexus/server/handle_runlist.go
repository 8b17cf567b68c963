package server

import (
	"slices"
	"time"

	"remit/nexus/api"
	"remit/nexus/jobs"
	"remit/nexus/store"
	"remit/proof/evidence"
)

// listRuns lists runs by what people look for.
func listRuns(tx *store.Tx, r *request) (answer, error) {
	p, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	f, err := runFilter(r)
	if err != nil {
		return answer{}, err
	}
	f.Before, f.Limit = p.after, p.limit
	list, err := jobs.ListRuns(tx, r.caller.Principal, f)
	if err != nil {
		return answer{}, err
	}
	out := api.RunPage{Items: []api.Run{}, NextCursor: p.next(len(list), func() string { return list[len(list)-1].ID })}
	for _, run := range list {
		item, err := runOf(run)
		if err != nil {
			return answer{}, err
		}
		out.Items = append(out.Items, item)
	}
	return answer{value: out}, nil
}

// Bounds of what runs are filtered by, in characters.
const (
	maxFilter = 500
	maxSearch = 200
)

// runFilter reads the query of a list of runs. A word that no run can have is
// refused: an empty list would say that there is none.
func runFilter(r *request) (f jobs.RunFilter, err error) {
	if f.Owner, err = ownerOf(r); err != nil {
		return f, err
	}
	q := r.URL.Query()
	for name, to := range map[string]*string{"status": &f.State, "verdict": &f.Verdict, "engine": &f.Engine, "model": &f.Model, "repo_ref": &f.RepoRef,
		"outcome": &f.Outcome, "blocker": &f.Blocker} {
		*to = q.Get(name)
		if err := short(name, to, maxFilter); err != nil {
			return f, err
		}
	}
	if f.Key = q.Get("request_key"); len(f.Key) > maxKey {
		return f, invalid("request_key", "has %d bytes, may have %d", len(f.Key), maxKey)
	}
	f.Text = q.Get("text")
	if err := short("text", &f.Text, maxSearch); err != nil {
		return f, err
	}
	if f.State != "" && !api.RunStatus(f.State).Valid() {
		return f, invalid("status", "is %.32q, which no run is", f.State)
	}
	if !slices.Contains([]string{"", evidence.StatusPass, evidence.StatusFail, evidence.StatusBlocked}, f.Verdict) {
		return f, invalid("verdict", "is %.32q, must be pass, fail or blocked", f.Verdict)
	}
	if f.Outcome != "" && !api.OutcomeRequestKind(f.Outcome).Valid() {
		return f, invalid("outcome", "is %.32q, which no outcome is", f.Outcome)
	}
	for name, to := range map[string]*int64{"since": &f.Since, "until": &f.Until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.UnixMilli() <= 0 {
			return f, invalid(name, "%.64q is not a time such as 2026-02-25T10:00:00Z", text)
		}
		*to = at.UnixMilli()
	}
	return f, nil
}
