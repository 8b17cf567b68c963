package bundle

import (
	"context"
	"fmt"
	"os"
	"slices"

	"remit/proof/reason"
)

// gates turns what was read into the ten gates, runs those that are left, and
// closes the report.
func (a *audit) gates(ctx context.Context) (*Report, error) {
	a.containerGates()
	a.manifestGates()
	sound := a.all(Pass)
	a.contentGates(ctx)
	for _, g := range []struct {
		name     string
		commands []string
		code     reason.Code
	}{{GateImports, a.opt.Checks, reason.ImportCheckFailed}, {GateTests, a.opt.Run, reason.TestsFailed}} {
		if err := a.commandGate(ctx, g.name, g.commands, g.code, sound); err != nil {
			return nil, fmt.Errorf("audit: gate %s: %w", g.name, err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	a.close()
	if a.opt.Extract != "" && a.report.Status == Pass {
		if err := a.deliver(ctx); err != nil {
			return nil, fmt.Errorf("audit: extract: %w", err)
		}
		a.report.Extracted = true
	}
	return a.report, nil
}

// all reports whether every gate so far has the status.
func (a *audit) all(s Status) bool {
	return !slices.ContainsFunc(a.report.Gates, func(g GateResult) bool { return g.Status != s })
}

// close derives the status of the audit: the worst of its gates.
func (a *audit) close() {
	a.report.weigh()
	if a.report.Status == Pass && a.report.Profile == ProfileBundle && a.opt.RunStatus != nil {
		a.report.RunStatus = a.opt.RunStatus(a.newFileSet())
	}
}

func (r *Report) weigh() {
	r.Status = Pass
	for _, g := range r.Gates {
		if g.Status == Fail || g.Status == Blocked && r.Status == Pass {
			r.Status = g.Status
		}
	}
	r.ExitCode = r.Status.ExitCode()
}

// Add records a gate that the caller has checked itself behind those of the
// audit, and derives the status anew.
func (r *Report) Add(g GateResult) {
	if g.Findings == nil {
		g.Findings = []reason.Finding{}
	}
	r.Gates = append(r.Gates, g)
	r.weigh()
}

// settle records a gate that was checked. Findings fail it, or block it when
// all of them say that something could not be checked.
func (a *audit) settle(name string, found []reason.Finding) {
	g := GateResult{Name: name, Status: Pass, Findings: []reason.Finding{}}
	var kept findings
	for _, f := range found {
		if f.Gate == "" {
			f.Gate = name
		}
		kept.put(f, "%s", f.Detail)
		if reason.StatusOf(f.Code) == reason.Fail {
			g.Status = Fail
		} else if g.Status == Pass {
			g.Status = Blocked
			g.Reason = "something could not be checked"
		}
	}
	if g.Status == Fail {
		g.Reason = ""
	}
	if !kept.empty() {
		g.Findings = kept.all()
	}
	a.report.Gates = append(a.report.Gates, g)
}

// judge asks a gate of the caller.
func (a *audit) judge(ctx context.Context, g Gate, files *fileSet) {
	if g.State == nil {
		a.settle(g.Name, g.Check(ctx, files))
		return
	}
	found, skipped, why, by := g.State(ctx, files)
	if skipped && len(found) == 0 {
		a.leave(g.Name, Skipped, why)
	} else {
		a.settle(g.Name, found)
	}
	last := &a.report.Gates[len(a.report.Gates)-1]
	if last.Signers = by; last.Status == Pass {
		last.Reason = why
	}
}

// leave records a gate that was not checked.
func (a *audit) leave(name string, s Status, why string) {
	a.report.Gates = append(a.report.Gates, GateResult{Name: name, Status: s, Reason: why, Findings: []reason.Finding{}})
}

// containerGates are 1 and 2.
func (a *audit) containerGates() {
	byGate := map[string][]reason.Finding{}
	for _, f := range a.found.all() {
		f.Gate = gateOf(f.Code)
		byGate[f.Gate] = append(byGate[f.Gate], f)
	}
	unread := slices.ContainsFunc(a.contents.hashable, func(f *member) bool { return f.err != nil })
	for _, name := range []string{GateIntegrity, GatePortability} {
		switch {
		case len(byGate[name]) > 0:
			a.settle(name, byGate[name])
		case !a.contents.complete:
			a.leave(name, Blocked, "the entries could not be listed")
		case unread && name == GateIntegrity:
			a.leave(name, Blocked, "not every entry could be read")
		default:
			a.settle(name, nil)
		}
	}
}

// manifestGates are 3 and 4.
func (a *audit) manifestGates() {
	if !a.contents.complete {
		a.leave(GateManifest, Blocked, "the entries could not be listed")
		a.leave(GateHashes, Blocked, "the entries could not be listed")
		return
	}
	m, found := readManifest(a.report.Profile, a.contents.files)
	a.settle(GateManifest, found)
	if len(m) == 0 {
		a.leave(GateHashes, Blocked, "there is no manifest to compare with")
		return
	}
	a.settle(GateHashes, compareManifest(m, a.contents.files, a.hollow()))
}

// contentGates are 5 to 8. They run even when earlier gates failed, as long as
// there are files to look at: one audit names all that is wrong.
func (a *audit) contentGates(ctx context.Context) {
	var files *fileSet
	for _, name := range contentGates {
		i := slices.IndexFunc(a.opt.Gates, func(g Gate) bool { return g.Name == name })
		switch {
		case !a.contents.complete:
			a.leave(name, Blocked, "the entries could not be listed")
		case a.report.Profile != ProfileBundle:
			a.leave(name, Skipped, "does not apply to profile "+string(a.report.Profile))
		case i < 0:
			a.leave(name, Blocked, "the caller supplied no such check")
		default:
			if files == nil {
				files = a.newFileSet()
			}
			a.judge(ctx, a.opt.Gates[i], files)
		}
	}
	a.furtherGates(ctx, files)
}

// furtherGates are those of the caller.
func (a *audit) furtherGates(ctx context.Context, files *fileSet) {
	for _, g := range a.opt.Further {
		switch {
		case !a.contents.complete:
			a.leave(g.Name, Blocked, "the entries could not be listed")
		case a.report.Profile != ProfileBundle:
			a.leave(g.Name, Skipped, "does not apply to profile "+string(a.report.Profile))
		default:
			if files == nil {
				files = a.newFileSet()
			}
			a.judge(ctx, g, files)
		}
	}
}

// commandGate is 9 or 10, with the commands of the caller, else with those that
// the bundle names. The error is for a machine that does not work.
func (a *audit) commandGate(ctx context.Context, name string, commands []string, code reason.Code, sound bool) error {
	source := ""
	if len(commands) == 0 {
		var own []string
		if a.contents.complete && a.report.Profile == ProfilePortable {
			var wrong *reason.Finding
			if own, source, wrong = a.named(name); wrong != nil {
				a.settle(name, []reason.Finding{*wrong})
				return nil
			}
		}
		if len(own) == 0 || !a.opt.Named {
			a.notMade(name, whyNot(source, own))
			return nil
		}
		commands = own
	}
	switch {
	case !sound:
		a.leave(name, Blocked, "nothing is run from a bundle that did not pass gates 1 to 4")
		return nil
	case a.opt.Runner == nil:
		a.leave(name, Blocked, "there is nothing to run commands with")
		return nil
	}
	dir, err := os.MkdirTemp(a.opt.TempDir, "remit-audit-")
	if err != nil {
		return err
	}
	found, err := a.runAll(ctx, dir, name, source, commands, code)
	if clean := removeWorkspace(dir); err == nil {
		err = clean
	}
	if err != nil {
		return err
	}
	a.settle(name, found)
	return nil
}

// hollow are the directories without a file that a bundle must not have. In a
// directory of another kind they are the author's own.
func (a *audit) hollow() []string {
	if a.report.Profile != ProfileBundle {
		return nil
	}
	return a.contents.hollow
}

// findings collects what is wrong. A hostile bundle can be wrong in millions
// of places, so that beyond MaxFindings of one code they are only counted.
type findings struct {
	list  []reason.Finding
	count map[reason.Code]int
}

func (c *findings) add(code reason.Code, path, format string, args ...any) {
	c.put(reason.Finding{Code: code, Path: path}, format, args...)
}

// put is add for a finding with a gate or line; the detail is formatted only
// when it is kept.
func (c *findings) put(f reason.Finding, format string, args ...any) {
	if c.count == nil {
		c.count = map[reason.Code]int{}
	}
	c.count[f.Code]++
	if c.count[f.Code] <= MaxFindings {
		f.Detail = fmt.Sprintf(format, args...)
		c.list = append(c.list, f)
	}
}

func (c *findings) addAll(found []reason.Finding) {
	for _, f := range found {
		c.put(f, "%s", f.Detail)
	}
}

// empty reports that nothing is wrong.
func (c *findings) empty() bool { return len(c.list) == 0 }

// all returns the findings, with one more for each code that was cut short.
func (c *findings) all() []reason.Finding {
	out := slices.Clone(c.list)
	seen := map[reason.Code]bool{}
	for _, f := range c.list {
		if more := c.count[f.Code] - MaxFindings; more > 0 && !seen[f.Code] {
			seen[f.Code] = true
			out = append(out, reason.Finding{Gate: f.Gate, Code: f.Code, Detail: fmt.Sprintf("%d more findings with this code are not listed", more)})
		}
	}
	return out
}

// gateOf attributes a finding about the container to gate 1, which is about
// reading it at all, or to gate 2, which is about everybody reading the same.
func gateOf(code reason.Code) string {
	switch code {
	case reason.ZipUnreadable, reason.ZipTruncated, reason.ZipCRC, reason.ZipMethod, reason.ZipMultiDisk:
		return GateIntegrity
	}
	return GatePortability
}

// unreadableCode is true for findings after which the content of an entry is
// not read: there is no way to, or no safe one.
func unreadableCode(code reason.Code) bool {
	switch code {
	case reason.ZipBomb, reason.ZipEncrypted, reason.ZipMethod, reason.Zip64, reason.ZipMultiDisk:
		return true
	}
	return false
}
