package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
)

// check is one promise and whether it held.
type check struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // why it did not hold
}

// step is a group of checks that are printed together.
type step struct {
	ID     string  `json:"id"`
	Title  string  `json:"title"`
	TookMS int64   `json:"took_ms"`
	Checks []check `json:"checks"`

	out io.Writer
}

// record holds what was checked so far.
type record struct {
	out    io.Writer
	steps  []*step
	broken []string // steps that were not done to their end
}

// undone is the panic of [must]: the step cannot go on.
type undone struct{ error }

// must ends the step when it could not do what the rest of it needs.
func must(err error) {
	if err != nil {
		panic(undone{err})
	}
}

// need returns a value that the rest of the step needs.
func need[T any](v T, err error) T {
	must(err)
	return v
}

// giveUp ends the step for a reason.
func giveUp(format string, args ...any) { must(fmt.Errorf(format, args...)) }

// run does one step that builds on others. What could not be done to its end is
// a check that did not hold, and so is every step that needs it: nothing that
// was not looked at is green.
func (r *record) run(id, title string, needs []string, do func(*step)) {
	s := &step{ID: id, Title: title, Checks: []check{}, out: r.out}
	r.steps = append(r.steps, s)
	fmt.Fprintf(r.out, "\n%s  %s\n", id, title)
	started := time.Now()
	defer func() { s.TookMS = time.Since(started).Milliseconds() }()
	for _, other := range needs {
		if slices.Contains(r.broken, other) {
			s.ok(false, "the step could be done", "it needs step", other)
			r.broken = append(r.broken, id)
			return
		}
	}
	if err := s.finished(do); err != nil {
		s.ok(false, "the step could be done to its end", err)
		r.broken = append(r.broken, id)
	}
}

// finished does what a step does, and returns why it did not come to its end.
func (s *step) finished(do func(*step)) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case undone:
			err = p.error
		default:
			panic(p)
		}
	}()
	do(s)
	return nil
}

// counts tells how many checks held and how many did not.
func (r *record) counts() (passed, failed int) {
	for _, s := range r.steps {
		for _, c := range s.Checks {
			if c.OK {
				passed++
			} else {
				failed++
			}
		}
	}
	return passed, failed
}

// ok records a check and prints its line. why is printed when it did not hold.
func (s *step) ok(holds bool, text string, why ...any) bool {
	c := check{ID: fmt.Sprintf("%s.%d", s.ID, len(s.Checks)+1), Text: text, OK: holds}
	if holds {
		fmt.Fprintf(s.out, "ok   %-5s %s\n", c.ID, c.Text)
	} else {
		c.Detail = clip(strings.TrimSpace(fmt.Sprintln(why...)))
		fmt.Fprintf(s.out, "FAIL %-5s %s: %s\n", c.ID, c.Text, c.Detail)
	}
	s.Checks = append(s.Checks, c)
	return holds
}

// equal records that two values are the same.
func (s *step) equal(text string, got, want any) bool {
	return s.ok(reflect.DeepEqual(got, want), text, fmt.Sprintf("got %v, want %v", got, want))
}

// none records that a list of findings is empty.
func (s *step) none(text string, findings []string) bool {
	return s.ok(len(findings) == 0, text, strings.Join(findings, "; "))
}

// succeeds records that something went well.
func (s *step) succeeds(text string, err error) bool { return s.ok(err == nil, text, err) }

// clip keeps what a failing check says readable.
func clip(text string) string {
	const most = 2000
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
