package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/task"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/route"
)

// targetForm is what a person fills in: the fields of a target record that are
// theirs to state, under its names and in its order.
type targetForm struct {
	Status            admission.Status `json:"admission_status"`
	Path              string           `json:"target_repository_path"`
	Owner             string           `json:"repository_owner"`
	OwnershipEvidence string           `json:"ownership_evidence"`
	Risk              string           `json:"risk_classification"`
	Rationale         string           `json:"noncritical_rationale"`
	AllowedPaths      []string         `json:"allowed_paths"`
	ForbiddenPaths    []string         `json:"forbidden_paths"`
	ForbiddenActions  []string         `json:"forbidden_actions"`
	ApprovalSource    string           `json:"approval_source"`
	ApprovalTimestamp string           `json:"approval_timestamp"`
	OutcomeRequired   bool             `json:"operator_outcome_required"`
	ReviewTrigger     string           `json:"review_trigger"`
}

// maxTargetForm bounds the file of a form, in bytes.
const maxTargetForm = 1 << 20

func (a *app) admitTargetCommand() *cobra.Command {
	var d admission.TargetDecision
	var template bool
	var file, repo string
	cmd := &cobra.Command{
		Use: "target (--template | --file FILE | --repo DIR) --reason TEXT", Args: cobra.NoArgs,
		Short: "Decide about a repository that runs may deliver a change to",
		Long: `Target records a decision about one repository. A run above sandbox-repo begins
only where a record admits its repository, names its owner and the evidence of that,
calls it low_risk_noncritical and says why, and where the contract lies inside the
paths and actions of the record.

--template prints a record of which nothing is decided. Fill it in, set
admission_status to admitted, and give it back with --file (- is the standard input).
What the record lacks is refused, each with a code of its own. With --repo and
--decision rejected or not_decided an admission is taken back.`,
		Example: `  remit admit target --template > target.json
  remit admit target --file target.json --reason 'agreed with the owner'
  remit admit target --repo . --decision rejected --reason 'in use now'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			switch {
			case template && file == "" && repo == "":
				return printJSON(out, formOf(admission.Template()))
			case template || (file == "") == (repo == ""):
				return usagef("give --template, or --file FILE, or --repo DIR with --decision rejected or not_decided")
			}
			rec, err := a.decideTarget(cmd.InOrStdin(), d, file, repo)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(out, rec)
			}
			_, err = fmt.Fprintf(out, "Target %s: %s, revision %d.\n", plain(rec.Path), rec.Status, rec.Revision)
			return err
		},
	}
	rulingFlags(cmd, &d.Ruling)
	fl := cmd.Flags()
	fl.BoolVar(&template, "template", false, "print the record to fill in, as JSON")
	fl.StringVar(&file, "file", "", "the record, filled in; its admission_status is the decision")
	fl.StringVar(&repo, "repo", "", "the repository whose admission is taken back")
	return cmd
}

func formOf(d admission.TargetDecision) targetForm {
	return targetForm{d.Status, d.Path, d.Owner, d.OwnershipEvidence, d.Risk, d.Rationale, d.AllowedPaths, d.ForbiddenPaths,
		d.ForbiddenActions, d.By, d.ApprovalTimestamp, d.OutcomeRequired, d.ReviewTrigger}
}

// decideTarget keeps a decision about a repository: that of a filled-in form, or
// one that takes back the record of a directory.
func (a *app) decideTarget(stdin io.Reader, d admission.TargetDecision, file, repo string) (*admission.Target, error) {
	if d.Reason == "" {
		return nil, usagef("a decision needs --reason")
	}
	ruling := d.Ruling
	ruling.At = time.Now().UTC().Format(admission.TimeFormat)
	var err error
	if file != "" {
		if ruling.Decision != "" {
			return nil, usagef("--file states the decision as admission_status: --decision goes with --repo")
		}
		if d, err = readTarget(stdin, file); err != nil {
			return nil, err
		}
		ruling.Decision, ruling.By = d.Decision, d.By
		ruling.ReviewTrigger = cmp.Or(ruling.ReviewTrigger, d.ReviewTrigger)
		repo = d.Path
	} else if ruling.Decision != admission.Rejected && ruling.Decision != admission.NotDecided {
		return nil, usagef("--repo takes an admission back: --decision %s or %s", admission.Rejected, admission.NotDecided)
	}
	if repo, err = targetPath(repo); err != nil {
		return nil, err
	}
	return decide(a.home.Dir, "the record of the target", admission.TargetFile(repo), d, func(s admission.Store) (*admission.Target, error) {
		previous, err := s.Target(repo)
		if err != nil {
			return nil, asRead{err}
		}
		if file == "" { // what was said of the repository stays
			if previous == nil {
				return nil, asRead{noRecord(reason.TargetRecordMissing, a.home.Dir, admission.TargetFile(repo), "the target")}
			}
			d, ruling.By = previous.TargetDecision, operator()
			ruling.ReviewTrigger = cmp.Or(ruling.ReviewTrigger, d.ReviewTrigger)
		}
		d.Ruling, d.Path = ruling, repo
		return admission.NextTarget(previous, d)
	})
}

// readTarget reads a filled-in form.
func readTarget(stdin io.Reader, file string) (d admission.TargetDecision, err error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return d, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTargetForm+1))
	if err != nil {
		return d, err
	}
	var form targetForm
	text, err = canon.Canonicalize(text)
	if err == nil {
		err = canon.Decode(text, &form)
	}
	if err != nil {
		return d, usagef("--file %s is not the record of a target: %w", file, err)
	}
	d = admission.TargetDecision{Status: form.Status, Path: form.Path, Owner: form.Owner, OwnershipEvidence: form.OwnershipEvidence, Risk: form.Risk,
		Rationale: form.Rationale, AllowedPaths: form.AllowedPaths, ForbiddenPaths: form.ForbiddenPaths, ForbiddenActions: form.ForbiddenActions,
		ApprovalTimestamp: form.ApprovalTimestamp, OutcomeRequired: form.OutcomeRequired}
	d.By, d.ReviewTrigger = form.ApprovalSource, form.ReviewTrigger
	switch form.Status {
	case admission.StatusAdmitted:
		d.Decision = admission.Admitted
	case admission.StatusNotAdmitted:
		d.Decision = admission.NotDecided
	default:
		return d, usagef("admission_status: %q is none of %s, %s", form.Status, admission.StatusAdmitted, admission.StatusNotAdmitted)
	}
	return d, nil
}

// targetPath is the path of a repository as its record has it: absolute, with
// every link followed.
func targetPath(repo string) (string, error) {
	if repo == "" {
		return "", usagef("target_repository_path says nothing")
	}
	path, err := filepath.Abs(repo)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return path, err
}

func (a *app) showTargetCommand() *cobra.Command {
	var repo, taskFile string
	cmd := &cobra.Command{
		Use: "target [--repo DIR] [--task FILE]", Short: "Print the record of a repository, and whether it admits it", Args: cobra.NoArgs,
		Long: `Target prints the record of a repository. The exit code is 0 if it admits the
repository, and the contract of --task in it, else 3.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := targetPath(repo)
			if err != nil {
				return err
			}
			var contract *task.Contract
			if taskFile != "" {
				if contract, err = task.Load(taskFile); err != nil {
					return err
				}
			}
			result, rec := route.Records(a.home.Dir, false, nil).TargetResult(path, contract)
			if rec == nil {
				return noRecord(result.Code, a.home.Dir, admission.TargetFile(path), "the target %s", path)
			}
			v := view{Record: rec, Result: result, Required: true}
			return a.showAdmission(cmd.OutOrStdout(), v, admission.TargetFile(path), func(w io.Writer) {
				fmt.Fprintf(w, "target    %s\nowner     %s (%s)\nrisk      %s: %s\nallowed   %s\nforbidden %s\nactions   %s\n", plain(rec.Path), stated(rec.Owner),
					stated(rec.OwnershipEvidence), stated(rec.Risk), stated(rec.Rationale), stated(strings.Join(rec.AllowedPaths, " ")),
					stated(strings.Join(rec.ForbiddenPaths, " ")), stated(strings.Join(rec.ForbiddenActions, " ")))
				printRulings(w, rulings(rec.History, rec.Ruling, func(d admission.TargetDecision) admission.Ruling { return d.Ruling }))
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "the repository")
	cmd.Flags().StringVar(&taskFile, "task", "", "task contract (YAML) that is to lie inside the record")
	return cmd
}
