package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/ladder"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/prove"
	"remit/work/route"
	"remit/work/sandbox"
)

// proveFlags are those of remit ladder prove.
type proveFlags struct {
	engine         ladderEngine
	model          modelFlags
	scripted       bool
	stage, through int
	repo, sandbox  string
	approve        bool
	accept         string
	policyOf       string // repository whose policy says what records count, "" for that of repo
}

func (a *app) ladderProveCommand() *cobra.Command {
	f := &proveFlags{}
	cmd := &cobra.Command{
		Use: "prove --engine NAME --through N [-- AGENT ARG…]", Short: "Let an engine show a stage of the ladder, and keep the proof",
		Long: `Prove runs what a stage asks of an engine, looks at what the runs left, and keeps
a signed proof with their sealed sessions below REMIT_HOME. A proof is of one engine
with its version and digest, one pair of provider and model, one verifier and one
sandbox driver. A stage whose proof still holds is not proved again.

The runs that show what a stage proves ask the pair that is named. How the engine
fails is tried with a scripted model in this process, which costs nothing. With
--scripted that model is the pair itself: the proof then says nothing of any other.

Stages 4 to 6 deliver a verified change as one commit on a new branch, after an approval:
--approve gives it, in your name. Stage 4 does so in a repository that the run makes and
throws away; it writes to none of yours. Stages 5 and 6 need --repo DIR, a repository that
'remit admit target' has admitted with remit-proof/** among its allowed paths: the engine
leaves notes there, on branches of their own. They wait for you to accept these changes
(remit accept) and are then proved with the same command; --accept WHY accepts them at
once. Stage 6 gives one task to every engine that can run, and compares.

Exit code 0 when every stage is proven, 2 when one is not, 3 when one could not be
tried.`,
		Example: `  remit ladder prove --engine command --through 3
  remit ladder prove --engine codex --model-provider openai --model gpt-5.5 --through 3
  remit ladder prove --engine pi --scripted --stage 1 --json
  remit ladder prove --engine command --through 6 --approve --repo ../tool`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.engine.command = args
			if err := f.model.usePreset(); err != nil {
				return err
			}
			return a.ladderProve(cmd, f)
		},
	}
	f.model.add(cmd)
	f.engine.addTo(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.scripted, "scripted", false, "prove the engine with the scripted model of this process, without a provider")
	fl.IntVar(&f.stage, "stage", 0, "prove this stage alone")
	fl.IntVar(&f.through, "through", 0, "prove every stage up to this one")
	fl.StringVar(&f.repo, "repo", "", "repository of yours: stage 3 only reads it (default: a fixture), stages 5 and 6 need one that is admitted")
	fl.BoolVar(&f.approve, "approve", false, "approve the runs of stages 4 to 6, as the operator at this terminal")
	fl.StringVar(&f.accept, "accept", "", "accept the changes of the runs of stages 5 and 6 that pass, for this `REASON`")
	fl.StringVar(&f.sandbox, "sandbox", "", "sandbox driver: bwrap (default), none")
	return cmd
}

// stages are the first and the last stage of the flags.
func (f *proveFlags) stages() (first, last int, err error) {
	highest := len(ladder.Stages())
	switch {
	case (f.stage == 0) == (f.through == 0):
		return 0, 0, usagef("say what to prove: --stage N, or --through N")
	case f.stage < 0 || f.through < 0 || f.stage > highest || f.through > highest:
		return 0, 0, usagef("the stages are 1 to %d", highest)
	case f.stage > 0:
		return f.stage, f.stage, nil
	}
	return 1, f.through, nil
}

func (a *app) ladderProve(cmd *cobra.Command, f *proveFlags) error {
	res, err := a.proveStages(cmd, f)
	if err != nil {
		return err
	}
	if a.json {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		err = printProved(cmd.OutOrStdout(), res)
	}
	if code := evidence.ExitCode(res.Status()); err == nil && code != 0 {
		err = exitCode(code)
	}
	return err
}

// proveStages makes the proofs that the flags ask for, and says on stderr how it goes.
func (a *app) proveStages(cmd *cobra.Command, f *proveFlags) (*prove.Result, error) {
	first, last, err := f.stages()
	if err != nil {
		return nil, err
	}
	opt := prove.Options{Home: a.home.Dir, Engine: f.engine.name, First: first, Through: last, Build: build(), Case: fixtureHere()}
	if f.repo != "" {
		if opt.Repo, err = filepath.Abs(f.repo); err != nil {
			return nil, err
		}
	}
	if opt.Binary, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if !f.scripted {
		note, err := a.settle(&f.model, f.engine.name, &f.engine.command, &f.engine.wire)
		if err != nil {
			return nil, err
		}
		tellSettled(cmd.ErrOrStderr(), note)
	}
	f.engine.bin = f.model.bin
	if opt.Agent, err = f.engine.agent(); err != nil {
		return nil, err
	}
	if len(f.engine.command) > 0 {
		opt.Program = filepath.Base(f.engine.command[0])
	}
	signed := signedHere(cmd.Context(), cmp.Or(f.policyOf, f.repo, "."))
	opt.Signed = signed
	if err := f.records(cmd, a.home.Dir, signed, &opt); err != nil {
		return nil, err
	}
	if last > copyStage() {
		policy, err := targetPolicy(cmd.Context(), opt.Repo)
		if err != nil {
			return nil, err
		}
		if err := a.govern(cmd, f, policy, &opt); err != nil {
			return nil, err
		}
	}
	if opt.Sandbox, err = sandbox.Open(cmd.Context(), a.sandboxOptions(f.sandbox, nil)); err != nil {
		return nil, err
	}
	view := newProgress(os.Stderr)
	opt.OnStep = func(what, status, detail string) { view.Step(what, proveStatus(status), detail) }
	defer view.close()
	return prove.Run(cmd.Context(), opt)
}

// records asks what is admitted: the build of the agent, and the pair.
func (f *proveFlags) records(cmd *cobra.Command, home string, signed bool, opt *prove.Options) error {
	if opt.Agent == nil {
		if f.scripted || f.model.model != "" || f.model.provider != "" {
			return usagef("engine %s asks no model", opt.Engine)
		}
		return nil
	}
	if f.scripted == (f.model.model != "" || f.model.provider != "") {
		return usagef("engine %s asks a model: give --model-provider and --model, or --scripted", opt.Engine)
	}
	id, err := opt.Agent.Identity(cmd.Context())
	if err != nil {
		return err
	}
	records := route.Records(home, signed, admission.Facts{admission.OnEngineDigest: id.SHA256})
	admitted, result := route.Admission(records, id)
	if admitted.SourceStatus != string(eligibility.ModelAdmitted) {
		return reason.Errorf(reason.SourceNotAdmitted, "%s", admitted.Detail).WithHint("%s", admitted.Remedy)
	}
	opt.Admission, opt.SourceAdmissionID = admitted, result.RecordID
	if f.scripted {
		return nil
	}
	if opt.Route, err = f.model.route(opt.Agent, records, nil); err != nil {
		return err
	}
	if opt.Route.Status != eligibility.ModelAdmitted {
		return reason.Errorf(reason.ModelNotAdmitted, "%s", opt.Route.Detail).WithHint("%s", opt.Route.Remedy)
	}
	m, err := f.model.named()
	opt.ModelAdmission = m.Admitted(records).RecordID
	return err
}

// signedHere reports whether the policy of a directory asks for signatures of the
// records: that of its repository, or outside of one the file that lies there. A policy
// that cannot be read asks for all that it could.
func signedHere(ctx context.Context, dir string) bool {
	policy, _, err := policyOf(ctx, dir, "", true)
	if reason.CodeOf(err) == reason.NotARepository {
		file := filepath.Join(dir, task.PolicyFile)
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			return false
		}
		policy, err = task.LoadPolicy(file)
	}
	info, _ := reason.Lookup(reason.CodeOf(err))
	return info.Domain == "contract" || err == nil && policy.SignedRecords()
}

// fixtureHere is the fixture that can be verified on this machine.
func fixtureHere() string {
	cases := prove.Cases()
	if _, err := exec.LookPath("python3"); err != nil {
		return cases[len(cases)-1]
	}
	return cases[0]
}

// proveStatus is a status of a proof or of a case as the progress view knows it.
func proveStatus(status string) string {
	switch status {
	case evidence.StatusPass:
		return "completed"
	case evidence.StatusFail:
		return "failed"
	case evidence.StatusBlocked:
		return "blocked"
	}
	return stepStatus(status)
}

func printProved(w io.Writer, res *prove.Result) error {
	for _, m := range res.Made {
		word := m.Status
		if m.Reused {
			word = "holds"
		}
		if _, err := fmt.Fprintf(w, "stage %d  %-8s %s\n", m.Stage, word, plain(m.Path)); err != nil {
			return err
		}
		for _, e := range m.Errors {
			fmt.Fprintf(w, "  %s\n", plain(e))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s  engine %s: proven up to stage %d, mode %s\n", upper(res.Status()), res.Key.Engine, res.Standing.Stage,
		res.Standing.Mode)
	return err
}
