package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/engine/workos"
	"remit/work/matrix"
	"remit/work/prove"
	"remit/work/route"
	"remit/work/sandbox"
)

func (a *app) ladderStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say how far each engine has come, why not further, and what to type next", Args: cobra.NoArgs,
		Long: `Status is the control summary: for every engine of this program, with every pair of
provider and model that a record names, the highest stage that is proven, why no
further one is, and the one command to type next. --json adds the stages, the last
complete failure matrix, and the paths of what shows each of it.

It reads what is recorded below REMIT_HOME and digests the agents that are installed.
Evidence that is missing or does not hold counts as not proven, and no evidence makes
an engine the default. A proof without a signature that counts is none; where the
remit.yaml of this directory asks for signed records, an admission is none either.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := a.ladderStatus(cmd.Context())
			if err != nil {
				return err
			}
			return a.present(cmd.OutOrStdout(), status, func(w io.Writer) error { return printLadder(w, status) })
		},
	}
}

func (a *app) ladderStatus(ctx context.Context) (*ladder.Status, error) {
	var records []ladder.Records
	for _, name := range engineNames() {
		r, err := matrix.ReadRecords(a.home.Dir, name, build())
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	status := ladder.Summarize(records)
	control, err := a.control(ctx, records)
	if err != nil {
		return nil, err
	}
	status.Attach(control)
	return &status, nil
}

// control gathers the lanes of every engine: each agent with each pair that a
// model record or a proof names.
func (a *app) control(ctx context.Context, records []ladder.Records) (ladder.Control, error) {
	signed := signedHere(ctx, ".")
	admitted, err := route.Records(a.home.Dir, signed, nil).Load()
	if err != nil {
		return ladder.Control{}, err
	}
	var lanes []ladder.Lane
	for _, r := range records {
		stored, err := prove.Load(a.home.Dir, r.Engine, signed)
		if err != nil {
			return ladder.Control{}, err
		}
		g := &laneGatherer{app: a, signed: signed, records: r, stored: stored, proofs: prove.Counting(r.Engine, stored), models: admitted.Models}
		for _, f := range g.lanes(ctx) {
			l, err := ladder.LaneOf(f)
			if err != nil {
				return ladder.Control{}, err
			}
			lanes = append(lanes, l)
		}
	}
	return ladder.ControlOf(lanes), nil
}

// laneGatherer finds out about the lanes of one engine.
type laneGatherer struct {
	app     *app
	signed  bool // records count with a signature only, by the policy of this directory
	records ladder.Records
	stored  []prove.StoredProof
	proofs  []ladder.Recorded // those, and those that come with the program
	models  []*admission.Model
}

type modelPair struct{ provider, model string }

// lanes are those of an engine; one whose agent is not there is blocked, and not
// left out.
func (g *laneGatherer) lanes(ctx context.Context) []ladder.LaneFacts {
	name := g.records.Engine
	if !eligibility.AdmissionRequired(name) {
		e, err := engineNamed(name, "")
		if err != nil {
			return []ladder.LaneFacts{g.blocked(name, "", err)}
		}
		return []ladder.LaneFacts{g.facts(prove.KeyOf(e, evidence.EngineIdentity{Name: name}, "", "", sandbox.DriverBwrap))}
	}
	programs := []string{""}
	if name == acp.Name {
		programs = acp.Known()
	}
	var all []ladder.LaneFacts
	for _, program := range programs {
		e, err := engineNamed(name, program)
		var id evidence.EngineIdentity
		if err == nil {
			id, err = e.Identity(ctx)
		}
		if err != nil {
			all = append(all, g.blocked(name, program, err))
			continue
		}
		all = append(all, g.installed(e, id, program)...)
	}
	return all
}

// installed are the lanes of an agent that is there.
func (g *laneGatherer) installed(e engine.Engine, id evidence.EngineIdentity, program string) []ladder.LaneFacts {
	source, _ := route.Admission(route.Records(g.app.home.Dir, g.signed, nil), id)
	var pairs []modelPair
	for _, m := range g.models {
		if m.Decision == admission.Admitted {
			pairs = append(pairs, modelPair{m.Provider, m.Model})
		}
	}
	for _, s := range g.stored {
		if s.Proof != nil && s.Proof.Key.EngineSHA256 == id.SHA256 {
			pairs = append(pairs, modelPair{s.Proof.Key.Provider, s.Proof.Key.Model})
		}
	}
	slices.SortFunc(pairs, func(x, y modelPair) int {
		return cmp.Or(strings.Compare(x.provider, y.provider), strings.Compare(x.model, y.model))
	})
	pairs = slices.Compact(pairs)
	if len(pairs) == 0 {
		pairs = []modelPair{{}}
	}
	var all []ladder.LaneFacts
	for _, p := range pairs {
		f := g.facts(prove.KeyOf(e, id, p.provider, p.model, sandbox.DriverBwrap))
		f.Program = program
		switch {
		case source.SourceStatus != string(eligibility.ModelAdmitted):
			f.Blocked = blockOf(reason.SourceNotAdmitted)
			f.Unblock = route.AdmitSource(id.Name, program)
		case p == modelPair{}:
			f.Blocked = blockOf(reason.ModelNotAdmitted)
			f.Unblock = "remit admit model --provider P --model M --decision admitted --reason WHY"
		}
		all = append(all, f)
	}
	return all
}

// setupModel is the pair of flags that `remit agent setup` needs.
const setupModel = " --model-provider P --model M"

// blocked is the lane of an agent that cannot be started. The message of the
// error may name places of this machine, so that only its code is kept. The next step
// is the command that installs it, if there is one.
func (g *laneGatherer) blocked(name, program string, err error) ladder.LaneFacts {
	f := g.facts(ladder.Key{Engine: name, SandboxDriver: sandbox.DriverBwrap})
	f.Program = program
	f.Blocked, f.Unblock = blockOf(cmp.Or(reason.CodeOf(err), reason.ProviderUnavailable)), "remit doctor"
	switch {
	case reason.CodeOf(err) != reason.ProviderUnavailable || name == workos.Name: // nothing that setup installs
	case program != "":
		f.Unblock = "remit agent setup " + name + ":" + program + setupModel
	case eligibility.AdmissionRequired(name):
		f.Unblock = "remit agent setup " + name + setupModel
	}
	return f
}

func blockOf(code reason.Code) *ladder.LaneBlock {
	info, _ := reason.Lookup(code)
	return &ladder.LaneBlock{Code: code, Detail: info.Description}
}

// facts are what the records say of a key.
func (g *laneGatherer) facts(key ladder.Key) ladder.LaneFacts {
	f := ladder.LaneFacts{Key: key, Proofs: g.proofs, There: g.there}
	f.Standing = ladder.Judge(key, f.Proofs, time.Now())
	if m := g.records.Matrix; m != nil {
		f.Replay.Matrix = g.path(m.Path)
	}
	digest, err := key.Digest()
	for _, s := range g.stored {
		if err != nil || s.Proof == nil || s.Proof.KeySHA256 != digest {
			continue
		}
		switch dir := path.Dir(s.Path); s.Stage {
		case 5:
			f.Replay.Stage5Proof = g.path(s.Path)
			if len(s.Proof.Passes) > 0 {
				f.Replay.Stage5Report = g.path(path.Join(dir, "bundles", s.Proof.Passes[0].SessionID, evidence.ReportFile))
			}
		case 6:
			f.Replay.Comparison = g.path(s.Path)
		}
		f.Replay.Refresh = g.path(path.Join(path.Dir(s.Path), ladder.RefreshFile))
	}
	if f.Replay.Refresh != nil {
		f.Target = refreshedTarget(filepath.Join(g.app.home.Dir, filepath.FromSlash(*f.Replay.Refresh)))
	}
	return f
}

// there reports whether a path below REMIT_HOME is a file.
func (g *laneGatherer) there(name string) bool {
	info, err := os.Lstat(filepath.Join(g.app.home.Dir, filepath.FromSlash(name)))
	return err == nil && info.Mode().IsRegular()
}

// path is a path that resolves, else nil.
func (g *laneGatherer) path(name string) *string {
	if !g.there(name) {
		return nil
	}
	return &name
}

func printLadder(w io.Writer, s *ladder.Status) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "ENGINE\tMODEL\tPROVEN THROUGH\tWHY NOT FURTHER\tTYPE NEXT")
	for _, l := range s.Control.Lanes {
		far, why, next := l.Summary()
		name, model := l.Engine, "-"
		if l.Program != "" {
			name += " " + l.Program
		}
		if l.Provider != "" {
			model = l.Provider + "/" + l.Model
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", plain(name), plain(model), far, shorten(plain(why), 90), plain(next))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nThe stages, and what an engine may change that has proved each:")
	tw = tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, stage := range s.Stages {
		fmt.Fprintf(tw, "%d\t%s\t%s\n", stage.Number, stage.Name, stage.MutationScope)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nruntime default activation: %v (promotion %s, decision %s)\n", s.RuntimeDefaultActivation,
		s.CorePromotionStatus, s.DecisionStatus)
	return err
}
