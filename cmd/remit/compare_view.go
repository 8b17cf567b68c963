package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// laneView shows several runs at once on stderr: a line for every step, and on
// a terminal a live one that says where each lane is.
type laneView struct {
	liveLine

	lanes []*laneProgress
	warns map[string]bool // what was said once
}

// laneProgress is one lane of a view: the harness.Progress of its run.
type laneProgress struct {
	view  *laneView
	label string
	began map[string]time.Time
	steps []string // that go on, the last one first told
}

func newLaneView(f *os.File, lanes []*lane) *laneView {
	v := &laneView{warns: map[string]bool{}}
	for _, l := range lanes {
		v.lanes = append(v.lanes, &laneProgress{view: v, label: plain(l.label), began: map[string]time.Time{}})
	}
	v.show(f, v.now)
	return v
}

// of is the part of a lane.
func (v *laneView) of(label string) *laneProgress {
	for _, p := range v.lanes {
		if p.label == plain(label) {
			return p
		}
	}
	panic("a lane that is not of this view: " + label)
}

// Step shows that a step of the lane began or ended.
func (p *laneProgress) Step(name, status, detail string) {
	v := p.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if status == "started" {
		p.began[name] = time.Now()
		p.steps = append([]string{name}, p.steps...)
		if v.live {
			v.draw()
		} else {
			fmt.Fprintf(v.w, "begin   %s  %s\n", p.label, name)
		}
		return
	}
	line := fmt.Sprintf("%s %s  %s", mark(status), p.label, name)
	if detail != "" {
		line += ": " + plain(detail)
	}
	if t, ok := p.began[name]; ok {
		line += fmt.Sprintf(" (%s)", time.Since(t).Round(time.Millisecond))
		delete(p.began, name)
		p.steps = without(p.steps, name)
	}
	v.print(line)
}

func without(steps []string, name string) []string {
	var left []string
	for _, s := range steps {
		if s != name {
			left = append(left, s)
		}
	}
	return left
}

// Output shows a line that something printed. The live line has no place for
// several of them.
func (p *laneProgress) Output(line string) {
	v := p.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.live {
		fmt.Fprintf(v.w, "  | %s  %s\n", p.label, plain(line))
	}
}

// ended shows what came of a lane.
func (v *laneView) ended(label string, r laneRow) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := fmt.Sprintf("%s %s  %s", mark(r.Status), plain(label), upper(r.Status))
	if r.Code != "" {
		line += ", " + r.Code
	}
	if r.SessionID != "" {
		line += "  " + plain(r.SessionID)
	}
	v.print(line)
}

// unconfined says once that no sandbox works here.
func (v *laneView) unconfined(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.warns[err.Error()] {
		return
	}
	v.warns[err.Error()] = true
	v.erase()
	printOne(v.w, err)
}

func (v *laneView) print(line string) {
	v.erase()
	fmt.Fprintln(v.w, line)
	v.draw()
}

// now is where each lane is.
func (v *laneView) now() string {
	var parts []string
	for _, p := range v.lanes {
		if len(p.steps) > 0 {
			step := p.steps[0]
			parts = append(parts, fmt.Sprintf("%s: %s %s", p.label, step, time.Since(p.began[step]).Round(100*time.Millisecond)))
		}
	}
	return strings.Join(parts, "   ")
}
