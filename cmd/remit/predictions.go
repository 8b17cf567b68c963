package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"remit/forge/swebench"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/workspace"
)

// predictionFlags are the flags of a run that verifies the predictions of a file.
type predictionFlags struct{ file, repos, instances string }

func (p *predictionFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&p.file, "predictions", "", "verify the predictions of this file in the form of SWE-bench, .json or .jsonl: a session each, and no engine")
	fl.StringVar(&p.repos, "repos", "", "with --predictions: directory with the checkouts, INSTANCE_ID each, or OWNER__NAME or OWNER/NAME where --instances says so")
	fl.StringVar(&p.instances, "instances", "", "with --predictions: rows of the data set, .json or .jsonl, with instance_id, repo and base_commit (default: the base is HEAD of each checkout)")
}

// besidePredictions are the flags that may stand beside --predictions: those of a check.
var besidePredictions = []string{"predictions", "repos", "instances", "verify", "repeat", "control", "scheme", "observe", "require",
	"sandbox", "toolchain", "no-verdict-cache", "out", "json"}

// predictionResult is what came of one prediction.
type predictionResult struct {
	InstanceID string      `json:"instance_id"`
	Model      string      `json:"model_name_or_path"`
	Status     string      `json:"status"`         // pass, fail or blocked
	Code       reason.Code `json:"code,omitempty"` // the first reason, where it is not pass
	Message    string      `json:"message,omitempty"`
	Hint       string      `json:"hint,omitempty"`
	SessionID  string      `json:"session_id,omitempty"` // "" where there was none
	ExitCode   int         `json:"exit_code"`
}

// predictionsDocument is the JSON document of a run of predictions.
type predictionsDocument struct {
	Report    swebench.RunReport `json:"report"`
	Instances []predictionResult `json:"instances"`
	ExitCode  int                `json:"exit_code"`
}

// runPredictions verifies each prediction of a file as remit check verifies a patch, one
// after the other. What is wrong with one is its own result; the file as a whole is
// refused before the first.
func (a *app) runPredictions(cmd *cobra.Command, f *runFlags, args []string) error {
	if f.predictions.file == "" {
		return usagef("--repos and --instances are for --predictions FILE")
	}
	other := ""
	cmd.Flags().Visit(func(fl *pflag.Flag) {
		if !slices.Contains(besidePredictions, fl.Name) {
			other = fl.Name
		}
	})
	switch {
	case other != "" || len(args) > 0:
		return usagef("--predictions takes each change from the file and its rules from the base: no engine, no command, and of flags --%s",
			strings.Join(besidePredictions[1:], ", --"))
	case f.predictions.repos == "":
		return usagef("say where the checkouts are: --repos DIR")
	case f.repeat < 1:
		return usagef("--repeat %d: must be at least 1", f.repeat)
	}
	predictions, err := swebench.ReadPredictions(f.predictions.file)
	if err != nil {
		return err
	}
	var instances map[string]swebench.Instance
	if f.predictions.instances != "" {
		if instances, err = swebench.ReadInstances(f.predictions.instances); err != nil {
			return err
		}
	}
	if f.out != "" {
		if err := emptyDir(f.out); err != nil {
			return err
		}
	}
	w := cmd.OutOrStdout()
	if a.json {
		w = io.Discard
	}
	var doc predictionsDocument
	for _, p := range predictions {
		out, err := a.predicted(cmd.Context(), f, instances, p)
		if cmd.Context().Err() != nil {
			return errors.Join(err, context.Cause(cmd.Context()))
		}
		result, rep := resultOf(p, out, err)
		doc.Report.Add(p, rep)
		doc.Instances, doc.ExitCode = append(doc.Instances, result), worstExit(doc.ExitCode, result.ExitCode)
		fmt.Fprintf(w, "%-8s %s  %s\n", result.Status, result.InstanceID, plain(strings.TrimSpace(result.SessionID+"  "+string(result.Code))))
		if result.SessionID == "" {
			fmt.Fprintf(w, "         %s\n", plain(result.Message))
			if result.Hint != "" {
				fmt.Fprintf(w, "         hint: %s\n", plain(result.Hint))
			}
		}
		if out != nil && f.out != "" {
			if err := exportRun(out.Session, filepath.Join(f.out, p.InstanceID)); err != nil {
				return err
			}
		}
	}
	doc.Report.Finish(instances)
	if err := a.reportPredictions(cmd, f, &doc); err != nil {
		return err
	}
	if doc.ExitCode != 0 {
		return exitCode(doc.ExitCode)
	}
	return nil
}

func (a *app) reportPredictions(cmd *cobra.Command, f *runFlags, doc *predictionsDocument) error {
	if f.out != "" {
		if err := newFile(filepath.Join(f.out, "report.json"), func(w io.Writer) error { return printJSON(w, doc.Report) }); err != nil {
			return err
		}
	}
	if a.json {
		return printJSON(cmd.OutOrStdout(), doc)
	}
	r := doc.Report
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d predictions: %d resolved, %d unresolved, %d empty, %d not judged\n",
		r.SubmittedInstances, r.ResolvedInstances, r.UnresolvedInstances, r.EmptyPatchInstances, r.ErrorInstances)
	return err
}

// predicted verifies one prediction.
func (a *app) predicted(ctx context.Context, f *runFlags, instances map[string]swebench.Instance,
	p swebench.Prediction) (*harness.Outcome, error) {
	repo, base, err := f.predictions.checkout(instances, p.InstanceID)
	if err != nil {
		return nil, err
	}
	source, err := workspace.OpenSource(ctx, repo)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "remit-check-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the patch: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	name, text := filepath.Join(dir, "patch"), ""
	if !p.Empty() {
		text = strings.TrimSuffix(*p.Patch, "\n") + "\n" // many a prediction lacks the last one, and git calls it corrupt
	}
	if err := spoolPatch(strings.NewReader(text), name); err != nil {
		return nil, err
	}
	check := &checkFlags{repo: repo, base: base, verify: f.verify, repeat: f.repeat, thorough: f.thorough, sandbox: f.sandbox,
		toolchains: f.toolchains, noVerdictCache: f.noVerdictCache, instance: p.InstanceID}
	return a.judge(ctx, check, source, &harness.Check{Patch: name, Author: p.Model}, "Check prediction "+p.InstanceID, nil)
}

// checkout finds the repository of an instance, and the commit that it is for.
func (p *predictionFlags) checkout(instances map[string]swebench.Instance, id string) (repo, base string, err error) {
	names, base := []string{id}, ""
	if in, ok := instances[id]; ok {
		owner, name, _ := strings.Cut(in.Repo, "/")
		names, base = append(names, owner+"__"+name, filepath.Join(owner, name)), in.BaseCommit
	} else if instances != nil {
		return "", "", reason.Errorf(reason.PredictionsInvalid, "%q is none of the instances of %s", id, p.instances)
	}
	for _, name := range names {
		dir := filepath.Join(p.repos, name)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, base, nil
		}
	}
	return "", "", reason.Errorf(reason.PredictionsInvalid, "no checkout of %q: %s has none of %s", id, p.repos, strings.Join(names, ", ")).
		WithHint("clone the repository to one of these, at the commit that the instance is for")
}

// resultOf is what a verified prediction came to. rep is nil where there was no session.
func resultOf(p swebench.Prediction, out *harness.Outcome, err error) (predictionResult, *evidence.Report) {
	result := predictionResult{InstanceID: p.InstanceID, Model: p.Model}
	if err != nil {
		text := textOf(err)
		result.Status, result.Code, result.Message, result.Hint, result.ExitCode = evidence.StatusBlocked, text.Code, text.Message, text.Hint,
			printError(io.Discard, err)
		if result.ExitCode == 2 {
			result.Status = evidence.StatusFail
		}
		return result, nil
	}
	rep := out.Report
	result.Status, result.SessionID, result.ExitCode = rep.Status, rep.SessionID, evidence.ExitCode(rep.Status)
	if len(rep.Blockers) > 0 && rep.Status != evidence.StatusPass {
		first := rep.Blockers[0]
		result.Code, result.Message, result.Hint = first.Code, first.Message, first.Hint
	}
	return result, rep
}
