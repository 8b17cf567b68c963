//go:build ignore

// Command test-summary reads `go test -json` on standard input and prints what
// a person wants to know: a line a package, the full output of what failed,
// every skipped test with its reason, those that wait for their turn, the tables
// that the tests counted for (package tally), the slowest tests, and last the counts.
//
// A skip is a promise that was not checked, so it is never silent. Exit 1 when
// anything failed, when a row of a table did not hold, or when no test ran at
// all.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"remit/fixtures/tally"
)

// event is one line of test2json; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

type key struct{ pkg, test string }

func main() {
	output := map[key][]string{}
	failedIn := map[string]bool{} // packages with a failed test
	var skipped []string
	turns := map[string][]string{} // by package, the tests that wait for their turn
	var tables tally.Collection
	var slow slowest
	passed, failed, waiting, packages := 0, 0, 0, 0

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text()) // not an event: the go command speaks for itself
			continue
		}
		if e.Package == "" {
			e.Package = e.ImportPath
		}
		k := key{e.Package, e.Test}
		slow.add(e)
		switch {
		case e.Action == "output" || e.Action == "build-output":
			output[k] = append(output[k], e.Output)
			if row, ok := tally.Parse(e.Output); ok {
				tables.Add(row)
			}
		case e.Action == "build-fail":
			fmt.Printf("FAIL  %s does not build\n%s", e.Package, strings.Join(output[k], ""))
		case e.Test != "" && e.Action == "pass":
			passed++
			printRaces(k, output[k])
			delete(output, k)
		case e.Test != "" && e.Action == "fail":
			failed++
			failedIn[e.Package] = true
			fmt.Printf("--- FAIL %s %s (%.2fs)\n%s", e.Package, e.Test, e.Elapsed, strings.Join(output[k], ""))
		case e.Test != "" && e.Action == "skip":
			if why := reason(output[k]); strings.Contains(why, tally.Waits) {
				turns[e.Package] = append(turns[e.Package], e.Test)
				waiting++
			} else {
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, why))
			}
			printRaces(k, output[k])
			delete(output, k)
		case e.Action == "pass":
			packages++
			fmt.Printf("ok    %s  %.2fs\n", e.Package, e.Elapsed)
		case e.Action == "fail":
			packages++
			if !failedIn[e.Package] { // a panic, a timeout, a build failure, a TestMain
				failed++
				fmt.Print(strings.Join(output[k], ""))
				delete(output, k)
				for other, text := range output { // tests that never ended
					if other.pkg == e.Package && other.test != "" {
						fmt.Printf("--- UNFINISHED %s\n%s", other.test, strings.Join(text, ""))
					}
				}
			}
			printRaces(k, output[k])
			fmt.Printf("FAIL  %s  %.2fs\n", e.Package, e.Elapsed)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Printf("test-summary: reading the test output: %v\n", err)
		failed++
	}

	if len(skipped) > 0 {
		slices.Sort(skipped)
		fmt.Printf("\nskipped, and why:\n  %s\n", strings.Join(skipped, "\n  "))
	}
	if waiting > 0 {
		fmt.Printf("\nskipped, for it is the turn of another run (REMIT_TURN=all runs all; this was REMIT_TURN=%s):\n", os.Getenv("REMIT_TURN"))
		for _, pkg := range slices.Sorted(maps.Keys(turns)) {
			fmt.Printf("  %s: %s\n", pkg, strings.Join(turns[pkg], ", "))
		}
	}
	if !tables.Write(os.Stdout) {
		fmt.Println("test-summary: a row of the tables did not hold")
		failed++
	}
	slow.print()
	if passed == 0 && failed == 0 {
		fmt.Println("test-summary: no test ran")
		failed++
	}
	fmt.Printf("\n%d packages\n%d passed, %d failed, %d skipped\n", packages, passed, failed, len(skipped)+waiting)
	if failed > 0 {
		os.Exit(1)
	}
}

// printRaces prints what the race detector has reported among the output of a test that
// passed: test2json gives a report to the test that wrote last, and the detector fails
// those that run.
func printRaces(k key, output []string) {
	text := strings.Join(output, "")
	if !strings.Contains(text, "WARNING: DATA RACE") {
		return
	}
	fmt.Printf("--- RACE reported while %s %s ran\n", k.pkg, k.test)
	inside := false
	for line := range strings.Lines(text) {
		mark := strings.HasPrefix(line, "==================")
		if inside || mark {
			fmt.Print(line)
		}
		inside = inside != mark
	}
}

// slowest are the tests that took longest, so that the time stays
// visible. A test counts without those inside of it, which are named themselves.
type slowest struct {
	tests  []event
	within map[key]bool // tests that have others inside
}

// shown is how many are printed.
const shown = 10

func (s *slowest) add(e event) {
	if e.Test == "" || e.Action != "pass" && e.Action != "fail" {
		return
	}
	if s.within == nil {
		s.within = map[key]bool{}
	}
	if parent := strings.LastIndex(e.Test, "/"); parent > 0 {
		s.within[key{e.Package, e.Test[:parent]}] = true // it ends after those inside
	}
	if !s.within[key{e.Package, e.Test}] {
		s.tests = append(s.tests, e)
	}
}

func (s *slowest) print() {
	if len(s.tests) == 0 {
		return
	}
	slices.SortStableFunc(s.tests, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Println("\nslowest tests, in seconds beside others:")
	for _, e := range s.tests[:min(shown, len(s.tests))] {
		fmt.Printf("  %7.2f  %s %s\n", e.Elapsed, e.Package, e.Test)
	}
}

// reason takes the words of t.Skip from a test's output: what is neither a
// marker of the framework nor the file name before the message.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, message, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(message, ": "); ok {
				line = text
			}
		}
		words = append(words, line)
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}
