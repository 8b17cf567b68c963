package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"remit/law/eligibility"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/harness"
)

// maxLanes bounds a comparison: every lane is a run with its own copy.
const maxLanes = 32

// lane is one engine of a comparison.
type lane struct {
	laneName
	label   string
	request harness.Request
	refused error  // why it cannot run, nil if it can
	settled string // the note about the settings of `remit agent setup` that it takes
	// known is how much of the lane is known that is refused by it; KnownAll is a
	// lane that is run.
	known eligibility.Known
}

// laneName is what an entry of --engines names: an engine, and the model that
// it asks, if the entry names one.
type laneName struct{ engine, provider, model string }

// parseLane reads NAME or NAME=PROVIDER/MODEL. Names of models have slashes of
// their own, those of providers do not.
func parseLane(entry string) (laneName, error) {
	name, pair, paired := strings.Cut(strings.TrimSpace(entry), "=")
	n := laneName{engine: name}
	n.provider, n.model, _ = strings.Cut(pair, "/")
	if name == "" || paired && (n.provider == "" || n.model == "") {
		return n, usagef("--engines: %q is neither NAME nor NAME=PROVIDER/MODEL", entry)
	}
	return n, nil
}

// labels name lanes for people: by the engine, with the model where an engine
// comes more than once, with a number where that is not enough.
func labels(names []laneName) []string {
	engines, used := map[string]int{}, map[string]int{}
	for _, n := range names {
		engines[n.engine]++
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n.engine
		if engines[n.engine] > 1 && n.model != "" {
			out[i] += "=" + n.provider + "/" + n.model
		}
		if used[out[i]]++; used[out[i]] > 1 {
			out[i] = fmt.Sprintf("%s#%d", out[i], used[out[i]])
		}
	}
	return out
}

// lanes prepares every lane before any is started. The error is a wrong command
// line; what an engine lacks is a lane that is refused. ask makes the run of one.
func (a *app) lanes(cmd *cobra.Command, f *compareFlags, args []string,
	ask func(own *runFlags, eng engine.Engine, name string) (harness.Request, error)) ([]*lane, error) {
	if len(f.engines) > maxLanes {
		return nil, usagef("--engines names %d lanes: at most %d", len(f.engines), maxLanes)
	}
	var all []*lane
	var names []laneName
	for _, entry := range f.engines {
		name, err := parseLane(entry)
		if err != nil {
			return nil, err
		}
		all = append(all, &lane{laneName: name})
	}
	if err := f.misplaced(all, args); err != nil {
		return nil, err
	}
	var asking []laneName // the lanes that ask a model
	for _, l := range all {
		own, eng, err := a.laneFlags(f, l, args)
		if err == nil {
			if _, asks := eng.(engine.Modelled); asks {
				asking = append(asking, l.laneName)
			}
			l.request, err = ask(own, eng, l.engine)
			l.request.Compared = true
		}
		if l.refused = err; err != nil && !isRefusal(err) {
			return nil, err
		}
		names = append(names, l.laneName)
	}
	for i, label := range labels(names) {
		all[i].label = label
	}
	return all, f.unmixed(cmd, asking)
}

// isRefusal reports whether an error is about one lane: it has a reason, and is
// not about the command line.
func isRefusal(err error) bool {
	_, wrong := errors.AsType[usageError](err)
	return !wrong && reason.CodeOf(err) != ""
}

// misplaced refuses what is said of lanes that are not there.
func (f *compareFlags) misplaced(all []*lane, args []string) error {
	engines := map[string]bool{}
	for _, l := range all {
		engines[l.engine] = true
	}
	switch to := f.commanded(); {
	case len(args) > 0 && !engines[to]:
		return usagef("'-- %s' is for the command engine or an acp agent, and --engines names neither", args[0])
	case f.acpWire != "" && !engines[acp.Name]:
		return usagef("--acp-wire: --engines does not name %s", acp.Name)
	}
	for name := range f.bins {
		switch {
		case !engines[name]:
			return usagef("--bin %s=…: --engines does not name %q", name, name)
		case name == fake.Name:
			return usagef("--bin: the fake engine is this program itself")
		case name == command.Name:
			return usagef("--bin: give the command after two dashes")
		}
	}
	if f.nexus.tokenFile == "-" && len(all) > 1 {
		return usagef("--token-file -: several lanes cannot all read it; use a file or $%s", envToken)
	}
	return nil
}

// commanded is the engine that '-- COMMAND' is for: command, or acp without it.
func (f *compareFlags) commanded() string {
	if slices.ContainsFunc(f.engines, func(entry string) bool { return strings.TrimSpace(entry) == command.Name }) {
		return command.Name
	}
	return acp.Name
}

// runLanes runs at most n lanes at a time, in their order, and returns the line
// of each. It always waits for all of them: a lane that is cancelled closes its
// evidence first.
func (a *app) runLanes(ctx context.Context, lanes []*lane, n int, view *laneView) []laneRow {
	rows := make([]laneRow, len(lanes))
	free := make(chan struct{}, n)
	var running sync.WaitGroup
	for i, l := range lanes {
		if l.known == eligibility.KnownAll {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				rows[i] = refusedRow(l, notStarted(ctx))
				view.ended(l.label, rows[i])
				continue
			}
		}
		l.request.Progress = view.of(l.label)
		if l.known != eligibility.KnownAll {
			rows[i] = a.runLane(ctx, l, view)
			view.ended(l.label, rows[i])
			continue
		}
		running.Go(func() {
			rows[i] = a.runLane(ctx, l, view)
			view.ended(l.label, rows[i])
			<-free
		})
	}
	running.Wait()
	return rows
}

// notStarted is the error of a lane that was cancelled before it began.
func notStarted(ctx context.Context) error {
	return reason.Errorf(reason.Cancelled, "cancelled before it was started: %w", context.Cause(ctx))
}

func (a *app) runLane(ctx context.Context, l *lane, view *laneView) laneRow {
	var out *harness.Outcome
	var err error
	if l.known == eligibility.KnownAll {
		out, err = harness.Run(ctx, l.request)
	} else {
		out, err = harness.Preflight(ctx, l.request, l.known)
	}
	if err != nil {
		if err = refusedByDisk(err, a.home.Dir); reason.CodeOf(err) == "" && ctx.Err() != nil {
			err = notStarted(ctx)
		}
		return refusedRow(l, err)
	}
	if out.NoSandbox != nil {
		view.unconfined(out.NoSandbox)
	}
	row, err := inspected(out.Session)
	if err != nil {
		return refusedRow(l, err)
	}
	if row.Lane = l.label; row.Model == nil && l.model != "" {
		row.ModelProvider, row.Model = &l.provider, &l.model
	}
	return row
}

// lanesHere is how many lanes this machine runs at the same time.
func lanesHere(lanes int, memoryMB int64) int {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return fitting(lanes, runtime.GOMAXPROCS(0), memoryMB, 0) // another system: processors are all that is known
	}
	defer f.Close()
	free, err := availableMB(f)
	if err != nil {
		free = 0
	}
	return fitting(lanes, runtime.GOMAXPROCS(0), memoryMB, free)
}

// availableMB reads what can still be used of the memory from /proc/meminfo.
func availableMB(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(io.LimitReader(r, 1<<16))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" && fields[2] == "kB" {
			kB, err := strconv.ParseInt(fields[1], 10, 64)
			return kB >> 10, err
		}
	}
	return 0, fmt.Errorf("looking for MemAvailable: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
