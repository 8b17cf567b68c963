package verify

import (
	"fmt"
	"slices"
	"testing"

	"remit/work/verify/results"
	"remit/work/verify/twin"
)

// TestEveryKeptTestMeetsAnotherValue: however the runs are drawn, a kept test that has
// a place for it meets another expected value in one of them, is altered in its
// second way in another, and is neutral in one; no run tells by its place what
// happens in it.
func TestEveryKeptTestMeetsAnotherValue(t *testing.T) {
	t.Parallel()
	flip, expect := twin.Site{Kind: twin.Flip, Certain: true}, twin.Site{Kind: twin.Expect, Certain: true}
	fail, late := twin.Site{Kind: twin.Fail}, twin.Site{Kind: twin.Expect}
	late.Line = 2
	several := expect
	several.Literals = 2
	shapes := []struct {
		name  string
		sites []twin.Site
		ways  int
		value bool // it meets another expected value
	}{
		{"all kinds", []twin.Site{fail, flip, expect, fail}, 2, true},
		{"several literals", []twin.Site{fail, flip, several}, 2, true},
		{"a computed value in an assertion that is certain", []twin.Site{fail, flip, {Kind: twin.Expect}}, 2, true},
		{"a value that may not be reached", []twin.Site{fail, flip, late}, 1, false},
		{"only a value", []twin.Site{expect}, 1, true},
		{"a failing statement", []twin.Site{fail, late}, 1, false},
		{"only what may not be reached", []twin.Site{late}, 1, true},
	}
	places := make(map[string]int) // by shape, number of runs and run: how often another value is expected there
	const draws = 60
	for range draws {
		var s suite
		f := &suiteFile{}
		s.files = []*suiteFile{f}
		for _, shape := range shapes {
			test := &suiteTest{file: f, name: shape.name, baseFacts: baseFacts{Outcome: results.Pass}}
			for id, site := range shape.sites {
				site.ID = id
				test.sites = append(test.sites, site)
			}
			f.tests = append(f.tests, test)
		}
		failing := &suiteTest{file: f, name: "fails", sites: []twin.Site{flip}, baseFacts: baseFacts{Outcome: results.Fail}}
		f.tests = append(f.tests, failing)
		trials := s.trials(draw{})
		var tests []held
		for i, shape := range shapes {
			test := f.tests[i]
			for _, run := range trials {
				if o, ok := run[test]; ok {
					test.Proved = union(test.Proved, []int{o.Site})
				}
			}
			if len(trials) != 3 || len(test.Proved) != shape.ways {
				t.Fatalf("%s: %d runs of the base alter %v", shape.name, len(trials), test.Proved)
			}
			tests = append(tests, held{test, false})
		}
		for _, n := range []int{2, 3, 4} {
			runs := orders(draw{}, tests, n, true)
			for i, shape := range shapes {
				seen, neutral, literals := make(map[int]bool), 0, make(map[int]bool)
				for at, run := range runs {
					o, altered := run[f.tests[i]]
					switch {
					case !altered:
						neutral++
					case f.tests[i].site(o.Site).Kind == twin.Expect:
						places[fmt.Sprint(shape.name, n, at)]++
						literals[o.Literal%2] = true
						fallthrough
					default:
						seen[o.Site] = true
					}
				}
				value := slices.ContainsFunc(f.tests[i].ofKind(twin.Expect), func(id int) bool { return seen[id] })
				if value != shape.value || neutral == 0 || len(seen) != min(shape.ways, n-1) || n == 4 && neutral != 2 && len(literals) < 2 {
					t.Fatalf("%s in %d runs: sites %v, neutral in %d", shape.name, n, seen, neutral)
				}
				if shape.name == "several literals" && n == 4 && len(literals) < 2 {
					t.Fatalf("of two literals %v is altered", literals)
				}
			}
			if _, altered := trials[0][failing]; altered {
				t.Fatal("a test that fails on the base is altered there")
			}
		}
	}
	for _, shape := range shapes {
		for _, n := range []int{2, 3, 4} {
			for at := range n {
				if times := places[fmt.Sprint(shape.name, n, at)]; shape.value && (times == 0 || times == draws && n > 2) {
					t.Errorf("%s: in run %d of %d another value is expected %d times in %d", shape.name, at, n, times, draws)
				}
			}
		}
	}
}
