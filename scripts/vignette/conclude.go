package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// mostTime is what the walk may take on a machine that does nothing else.
const mostTime = time.Minute

// collect ends the runs that are still open and reads every log of the user's.
func (v *vignette) collect(ctx context.Context, s *step, logs map[string][]event) {
	for _, name := range []string{"early", "toggle"} {
		r := v.named(name)
		v.closeRun(ctx, s, r, "canceled", []string{r.await(ctx, "JobRejected").Key})
	}
	var page struct {
		Items []struct {
			ID     string `json:"run_id"`
			Status string `json:"status"`
		} `json:"items"`
	}
	v.nexus.get(ctx, v.alice, "/v1/runs?limit=500", &page)
	var listed, known, open []string
	for _, r := range page.Items {
		listed = append(listed, r.ID)
		if r.Status != "succeeded" && r.Status != "failed" && r.Status != "canceled" {
			open = append(open, r.ID+" is "+r.Status)
		}
		events := v.nexus.log(ctx, v.alice, r.ID)
		s.none("the log of "+r.ID+" has no gap and no wrong digest", integrity(events))
		logs[r.ID] = events
	}
	for _, r := range v.runs {
		known = append(known, r.id)
	}
	s.exactly("the nexus knows exactly the runs that were made", listed, append(known, v.happy.runID))
	s.none("all have ended", open)
	_, gaps := v.fleet.seen()
	s.none("the presence lane had no gap until now", gaps)
	v.fleet.close()
	v.readable(ctx, s)
}

// readable asks for the health of the authority after all that.
func (v *vignette) readable(ctx context.Context, s *step) {
	a := v.nexus.do(ctx, request{method: http.MethodGet, path: "/readyz"}, http.StatusOK, nil)
	s.ok(strings.Contains(string(a.raw), `"read_only":false`), "the nexus is ready, and takes mutations", string(a.raw))
}

// stopped ends every process, and looks for what is left.
func (v *vignette) stopped(s *step) {
	s.none("relay, nexus and daemons end at SIGTERM without an error", v.procs.stopAll())
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := until(ctx, "no process works in "+v.dir, func() bool { return len(v.leftovers()) == 0 })
	s.ok(err == nil, "no process of the vignette is left", err, v.leftovers())
	took := time.Since(v.started)
	s.ok(took < v.most, "the walk took less than "+v.most.String(), took.Round(time.Millisecond))
}

// leftovers lists processes that belong to this walk: what the program started
// has its home in its environment, or works with files in there.
func (v *vignette) leftovers() []string {
	left := having("REMIT_HOME="+v.dir+"/", "environ")
	for _, home := range []string{"home-nexus", "nexus", "relay", "alice", "provider-a", "provider-b"} {
		left = append(left, having(v.path(home)+"/", "cmdline")...)
	}
	return slices.DeleteFunc(left, func(pid string) bool { return pid == fmt.Sprint(os.Getpid()) })
}

// conclude prints the summary and writes it for programs.
func (v *vignette) conclude() bool {
	passed, failed := v.counts()
	took := time.Since(v.started).Milliseconds()
	summary := map[string]any{
		"schema": "remit.vignette.v1", "started_at": v.started.UTC().Format("2006-01-02T15:04:05.000Z"), "took_ms": took,
		"store": v.storeName(), "passed": passed, "failed": failed, "green": failed == 0, "steps": v.steps, "metrics": v.figures,
		"paths": map[string]string{"dir": v.dir, "bundle": v.path("bundle.zip"), "logs": v.path("logs"), "repository": v.repo},
	}
	if v.happy != nil {
		summary["run_id"], summary["session_id"] = v.happy.runID, v.happy.session
	}
	b, err := json.MarshalIndent(summary, "", "  ")
	if err == nil {
		err = os.WriteFile(v.path("summary.json"), append(b, '\n'), 0o600)
	}
	if err != nil {
		fmt.Fprintln(v.out, "FAIL summary.json:", err)
		failed++
	}
	word := "green"
	if failed > 0 {
		word = "RED"
	}
	fmt.Fprintf(v.out, "\nGate L is %s: %d checks held, %d did not, in %.1f s on %s\n%s\n", word, passed, failed, float64(took)/1000,
		v.storeName(), v.path("summary.json"))
	return failed == 0
}

func (v *vignette) storeName() string {
	if v.store == "" {
		return "sqlite"
	}
	return "postgres"
}
