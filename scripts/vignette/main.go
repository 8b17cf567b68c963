// Command vignette is Gate L: it walks the built program from an issue to a
// verified, paid and mirrored change, as processes that only meet over sockets,
// and checks what they leave behind.
//
//	scripts/vignette-phase0-issue-to-pr.sh
//
// builds what is needed, makes the fixture's repository and starts it. Actors
// are a nexus with its relay, provider A of the user, provider B of another owner
// in the reserve pool (dearer), and the user herself.
//
// # What is checked
//
// P preconditions; 1 to 8 the steps of the vignette; D1 to D5 its failure cases;
// R reservations that are not resolved; B the books; E the metrics; X the end of
// all processes. Each check is a line, `ok` or `FAIL`, and none repeats what a
// process says of itself: digests are recomputed with code of this package
// ([canonical]), figures are folded from the logs here and compared with the
// authority's, and the events of a log are compared as a set of keys, since a
// count would not tell one event that is missing and one that is too many.
//
// # What it leaves
//
// A directory: summary.json (checks, metrics, timings, places), bundle/ and
// bundle.zip (the verified bundle), the logs of every process in logs/.
//
// Exit: 0 every check held, 1 one did not, or the vignette could not be walked.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// allTime bounds the whole walk: what hangs is a finding.
const allTime = 3 * time.Minute

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "empty directory for everything")
	flag.StringVar(&o.program, "program", "", "the built program")
	flag.StringVar(&o.store, "store", "", "postgres://…; SQLite without")
	flag.StringVar(&o.fixture, "fixture", "", "directory of the case")
	flag.StringVar(&o.repo, "repo", "", "the case as a repository")
	flag.StringVar(&o.target, "target", "", "the file that its fix changes")
	flag.StringVar(&o.verify, "verify", "", "its verification command")
	flag.DurationVar(&o.most, "most", mostTime, "what the walk may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !walk(ctx, o) {
		stop()
		os.Exit(1)
	}
}

// walk does everything and reports whether all held.
func walk(ctx context.Context, o options) bool {
	for _, path := range []*string{&o.dir, &o.program, &o.fixture, &o.repo} {
		abs, err := filepath.Abs(*path)
		if err != nil || *path == "" {
			fmt.Fprintln(os.Stderr, "vignette: -dir, -program, -fixture and -repo are needed")
			return false
		}
		*path = abs
	}
	logs := filepath.Join(o.dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, "vignette:", err)
		return false
	}
	v := &vignette{options: o, record: record{out: os.Stdout}, started: time.Now(), procs: &processes{program: o.program, logs: logs},
		repoRef: filepath.Base(o.repo), issueRef: filepath.Base(o.repo) + "#1"}
	ctx, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	v.story(ctx)
	v.run("X", "Everything is stopped", nil, v.stopped)
	return v.conclude()
}

// scene is a step, what it builds on, and what does it.
type scene struct {
	id, title string
	needs     []string
	do        func(context.Context, *step)
}

// story walks through all scenes. The failure cases do without the run of the
// issue, so that one defect is not reported as ten.
func (v *vignette) story(ctx context.Context) {
	logs := map[string][]event{}
	with := func(do func(context.Context, *step, map[string][]event)) func(context.Context, *step) {
		return func(ctx context.Context, s *step) { do(ctx, s, logs) }
	}
	house, issue, all := []string{"P", "1"}, []string{"P", "1", "2"}, []string{"P", "1", "2", "D1", "D2", "D3", "D4", "D5", "R", "L"}
	for _, scene := range []scene{
		{"P", "Preconditions: nexus, relay, identity, budget", nil, v.open},
		{"1", "Enrol devices, set caps", []string{"P"}, v.enrol},
		{"2", "Create a run from the issue", house, v.walk},
		{"1b", "Enrolment and caps, as the run relied on them", issue, v.enrolled},
		{"3", "Dispatch " + jobType, issue, v.dispatchedJob},
		{"4", "The provider executes and returns artifacts", issue, v.executed},
		{"5", "The verdict", issue, v.judged},
		{"6", "Settlement", issue, v.settled},
		{"7", "The change goes out, with its bundle", issue, v.bundled},
		{"D1", "Failure case: dispatch retry", house, v.retry},
		{"D2", "Failure case: provider lost mid-run", house, v.lost},
		{"D3", "Failure case: verification fails", house, v.unverified},
		{"D4", "Failure case: emergency disable", house, v.emergency},
		{"R", "A stuck reservation is reconciled", house, v.stuck},
		{"D5", "Failure case: a provider is stopped at work", house, v.stop},
		{"L", "Every run has ended, every log is whole", issue, with(v.collect)},
		{"8", "The bridge mirrors ads and receipt pointers", all, with(v.mirrored)},
		{"B", "The books balance", all, with(v.balance)},
		{"E", "The metrics", all, with(v.measure)},
	} {
		v.run(scene.id, scene.title, scene.needs, func(s *step) {
			must(context.Cause(ctx))
			scene.do(ctx, s)
		})
	}
}
