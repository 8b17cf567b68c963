//go:build !race

package panel

import (
	"context"
	"fmt"
	"testing"
	"time"

	"remit/nexus/authority"
	"remit/proof/evidence"
)

// measure asks for a page again and again, and reports how long the server takes and
// how much it sends.
func measure(b *testing.B, reader *browser, path string) {
	b.Helper()
	var bytes int
	begin, first := time.Now(), time.Duration(0)
	for b.Loop() {
		out := reader.get(path)
		if first == 0 { // which keeps nothing of an earlier one
			first = time.Since(begin)
		}
		if out.status != 200 {
			b.Fatal(out.status)
		}
		bytes = len(out.body)
	}
	b.ReportMetric(float64(time.Since(begin).Microseconds())/1000/float64(b.N), "page-ms")
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
	b.ReportMetric(float64(bytes)/1000, "kB")
}

// BenchmarkLargeRun is the page of a run with 2,000 tool calls, 300 changed files and
// a log of 50 MB, a search in all of the log, and the file of its change that has 5 MB.
func BenchmarkLargeRun(b *testing.B) {
	w := newWorld(b, longRun(2000, 50<<20).onDisk(b), true)
	reader := w.login(w.token("alice", authority.ScopeRead))
	for _, c := range []struct{ name, path string }{{"page", ""}, {"search", "/log/test.log?q=NEEDLE"}, {"diff", "/changes?file=299"}} {
		b.Run(c.name, func(b *testing.B) { measure(b, reader, "/runs/20261123T100000Z-b-2"+c.path) })
	}
}

// BenchmarkBrowser is what a person sees of the same in a browser, and of a run that
// tells 200 entries a second.
func BenchmarkBrowser(b *testing.B) {
	b.Run("large", func(b *testing.B) {
		for b.Loop() {
			got := opensTheLarge(b, 50<<20)
			for unit, is := range map[string]float64{"page-ms": got.Page.Ms, "page-kB": got.Page.KB, "search-ms": got.Search.Ms, "diff-ms": got.Diff.Ms, "diff-kB": got.Diff.KB,
				"diff-longest-ms": got.DiffLongest, "scroll-gap-ms": got.Scroll.Gap, "blank": float64(got.Scroll.Blank)} {
				b.ReportMetric(is, unit)
			}
		}
	})
	b.Run("lane", func(b *testing.B) {
		for b.Loop() {
			w := newWorld(b, nil, true)
			token := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
			ctx := browse(b)
			do := doing(ctx, b)
			w.enters(do, token)
			got := w.staysSmooth(ctx, token, do)
			for unit, is := range map[string]float64{"gap-ms": got.Gap, "longest-ms": got.Longest, "long-tasks": float64(got.Tasks), "late-ms": got.Late} {
				b.ReportMetric(is, unit)
			}
		}
	})
}

// listedHome has a list that is kept, as the home of a machine has.
type listedHome struct {
	*memoryHome
	list []Summary
}

func (h *listedHome) List(context.Context) ([]Summary, int, error) { return h.list, len(h.list), nil }

// BenchmarkManyRuns is the first page of 10,000 runs, and a search in them.
func BenchmarkManyRuns(b *testing.B) {
	h := &listedHome{&memoryHome{}, manyRuns(10_000)}
	w := newWorld(b, h, true)
	reader := w.login(w.token("alice", authority.ScopeRead))
	for _, c := range []struct{ name, path string }{{"page", "/"}, {"search", "/?q=run+9999"}} {
		b.Run(c.name, func(b *testing.B) { measure(b, reader, c.path) })
	}
}

// BenchmarkTold measures what a run waits for at its end: one request sends the entries
// of the journal that were not sent during the run, here all but the first entry.
func BenchmarkTold(b *testing.B) {
	w := newWorld(b, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	entries := sealedJournal(b, "pass")
	runs := 0
	var spent time.Duration
	for b.Loop() {
		key := fmt.Sprint("run", runs)
		id := w.tell(token, key, "acme/links", entries[:1], nil)
		begin := time.Now()
		w.tellMore(token, key+"more", id, entries[1:], nil, 16<<10)
		spent += time.Since(begin)
		runs++
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(runs), "run-ms")
	b.ReportMetric(float64(len(entries)), "entries")
}

// BenchmarkBusyLane is the page of a run of the nexus that grows: it is made anew for
// entries that come 200 at a time, as a page does that follows its lane.
func BenchmarkBusyLane(b *testing.B) {
	w := newWorld(b, nil, true)
	token := w.token("alice", authority.ScopeRead, authority.ScopeRuns)
	entries := sealedJournal(b, "controlled")
	at := 0
	for i, e := range entries {
		if e.Name == evidence.StepEngine {
			at = i + 1
			break
		}
	}
	run := w.tell(token, "busy", "acme/links", entries[:at], nil)
	measure(b, w.login(token), "/nexus/runs/"+run)
}
