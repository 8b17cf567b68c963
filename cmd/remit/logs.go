package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/journal"
	"remit/work/session"
)

// loggedRun is one command of test.log, see docs/format.md.
type loggedRun struct {
	tree           string // base, head, unedited, or that of a control
	repetition     string
	command        string
	exit, tests    string // as the log has them
	stdout, stderr []byte
}

// shownTrees are the runs that a person asks for, in their words. All others are
// controls: some of them have to fail.
var shownTrees = map[string]string{
	"base":     "on the base commit",
	"head":     "on the patched tree",
	"unedited": "on the patched tree, with the tests of the base",
}

// controlTrees are the others.
var controlTrees = map[string]string{
	"twin":      "with edited tests, some so that they must fail",
	"new-tests": "the new tests on the code of the base",
	"hunk":      "without one part of the change",
	"control":   "with planted tests",
}

var sectionLine = form.Lazy(`^=== (?:base|head) tree=([a-z-]+) repetition=([0-9]+) command=[0-9]+/[0-9]+$`)

// runsOf reads test.log. Lines between two commands are kept as they are, under
// no tree. It reports false for a log that it does not understand.
func runsOf(log []byte) (runs []loggedRun, ok bool) {
	next := func() string {
		line, rest, _ := bytes.Cut(log, []byte("\n"))
		log = rest
		return string(line)
	}
	for len(log) > 0 {
		line := next()
		m := sectionLine().FindStringSubmatch(line)
		if m == nil {
			if line != "" {
				runs = append(runs, loggedRun{stdout: []byte(line + "\n")})
			}
			continue
		}
		r := loggedRun{tree: m[1], repetition: m[2]}
		for line = next(); !strings.HasPrefix(line, "--- stdout "); line = next() {
			switch key, value, found := strings.Cut(line, ": "); {
			case !found:
				return nil, false
			case key == "command":
				r.command = value
			case key == "exit":
				r.exit = value
			case key == "tests":
				r.tests = value
			}
		}
		take := func(prefix string) ([]byte, bool) {
			n, err := strconv.Atoi(strings.TrimPrefix(line, prefix))
			if err != nil || n < 0 || n >= len(log) {
				return nil, false
			}
			text := log[:n]
			log = log[n+1:]
			line = next()
			return text, true
		}
		var okOut, okErr bool
		if r.stdout, okOut = take("--- stdout "); okOut {
			r.stderr, okErr = take("--- stderr ")
		}
		if !okErr || !strings.HasPrefix(line, "=== end ") {
			return nil, false
		}
		runs = append(runs, r)
	}
	return runs, true
}

// printTestLog prints test.log for a person: each command with its result and what
// it printed, without the control runs unless all is set.
func printTestLog(w io.Writer, runs []loggedRun, all bool) {
	hidden := 0
	for _, r := range runs {
		where := shownTrees[r.tree]
		if r.tree == "" {
			printPlain(w, r.stdout)
			continue
		}
		if where == "" && !all {
			hidden++
			continue
		}
		if where == "" {
			where = "control: " + controlTrees[r.tree]
		}
		if r.repetition != "1" {
			where += ", repetition " + r.repetition
		}
		result := "exit " + r.exit
		if r.tests != "" {
			result += ": " + r.tests
		}
		fmt.Fprintf(w, "==> %s, %s (%s) <==\n", plain(r.command), where, plain(result))
		printPlain(w, goText(printed(r.stdout)))
		printPlain(w, r.stderr)
	}
	if hidden > 0 {
		fmt.Fprintf(w, "==> %d control run(s) are not shown: --all prints them, --raw every byte <==\n", hidden)
	}
}

// resultFiles begins the result files of a runner, which stand behind everything
// that a command printed.
var resultFiles = form.Lazy(`(?m)^remit-results-[0-9a-f]{24} begin `)

// printed is the output of a command without the result files of its runner: these
// are for a program, and the counts above come from them.
func printed(out []byte) []byte {
	if at := resultFiles().FindIndex(out); at != nil {
		return bytes.TrimSuffix(out[:at[0]], []byte("\n"))
	}
	return out
}

// goText is what a Go test printed, if the output is that of go test -json;
// other output stays as it is.
func goText(out []byte) []byte {
	if !bytes.HasPrefix(out, []byte(`{"`)) {
		return out
	}
	var text bytes.Buffer
	for line := range bytes.Lines(out) {
		var event struct{ Action, Output string }
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &event) != nil || event.Action == "" {
			text.Write(line)
			continue
		}
		switch trimmed := strings.TrimSpace(event.Output); {
		case strings.HasPrefix(trimmed, "=== RUN"), strings.HasPrefix(trimmed, "=== PAUSE"), strings.HasPrefix(trimmed, "=== CONT"),
			strings.HasPrefix(trimmed, "=== NAME"):
		default:
			text.WriteString(event.Output)
		}
	}
	return text.Bytes()
}

// printPlain prints text of strangers, line by line.
func printPlain(w io.Writer, text []byte) {
	for line := range bytes.Lines(text) {
		fmt.Fprintln(w, plain(strings.TrimRight(string(line), "\r\n")))
	}
}

// pollInterval is how often --follow looks at the journal.
const pollInterval = 200 * time.Millisecond

func (a *app) replayCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "replay SESSION", Short: "Play what happened in a run, step by step", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Replay prints the events of REPLAY.jsonl with their times. With --follow it plays a
running session from its journal until the run ends.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if follow {
				return a.follow(cmd.Context(), cmd.OutOrStdout(), s)
			}
			return a.replay(cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow a running session")
	return cmd
}

func (a *app) replay(w io.Writer, s session.Session) error {
	st, err := s.Inspect()
	if err != nil {
		return err
	}
	set, err := evidence.Project(st.Log.Entries)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(set[evidence.ReplayFile]), []byte("\n"))
	if a.json {
		docs := make([]json.RawMessage, len(lines))
		for i, l := range lines {
			docs[i] = l
		}
		return printJSON(w, docs)
	}
	out := bufio.NewWriter(w)
	for _, l := range lines {
		if err := printReplayLine(out, l); err != nil {
			return err
		}
	}
	return out.Flush()
}

func printReplayLine(w io.Writer, line []byte) error {
	var e map[string]any
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	at, _ := e["t"].(string)
	if at == "" {
		at, _ = e["created_at"].(string)
	}
	var detail []string
	for _, key := range []string{"producer", "session_id", "step_count", "id", "tool", "params", "step_id", "exit_code", "status",
		"commands", "exit_codes", "verification_delta", "step_utility", "latency_ms", "confidence"} {
		if v, ok := e[key]; ok && v != nil {
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			detail = append(detail, key+"="+strings.Trim(string(text), `"`))
		}
	}
	_, err := fmt.Fprintf(w, "%s  %-13v %s\n", at, e["event"], plain(strings.Join(detail, " ")))
	return err
}

// follow prints journal steps as they are written. It ends with the run, or
// when no writer is alive any more.
func (a *app) follow(ctx context.Context, w io.Writer, s session.Session) error {
	next := 0
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		st, err := s.Inspect()
		if err != nil {
			return err
		}
		for ; next < len(st.Log.Entries); next++ {
			if err := a.printEntry(w, st.Log.Entries[next]); err != nil {
				return err
			}
		}
		if unread(w) || st.Phase != session.Running || slices.ContainsFunc(st.Log.Entries, func(e journal.Entry) bool { return e.Name == evidence.StepRunCompleted }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

func (a *app) printEntry(w io.Writer, e journal.Entry) error {
	if a.json {
		return json.NewEncoder(w).Encode(e) // following is a stream: one document a line
	}
	at := e.StartedAt
	if e.CompletedAt != nil {
		at = *e.CompletedAt
	}
	_, err := fmt.Fprintf(w, "%s  %-9s %s\n", at, e.Status, e.Name)
	return err
}
