package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/proof/atomicfile"
	"remit/proof/evidence"
	"remit/work/engine/fake"
	"remit/work/matrix"
	"remit/work/prove"
)

func (a *app) ladderRefreshCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "refresh", Short: "Read recorded passes again, and count how often an engine has repeated them", Args: cobra.NoArgs,
		Long: `Refresh reads the passes of stage 5 that are recorded of an engine: proof, session,
audit, approval, and the records that admit engine and target now. It opens no target
and starts no engine. Twelve checks of each pass, then the count: passes that hold,
each with a task and an approval of its own. Two are required.

What it finds is kept beside the proofs, where status names it. Exit code 0 when
repeatability passes, 2 when a pass does not hold any more, 3 when passes are missing.`,
		Example: `  remit ladder refresh
  remit ladder refresh --engine codex --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(engineNames(), name) {
				return engineUnknown(name)
			}
			r, err := a.refresh(cmd.Context(), name, true)
			if err != nil {
				return err
			}
			if err := a.present(cmd.OutOrStdout(), r, func(w io.Writer) error { return printRefresh(w, r) }); err != nil || r.OK {
				return err
			}
			return exitCode(r.ExitCode)
		},
	}
	cmd.Flags().StringVar(&name, "engine", fake.Name, "engine: "+strings.Join(engineNames(), ", "))
	complete(cmd, "engine", engineNames())
	return cmd
}

// refresh judges the recorded passes of an engine. Of several keys the one counts
// that has repeated most; a pass that does not hold counts before any other.
func (a *app) refresh(ctx context.Context, name string, keep bool) (*ladder.Refresh, error) {
	records, err := matrix.ReadRecords(a.home.Dir, name, build())
	if err != nil {
		return nil, err
	}
	kept := ""
	if m := records.Matrix; m != nil && m.Status == evidence.StatusPass && m.Held == m.Total {
		kept = m.SHA256
	}
	keys, err := prove.Passes(ctx, a.home.Dir, name, kept, signedHere(ctx, "."), time.Now())
	if err != nil {
		return nil, err
	}
	at := time.Now().UTC().Format(time.RFC3339)
	best := ladder.JudgeRefresh(name, at, nil)
	for i, k := range keys {
		r := ladder.JudgeRefresh(name, at, k.Passes)
		if keep {
			if err := keepRefresh(filepath.Join(a.home.Dir, filepath.FromSlash(k.Dir)), r); err != nil {
				return nil, err
			}
		}
		if failed := r.Status == evidence.StatusFail; i == 0 || failed ||
			best.Status != evidence.StatusFail && r.RepeatabilityCount > best.RepeatabilityCount {
			best = r
		}
	}
	return &best, nil
}

// keepRefresh writes what a refresh found beside the proofs of its key.
func keepRefresh(dir string, r ladder.Refresh) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(dir, ladder.RefreshFile), append(text, '\n'), 0o600)
}

// refreshedTarget is what a kept refresh says of its targets, "" where it cannot be
// read.
func refreshedTarget(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var r ladder.Refresh
	if json.NewDecoder(io.LimitReader(f, maxInput)).Decode(&r) != nil || r.Schema != ladder.RefreshSchema {
		return ""
	}
	if r.TargetReadOnly == evidence.StatusPass || r.TargetReadOnly == evidence.StatusFail {
		return r.TargetReadOnly
	}
	return ""
}

func printRefresh(w io.Writer, r *ladder.Refresh) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, p := range r.Passes {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", p.Status, plain(cmp.Or(p.SessionID, "no session")), plain(p.Proof))
		for _, c := range p.Checks {
			if c.Status != evidence.StatusPass {
				fmt.Fprintf(tw, "\t%s\t%s: %s\n", c.Name, c.Code, plain(c.Detail))
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s  engine %s: %d of %d passes with tasks and approvals of their own\nruntime default activation: %v (promotion %s)\n", upper(r.RepeatabilityStatus), r.Engine,
		r.RepeatabilityCount, r.RepeatabilityRequired, r.RuntimeDefault, r.CorePromotionStatus)
	return err
}
