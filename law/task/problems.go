package task

import (
	"fmt"
	"strings"

	"remit/law/yamldoc"
	"remit/proof/reason"
)

// Problems are all the things that are wrong with a task file or a policy, in
// source order. errors.As finds the first, errors.Is any.
type Problems = yamldoc.Problems

// place is a position in a source; the zero value is "unknown".
type place = yamldoc.Place

// report collects problems about one source.
type report struct {
	file     string
	places   map[string]place // where each field stands
	problems Problems
}

func newReport(file string) *report { return &report{file: file, places: map[string]place{}} }

// add reports a problem with a field at a known place.
func (r *report) add(at place, field string, code reason.Code, hint, format string, args ...any) {
	e := reason.Errorf(code, format, args...)
	e.File, e.Line, e.Column, e.Field, e.Hint = r.file, at.Line, at.Column, field, hint
	r.problems = append(r.problems, e)
}

// field reports a problem with a field wherever it stands, unless an earlier
// problem already explains it: one defect is one problem.
func (r *report) field(field string, code reason.Code, hint, format string, args ...any) {
	for _, known := range r.problems {
		if known.Field == field || strings.HasPrefix(known.Field, field+".") || strings.HasPrefix(known.Field, field+"[") ||
			strings.HasPrefix(field, known.Field+"[") || strings.HasPrefix(field, known.Field+".") {
			return
		}
	}
	r.add(r.placeOf(field), field, code, hint, format, args...)
}

// placeOf finds the nearest known place: the field, or what contains it.
func (r *report) placeOf(field string) place {
	for {
		if at, ok := r.places[field]; ok {
			return at
		}
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return r.places[""]
		}
		field = field[:cut]
	}
}

// err returns the problems in source order, nil if there are none.
func (r *report) err() error { return r.problems.Sorted() }

// didYouMean is a hint that names the known word nearest to what was written,
// or all of them when none is near.
func didYouMean(word string, known []string) string {
	best, distance := "", 1+len(word)/3
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), k); d <= distance {
			if best == "" || d < distance {
				best, distance = k, d
			}
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "one of " + strings.Join(known, ", ")
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours. Long words are not compared: they are no typing mistakes.
func editDistance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			substitute := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				substitute++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, substitute)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
