package verify

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cheats "remit/fixtures/cheat"
	fixture "remit/fixtures/project"
	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/results"
)

// The corpora: cheats that must not pass, and honest changes that must. Both
// are data (fixtures/cheat, fixtures/honest); here they are run. By default a
// run tries one variant of an eighth of the classes of a core, and of one that a seed
// chooses, which it prints:
//
//	REMIT_CHEAT_SEED=N   the same choice again
//	REMIT_CHEATS=all     every variant of every class, of tests that are chosen by name (-run)
//	REMIT_ADVERSARY=N    so many random cheats
//	REMIT_HONEST=all     every honest change

// corpusSeed chooses what a run tries.
var corpusSeed = sync.OnceValue(func() uint64 {
	if given, err := strconv.ParseUint(os.Getenv("REMIT_CHEAT_SEED"), 10, 64); err == nil {
		return given
	}
	return rand.Uint64()
})

func everyCheat() bool { return os.Getenv("REMIT_CHEATS") == "all" }

// laidProject is a project on disk with its base phase, which runs once.
type laidProject struct {
	*fixture.Project
	plan    Plan
	lacking string // what the sandbox has not got for it
	base    func() (*PhaseResult, error)
}

// laidProjects lays out each project once, for a test and its parallel parts.
type laidProjects struct {
	t     *testing.T
	sb    Sandbox
	rust  func() (sandbox.Driver, error) // the same with the toolchain of Rust
	mu    sync.Mutex
	known map[string]*laidProject
	needs map[string]string // by the command that a project needs, what is lacking
}

func newLaidProjects(t *testing.T) *laidProjects {
	t.Helper()
	t.Logf("REMIT_CHEAT_SEED=%d", corpusSeed())
	l := &laidProjects{t: t, sb: realSandbox(t), known: make(map[string]*laidProject), needs: make(map[string]string)}
	l.rust = sync.OnceValues(func() (sandbox.Driver, error) {
		return sandbox.Open(context.Background(), sandbox.Options{Toolchains: slices.DeleteFunc([]string{rustToolchain()}, func(dir string) bool { return dir == "" })})
	})
	return l
}

// in is the sandbox for a language.
func (l *laidProjects) in(language string) Sandbox {
	if language != fixture.Rust {
		return l.sb
	}
	sb, err := l.rust()
	if err != nil {
		l.t.Fatal(err)
	}
	return sb
}

func (l *laidProjects) of(p *fixture.Project) *laidProject {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known[p.Name]; known != nil {
		return known
	}
	dir := files(p.Base).write(l.t)
	plan := Plan{Lower: dir, TestingDir: testingDir, Commands: p.Commands, HeldOut: files(p.HeldOut).changes(), Limits: sandbox.Limits{Wall: 2 * time.Minute, OutputBytes: 1 << 20}}
	sb := l.in(p.Language)
	if _, asked := l.needs[p.Needs]; !asked {
		l.needs[p.Needs] = lacks(l.t, sb, dir, p.Needs)
	}
	if len(p.Accident) > 0 {
		sb = &accident{sb: sb, env: p.Accident}
	}
	laid := &laidProject{Project: p, plan: plan, lacking: l.needs[p.Needs]}
	laid.base = sync.OnceValues(func() (*PhaseResult, error) { return Base(context.Background(), sb, plan) })
	l.known[p.Name] = laid
	return laid
}

// accident is a host that lacks something in its first run.
type accident struct {
	sb  Sandbox
	env fixture.Tree
	mu  sync.Mutex
	ran bool
}

func (a *accident) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	a.mu.Lock()
	first := !a.ran
	a.ran = true
	a.mu.Unlock()
	if first {
		s.Env = fixture.Tree(s.Env).With(a.env)
	}
	return a.sb.Run(ctx, s)
}

// defect runs a cheat without any verifier: its commands must succeed, report
// no failed test, and where every variant is tried a program outside of the
// tests must not get the right answer. It returns what is wrong with the
// cheat, "" when it works.
func (l *laidProjects) defect(t *testing.T, p *laidProject, c *cheats.Cheat) string {
	t.Helper()
	apply := files(c.Patch.With(p.HeldOut).With(c.Probe)).changes()
	s := sandbox.Spec{Lower: p.plan.Lower, Apply: apply, Env: runEnv, Limits: p.plan.Limits}
	var outs []*bytes.Buffer
	probe := ":"
	if everyCheat() && c.ProbeCommand != "" {
		probe = c.ProbeCommand
	}
	for i, command := range append([]string{probe}, p.Commands...) {
		if i > 0 { // with the flags that make the runner name its tests
			command, _, _ = results.Augment(command)
		}
		out := new(bytes.Buffer)
		outs = append(outs, out)
		s.Commands = append(s.Commands, sandbox.Command{Argv: []string{"sh", "-c", command}, Stdout: out, Stderr: out})
	}
	r, err := l.in(p.Language).Run(t.Context(), s)
	if err != nil || len(r.Commands) != len(s.Commands) {
		t.Fatalf("%v %+v", err, r)
	}
	if _, answer, found := strings.Cut(outs[0].String(), "answer: "); found && !strings.HasPrefix(answer, "0") {
		return "the bug is mended: " + outs[0].String()
	}
	for i, ran := range r.Commands[1:] {
		if ran.ExitCode != 0 {
			return fmt.Sprintf("%q exits with %d\n%s", p.Commands[i], ran.ExitCode, outs[i+1])
		}
		if failed := failedIn(outs[i+1]); failed != "" {
			return "a test is reported as failed: " + failed
		}
	}
	return ""
}

// failedIn is a test that an output of a runner reports as failed.
func failedIn(out *bytes.Buffer) string {
	read := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	report, err := results.Read(results.Input{Stdout: read, Stderr: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }})
	if err != nil || report == nil || report.Failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d in %s", report.Failed, out)
}

// tryCheat proves that a variant works, and judges it.
func (l *laidProjects) tryCheat(t *testing.T, row *tally.Count, c *cheats.Cheat) (fooled bool) {
	t.Helper()
	p := l.of(c.Project)
	if p.lacking != "" {
		row.Skip(p.lacking)
	}
	if wrong := l.defect(t, p, c); wrong != "" {
		t.Errorf("%s: the cheat does not work, the corpus needs a better one: %s", c.Name(), wrong)
	}
	return l.judged(t, row, p, c)
}

// judged has the verifier judge a cheat, and counts what it found in the row.
// It says whether the false claim of the cheat was made.
func (l *laidProjects) judged(t *testing.T, row *tally.Count, p *laidProject, c *cheats.Cheat) (fooled bool) {
	t.Helper()
	if p.lacking != "" {
		row.Skip(p.lacking)
	}
	plan := p.plan
	plan.Tests = c.Rule
	v, head, log := judgeCheat(t, l.in(p.Language), plan, p.base, files(c.Patch))
	if !slices.ContainsFunc(head.Commands, func(r CommandResult) bool { return r.ExitCode != 0 }) {
		row.Add("exit 0", 1)
	}
	fooled = v.Status == StatusPass && (c.False == cheats.Pass || v.Counts.FailToPass > 0)
	if fooled {
		t.Logf("%s: %s%+v\n%s", c.Name(), explain(v), v.Control, log)
	}
	for _, f := range v.Findings[:min(1, len(v.Findings))] {
		row.Add(string(f.Code), 1)
		if f.Code == reason.InfrastructureFault {
			t.Errorf("%s: %s%s", c.Name(), explain(v), log)
		}
	}
	return fooled
}

// coreClasses are tried in every eighth run, by eighths: the ways of thinking that differ
// most, in the language that tries them fastest.
var coreClasses = []string{
	"V1 Python", "V2 Python", "V4 Python", "V5 Python", "T1 Python", "T2 Python", "T3 Python", "T6 Python", "T7 Python", "T10 Python",
	"V2 Go", "T4 Go", "T6 Go", "V2 JavaScript", "T1 JavaScript", "T6 JavaScript", "T10 JavaScript", "V2 PHP",
}

// variantOf is the variant of a class that a run tries, whatever else it tries.
func variantOf(class cheats.Class, n int) int {
	h := fnv.New64a()
	h.Write([]byte(class.Name()))
	return rand.New(rand.NewPCG(corpusSeed(), h.Sum64())).IntN(n)
}

// drawnClasses is how many of the other classes a default run tries.
const drawnClasses = 1

// tryClasses are the classes of a run: all, or the core and some others.
func tryClasses(t testing.TB, chance *rand.Rand, classes []cheats.Class) []cheats.Class {
	if everyCheat() || tally.ByName() {
		return classes
	}
	place := func(c cheats.Class) int { return slices.Index(coreClasses, c.ID+" "+c.Language) }
	core := slices.DeleteFunc(slices.Clone(classes), func(c cheats.Class) bool { return place(c) < 0 || !tally.ByTurn(t, place(c), 8) })
	rest := slices.DeleteFunc(slices.Clone(classes), func(c cheats.Class) bool { return place(c) >= 0 })
	chance.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return append(core, rest[:drawnClasses]...)
}

// TestCoreClasses: each name of the core is a class.
func TestCoreClasses(t *testing.T) {
	t.Parallel()
	for _, name := range coreClasses {
		if !slices.ContainsFunc(cheats.Classes(), func(c cheats.Class) bool { return c.ID+" "+c.Language == name }) {
			t.Errorf("there is no class %q", name)
		}
	}
}

// TestCheats: no variant of a class ends with the claim that it must not make,
// unless the class is one that a run of the tests cannot see or only makes
// costly. Each variant works where no verifier looks.
func TestCheats(t *testing.T) {
	t.Parallel()
	laid := newLaidProjects(t)
	chance := rand.New(rand.NewPCG(corpusSeed(), 0))
	table := &tally.Table{Name: "classes of cheats"}
	classes := slices.DeleteFunc(cheats.Classes(), func(c cheats.Class) bool { return c.Early })
	tried := tryClasses(t, chance, classes)
	t.Logf("%d of %d classes are tried", len(tried), len(classes))
	for _, c := range tried {
		table.Rows = append(table.Rows, c.Name())
	}
	for _, class := range tried {
		variants := cheats.Of(class)
		if !everyCheat() {
			variants = variants[variantOf(class, len(variants)):][:1]
		}
		t.Run(class.Name(), func(t *testing.T) {
			t.Parallel()
			row := table.Row(t, class.Name())
			if class == tried[0] && len(tried) < len(classes) {
				row.Note("%d of %d classes, REMIT_CHEAT_SEED=%d", len(tried), len(classes), corpusSeed())
			}
			for _, c := range variants {
				fooled := laid.tryCheat(t, row, &c)
				row.Check(!fooled || class.Aim != cheats.Stopped, "%s (%s) ends as a %s", c.Name(), class.ID, c.False)
				if fooled {
					row.Add("passed", 1)
				}
			}
			if class.Aim != cheats.Stopped {
				row.Note("this class is %s", class.Aim)
			}
		})
	}
}

// adversaries is how many random cheats a default run tries.
const adversaries = 3

// TestAdversary: a random trigger with a random effect does not pass. A cheat
// that guesses gets through as often as its odds say and not more.
func TestAdversary(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	n := adversaries
	if given := os.Getenv("REMIT_ADVERSARY"); given != "" {
		asked, err := strconv.Atoi(given)
		if err != nil || asked < 1 {
			t.Fatalf("REMIT_ADVERSARY=%q is no number of cheats", given)
		}
		n = asked
	}
	laid := newLaidProjects(t)
	runners, table := cheats.Runners(), &tally.Table{Name: "random cheats"}
	for _, r := range runners {
		table.Rows = append(table.Rows, r.Name)
	}
	for i, r := range runners {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			row := table.Row(t, r.Name)
			row.Note("REMIT_CHEAT_SEED=%d", corpusSeed())
			laid.tryAdversary(t, row, r, corpusSeed()+uint64(i)<<32, (n+i)/len(runners))
		})
	}
}

// tryAdversary tries n random cheats of a runner and counts what got through.
func (l *laidProjects) tryAdversary(t *testing.T, row *tally.Count, r cheats.Runner, seed uint64, n int) {
	t.Helper()
	guesses, lucky, odds := 0, 0, 0.0
	for i := range max(n, 1) {
		c := cheats.Random(r, seed+uint64(i))
		fooled := l.judged(t, row, l.of(c.Project), &c)
		if !c.Guess {
			row.Check(!fooled, "%s ends as a pass (cheat %d of seed %d)", c.Name(), i, corpusSeed())
			continue
		}
		row.Add("tried", 1)
		guesses++
		odds += 1 / float64(c.Odds)
		if fooled {
			lucky++
		}
	}
	row.Add("guesses", guesses)
	row.Add("guessed right", lucky)
	// Three standard deviations of coins, and one more for short runs.
	if bound := odds + 1 + 3*math.Sqrt(odds); float64(lucky) > bound {
		t.Errorf("%d of %d guesses got through, the odds allow %.0f", lucky, guesses, bound)
	}
}
