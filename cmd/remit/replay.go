package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/harness"
)

// pollInterval is how often --follow looks at the journal.
const pollInterval = 200 * time.Millisecond

func (a *app) replayCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "replay SESSION", Short: "Play what happened in a run, step by step", Args: cobra.ExactArgs(1), ValidArgsFunction: a.sessionArgs,
		Long: `Replay prints the events of REPLAY.jsonl with their times. With --follow it plays a
running session from its journal until the run ends.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.home.Find(args[0])
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

func (a *app) replay(w io.Writer, s harness.Session) error {
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
	for _, key := range []string{"producer", "session_id", "step_count", "id", "tool", "params", "step_id", "exit_code", "status", "commands", "exit_codes", "verification_delta", "step_utility", "latency_ms", "confidence"} {
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
func (a *app) follow(ctx context.Context, w io.Writer, s harness.Session) error {
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
		if unread(w) || st.Phase != harness.Running || slices.ContainsFunc(st.Log.Entries, func(e journal.Entry) bool { return e.Name == evidence.StepRunCompleted }) {
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
