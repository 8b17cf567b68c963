package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"remit/fixtures/tally"
)

// engineRows are all rows, in the order of the table.
func engineRows() []engineRow {
	return slices.Concat([]engineRow{fixtureRow}, runRows, probeRows(), []engineRow{keyRow})
}

// engines is what the published agents make of a model that behaves, and of one
// that does not: a column for each agent, with the requests to the model.
var engines = sync.OnceValue(func() *tally.Table {
	table := &tally.Table{Name: "engines"}
	for _, row := range engineRows() {
		table.Rows = append(table.Rows, row.name)
	}
	return table
})

// allFaults is the agent that every row runs with: the one that starts fastest.
// The others have those rows that are marked, unless REMIT_SOAK is set.
const allFaults = "codex"

// runs reports whether row i is for an agent in the short version: each run with an agent
// tries that it works and keeps nothing for itself, and of what a model can do a seventh.
func (r engineRow) runs(t testing.TB, i int, a agentCLI) bool {
	if core := r.name == fixtureRow.name || r.name == keyRow.name; !core && !tally.ByTurn(t, i+len(a.name), 7) {
		return false
	}
	return a.name == allFaults || r.every == adapters || r.every == eachAgent && a.engine == ""
}

// atOnce is how many runs go on at a time, beside those that wait for a limit.
const atOnce = 3

// TestEngines drives the published agents through `remit run` against a
// scripted model, in the real sandbox and through the real gateway.
func TestEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("the published agents take seconds to start")
	}
	t.Parallel()
	requireSandbox(t)
	slots := make(chan struct{}, atOnce)
	all := append(slices.Clone(agentCLIs), adapter("codex-acp", "codex"))
	if _, soak := soaking(t); soak {
		all = append(all, adapter("claude-agent-acp", "claude"))
	}
	for i, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			drives(t, a, slots, tally.ByTurn(t, i, 8))
		})
	}
}

// drives runs the rows with one agent, if it is its turn.
func drives(t *testing.T, a agentCLI, slots chan struct{}, turn bool) {
	_, soak := soaking(t)
	ran := map[string]bool{}
	defer func() { // what did not run says why
		why := tally.Waits + " to try it; make soak tries all"
		if turn && t.Skipped() {
			why = a.name + " is not installed: make agents"
		}
		for place, name := range engines().Rows {
			if !ran[name] {
				fmt.Fprintln(t.Output(), tally.Row{Table: engines().Name, Place: place, Name: name, As: a.name, Verdict: tally.NotHere, Reason: why})
			}
		}
	}()
	if !turn {
		t.Skip(tally.Waits)
	}
	home := a.admitted(t)
	hollow, hollowHome := a.hollow(t, home)
	var all sync.WaitGroup
	defer all.Wait() // all rows end before the test does
	for i, row := range engineRows() {
		if !soak && !row.runs(t, i, a) {
			continue
		}
		ran[row.name] = true
		all.Go(func() {
			if row.wall == 0 {
				slots <- struct{}{}
				defer func() { <-slots }()
			}
			t.Run(row.name, func(t *testing.T) {
				if row.want.idle {
					tried(t, hollow, row, hollowHome)
				} else {
					tried(t, a, row, home)
				}
			})
		})
	}
}

// tried runs one row and counts it.
func tried(t *testing.T, a agentCLI, row engineRow, admitted string) {
	c := engines().Row(t, row.name)
	c.As(a.name)
	home := t.TempDir() // its own: no run waits for the authority of another
	if err := os.CopyFS(filepath.Join(home, "admissions"), os.DirFS(filepath.Join(admitted, "admissions"))); err != nil {
		t.Fatal(err)
	}
	a.proved(t, home)
	d := newDrive(t, a, row, home)
	d.judge()
	c.Check(!t.Failed(), "%s with %s did not end as it should", row.name, a.name)
	c.Add("requests", int(d.counts.Requests))
}
