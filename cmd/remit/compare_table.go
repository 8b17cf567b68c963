package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"remit/law/ladder"
	"remit/proof/evidence"
)

// printComparison prints it for a person. Whatever an agent or a repository
// named is printed without control characters.
func printComparison(w io.Writer, c *comparison) error {
	printSubject(w, c)
	if err := printTable(w, "", "ENGINE\tMODEL\tSTATUS\tCODE\tFILES\tLINES\tCOST\tTOKENS\tREQUESTS\tTIME\tSESSION", c.Lanes,
		func(r laneRow) string { return strings.Join(cells(r), "\t") }); err != nil {
		return err
	}
	if err := printFigures(w, c.Lanes); err != nil {
		return err
	}
	if err := printDimensions(w, c.Dimensions); err != nil {
		return err
	}
	printChanged(w, c.Lanes)
	for _, group := range c.Identical {
		fmt.Fprintf(w, "\nThe same change, byte for byte: %s\n", plain(strings.Join(group, ", ")))
	}
	for _, r := range c.Lanes {
		if r.Status == evidence.StatusPass {
			continue
		}
		fmt.Fprintf(w, "\n%s  %s: %s\n", upper(r.Status), plain(r.Lane), plain(r.Reason))
		if r.Hint != "" {
			fmt.Fprintf(w, "  hint: %s\n", plain(r.Hint))
		}
	}
	printDifferences(w, c.Differences)
	return nil
}

// printDimensions says of each dimension which lanes keep to it, and what the others
// lack.
func printDimensions(w io.Writer, dimensions []ladder.Dimension) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "DIMENSION\tPASS\tFAIL\tBLOCKED")
	var lacking []string
	for _, d := range dimensions {
		lanes := map[string][]string{}
		for _, l := range d.Lanes {
			lanes[l.Status] = append(lanes[l.Status], l.Lane)
			if l.Status == evidence.StatusFail {
				lacking = append(lacking, fmt.Sprintf("  %s  %s: %s", d.Name, l.Lane, l.Detail))
			}
		}
		cell := func(status string) string { return cmp.Or(plain(strings.Join(lanes[status], ", ")), "-") }
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", d.Name, cell(evidence.StatusPass), cell(evidence.StatusFail), cell(evidence.StatusBlocked))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, l := range lacking {
		fmt.Fprintln(w, plain(l))
	}
	return nil
}

// printSubject says what was compared.
func printSubject(w io.Writer, c *comparison) {
	line := func(name, value string, of func(laneRow) string) {
		note := ", the same in every session"
		switch said := len(agreed(c.Lanes, of)); {
		case said > 1:
			value, note = "differs, see below", ""
		case said == 0:
			note = "" // no session that could agree
		}
		fmt.Fprintf(w, "%-9s %s%s\n", name, cmp.Or(plain(value), "-"), note)
	}
	if c.TaskID != "" {
		fmt.Fprintf(w, "%-9s %s (%s)\n", "task", plain(c.Title), plain(c.TaskID))
	} else {
		line("task", "", func(r laneRow) string { return r.taskID })
	}
	line("contract", c.ContractSHA256, func(r laneRow) string { return r.ContractSHA256 })
	line("base", c.BaselineCommit, func(r laneRow) string { return r.BaselineCommit })
	if c.Parallel > 0 {
		fmt.Fprintf(w, "%-9s %d, %d at a time\n", "lanes", len(c.Lanes), c.Parallel)
	}
	fmt.Fprintln(w)
}

// cells are the columns of one line; a dash is what there is not.
func cells(r laneRow) []string {
	lane, model, files, lines, took := r.Lane, "-", "-", "-", millis(r.DurationMS)
	if n := r.name(); n.model != "" {
		model = n.provider + "/" + n.model
		lane = strings.Replace(lane, "="+model, "", 1) // it stands beside
	}
	if r.PatchSHA256 != "" {
		files, lines = fmt.Sprint(r.Delta.Files), fmt.Sprintf("+%d -%d", r.Delta.Added, r.Delta.Removed)
	}
	cost, tokens, requests := "-", "-", "-"
	if u := r.Usage; u != nil {
		cost, tokens, requests = costText(u), atLeast(u.TokensKnown, fmt.Sprint(u.Tokens)), fmt.Sprint(u.Requests)
	}
	out := []string{lane, model, r.Status, r.Code, files, lines, cost, tokens, requests, took, r.SessionID}
	for i, text := range out {
		if out[i] = plain(text); text == "" {
			out[i] = "-"
		}
	}
	return out
}

// printFigures says what the lanes' totals are made of.
func printFigures(w io.Writer, rows []laneRow) error {
	fmt.Fprintln(w)
	return printTable(w, "", "ENGINE\tVERSION\tFRESH TOKENS\tCACHED TOKENS\tOUT TOKENS\tENGINE TIME\tVERIFIER TIME", rows, func(r laneRow) string {
		fresh, cached, out := "-", "-", "-"
		if u := r.Usage; u != nil {
			fresh, cached, out = atLeast(u.TokensKnown, fmt.Sprint(u.FreshTokens)), atLeast(u.TokensKnown, fmt.Sprint(u.CachedTokens)),
				atLeast(u.TokensKnown, fmt.Sprint(u.OutTokens))
		}
		return strings.Join([]string{plain(r.Lane), cmp.Or(plain(r.EngineVersion), "-"), fresh, cached, out, millis(r.EngineMS), millis(r.VerifierMS)}, "\t")
	})
}

// millis is a time for a person, a dash for none.
func millis(ms *int64) string {
	if ms == nil {
		return "-"
	}
	took := time.Duration(*ms) * time.Millisecond
	if took < time.Second {
		return took.String()
	}
	return took.Round(100 * time.Millisecond).String()
}

// costText is an amount in dollars, to the micro-dollar. One that is not known
// is not guessed.
func costText(u *laneUsage) string {
	if !u.CostKnown && u.CostMicroUSD == 0 {
		return "unknown"
	}
	return atLeast(u.CostKnown, fmt.Sprintf("$%d.%06d", u.CostMicroUSD/1_000_000, u.CostMicroUSD%1_000_000))
}

func atLeast(known bool, figure string) string {
	if known {
		return figure
	}
	return ">=" + figure
}

// maxChanged bounds how many paths are listed; --json has all.
const maxChanged = 20

// printChanged says who changed which file.
func printChanged(w io.Writer, rows []laneRow) {
	by := map[string][]string{}
	var paths []string
	for _, r := range rows {
		for _, path := range r.ChangedFiles {
			if by[path] == nil {
				paths = append(paths, path)
			}
			by[path] = append(by[path], r.Lane)
		}
	}
	if len(paths) == 0 {
		return
	}
	slices.Sort(paths)
	fmt.Fprintln(w, "\nchanged")
	for i, path := range paths {
		if i == maxChanged {
			fmt.Fprintf(w, "  … and %d more\n", len(paths)-i)
			return
		}
		fmt.Fprintf(w, "  %s  by %s\n", plain(path), plain(strings.Join(by[path], ", ")))
	}
}

func printDifferences(w io.Writer, all []difference) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "\nNot comparable: the sessions differ in what their figures depend on.")
	for _, d := range all {
		for _, v := range d.Values {
			fmt.Fprintf(w, "  %-8s %s: %s\n", d.Field, plain(v.Lane), plain(v.Value))
		}
	}
}

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
	steps []string // that go on, the latest first
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
