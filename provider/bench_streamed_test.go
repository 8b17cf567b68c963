package provider_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"remit/law/task"
	"remit/nexus/requester"
	"remit/nexus/store"
	"remit/nexus/store/storetest"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/engine/command"
	"remit/work/harness"
	"remit/work/session"
)

// bundleOnly is an authority that gets no entry during the run: the journal comes with
// the bundle alone.
type bundleOnly struct {
	harness.Authority
	of *requester.Requester
}

func (b bundleOnly) Ready(ctx context.Context) { b.of.Ready(ctx) }
func (b bundleOnly) Release() error            { return b.of.Release() }

// BenchmarkStreamed is a run under a nexus whose journal is streamed, and by turns the
// same run without: what it costs is the median of the differences.
func BenchmarkStreamed(b *testing.B) {
	const pairs, messages = 11, 200
	g := newStage(b, storetest.Open(b, storetest.SQLite(b), store.Options{}))
	n := 0
	run := func(streamed bool) (took time.Duration, entries int) {
		n++
		c, err := task.FromIssue([]byte("# Change it\n"), fmt.Sprint("issue-", n), nil)
		if err == nil {
			c, err = task.Narrow(c, task.Flags{Allow: []string{"**"}, Verify: []string{"grep -q better a.txt"}})
		}
		if err != nil {
			b.Fatal(err)
		}
		q := g.authority(&mortal{stage: g})
		request := harness.Request{Home: session.Home{Dir: b.TempDir()}, Repo: g.repo, RepoRef: "repo", Contract: c, Sandbox: g.driver, ExplicitNone: true, Repeat: 1,
			Engine: &command.Engine{Argv: []string{"sh", "-c", "sleep 1; echo better > a.txt"}}, Authority: q, Nexus: g.url,
			Admission: harness.Admission{ProvenMode: task.CopiedRepo}, JournalHook: func(s journal.Step) []journal.Step {
				out := []journal.Step{s}
				for i := range messages {
					if s.Name != evidence.StepEngine || s.Status != journal.Started {
						break
					}
					out = append(out, journal.Step{StepID: fmt.Sprint("message", i), Name: evidence.StepMessage, Status: journal.Completed, StartedAt: s.StartedAt,
						CompletedAt: s.StartedAt, Outputs: evidence.Message{Role: "assistant", Text: fmt.Sprint("message ", i)}})
				}
				return out
			}}
		if !streamed {
			request.Authority = bundleOnly{q, q}
		}
		begin := time.Now()
		out, err := harness.Run(b.Context(), request)
		took = time.Since(begin)
		if err != nil || out.NotConcluded != nil || out.Report.Status != evidence.StatusPass {
			b.Fatalf("%+v, %v", out, err)
		}
		log, err := journal.ReadFile(filepath.Join(out.Session.Dir, evidence.JournalFile))
		if err != nil {
			b.Fatal(err)
		}
		return took, len(log.Entries)
	}
	entries := 0
	run(true) // fills caches
	for b.Loop() {
		var with, without, more []time.Duration
		for range pairs {
			w, n := run(true)
			wo, _ := run(false)
			with, without, more, entries = append(with, w), append(without, wo), append(more, w-wo), n
		}
		ms := func(list []time.Duration) float64 {
			slices.Sort(list)
			return float64(list[len(list)/2].Microseconds()) / 1000
		}
		b.ReportMetric(ms(with), "with-ms")
		b.ReportMetric(ms(without), "without-ms")
		b.ReportMetric(ms(more), "more-ms")
		b.ReportMetric(100*ms(more)/ms(without), "%-more")
	}
	b.ReportMetric(float64(entries), "entries")
	b.ReportMetric(0, "ns/op")
}
