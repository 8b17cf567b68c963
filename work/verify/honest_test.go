package verify

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"remit/fixtures/honest"
	fixture "remit/fixtures/project"
	"remit/fixtures/tally"
	"remit/proof/reason"
)

// honestSample is how many honest changes a default run tries.
const honestSample = 4

// TestHonest: a correct change passes and is never called tampering, in
// whatever way its repository writes and runs tests.
func TestHonest(t *testing.T) {
	t.Parallel()
	changes := honestChanges(t)
	if os.Getenv("REMIT_HONEST") != "all" {
		chance := rand.New(rand.NewPCG(corpusSeed(), 2))
		chance.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		slices.SortStableFunc(changes, func(a, b honest.Change) int { return strings.Compare(a.Project.Language, b.Project.Language) })
		first := func(language string, n int) []honest.Change {
			at := slices.IndexFunc(changes, func(c honest.Change) bool { return c.Project.Language == language })
			return changes[at : at+n]
		}
		// A change in Go takes several times as long as one in Python.
		changes = slices.Concat(first(fixture.Go, honestSample/4), first(fixture.Python, honestSample-2*(honestSample/4)), first(fixture.JavaScript, honestSample/4), first(fixture.Rust, 1), first(fixture.PHP, 1), first(fixture.Ruby, 1))
	}
	laid := newLaidProjects(t)
	table := &tally.Table{Name: "honest changes"}
	byLanguage := make(map[string][]honest.Change)
	for _, language := range []string{fixture.Go, fixture.Python, fixture.JavaScript, fixture.Rust, fixture.PHP, fixture.Ruby} {
		for _, c := range changes {
			if c.Project.Language == language {
				byLanguage[language] = append(byLanguage[language], c)
			}
		}
		if len(byLanguage[language]) > 0 {
			table.Rows = append(table.Rows, language)
		}
	}
	for i, language := range table.Rows {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			row := table.Row(t, language)
			tally.AtItsTurn(row, i, 6)
			row.Add("tried", 0)
			row.Add("held", 0)
			row.Add("called tampering", 0)
			tried := 0
			for _, c := range byLanguage[language] {
				if p := laid.of(c.Project); p.lacking != "" {
					row.Note("%s: %s", c.Name, p.lacking)
					continue
				}
				laid.tryHonest(t, row, &c)
				tried++
			}
			if tried == 0 {
				row.Skipf("%s", laid.of(byLanguage[language][0].Project).lacking)
			}
		})
	}
}

func (l *laidProjects) tryHonest(t *testing.T, row *tally.Count, c *honest.Change) {
	t.Helper()
	p := l.of(c.Project)
	v, head, log := judgeCheat(t, l.in(p.Language), p.plan, p.base, files(c.Patch))
	if v.Status == StatusPass && p.Language == fixture.Rust && (head.Control == nil || head.Control.Proved < head.Control.Counting) {
		t.Errorf("%s: not each test that counts is proved: %+v", c.Name, head.Control)
	}
	if len(v.Findings) > 0 && v.Findings[0].Code == reason.VerifierTampering {
		row.Add("called tampering", 1)
	}
	row.Check(v.Status == StatusPass, "%s: %s%s", c.Name, explain(v), log)
	if v.Status == StatusPass && c.Fixed > 0 && v.Counts.FailToPass != c.Fixed {
		t.Errorf("%s: %d tests are fixed, want %d: %q", c.Name, v.Counts.FailToPass, c.Fixed, v.FailToPass)
	}
}

func honestChanges(t *testing.T) []honest.Change {
	t.Helper()
	shipped, err := honest.Shipped(os.DirFS("../../fixtures"))
	if err != nil || len(shipped) == 0 {
		t.Fatalf("%d shipped cases: %v", len(shipped), err)
	}
	return append(shipped, honest.All()...)
}
