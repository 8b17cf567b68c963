package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/proof/reason"
)

func (a *app) showSourceCommand() *cobra.Command {
	var engine, bin string
	cmd := &cobra.Command{
		Use: "source --engine NAME", Short: "Compare the record of an engine with the build on this machine", Args: cobra.NoArgs,
		Long: `Source prints the record of an engine and compares it with the build that is on this
machine. The exit code is 0 if the record holds for it, else 3.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if engine == "" {
				return usagef("which engine? --engine NAME")
			}
			rec, err := admission.SourceRecord(a.home.Dir, engine)
			if err != nil {
				return err
			}
			if rec == nil {
				return noRecord(reason.SourceNotAdmitted, a.home.Dir, admission.SourceFile(engine), "engine %q", engine)
			}
			id, err := identityOf(cmd, engine, bin)
			if err != nil {
				return err
			}
			v := view{Record: rec, Result: rec.Holds(id), Required: eligibility.AdmissionRequired(engine)}
			return a.showAdmission(cmd.OutOrStdout(), v, func(w io.Writer) {
				fmt.Fprintf(w, "engine    %s %s\nsha256    %s\nsource    %s (%s) %s\nlicense   %s\n", plain(rec.Engine), versionText(rec.Version),
					stated(rec.SHA256), plain(rec.Name), rec.Type, stated(rec.URL), stated(rec.License))
				var rulings []admission.Ruling
				for _, d := range rec.History {
					rulings = append(rulings, d.Ruling)
				}
				printRulings(w, append(rulings, rec.Ruling))
			})
		},
	}
	engineFlags(cmd, &engine, &bin)
	return cmd
}

func (a *app) showModelCommand() *cobra.Command {
	var provider, model string
	cmd := &cobra.Command{
		Use: "model --provider P --model M", Short: "Print the record of a pair", Args: cobra.NoArgs,
		Long: "Model prints the record of a pair. The exit code is 0 if it admits the pair, else 3.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if provider == "" || model == "" {
				return usagef("which model? --provider P --model M")
			}
			rec, err := admission.ModelRecord(a.home.Dir, provider, model)
			if err != nil {
				return err
			}
			if rec == nil {
				return noRecord(reason.ModelNotAdmitted, a.home.Dir, admission.ModelFile(provider, model), "model %q of provider %q", model, provider)
			}
			v := view{Record: rec, Result: admission.CheckModel(rec, provider, model), Required: true}
			return a.showAdmission(cmd.OutOrStdout(), v, func(w io.Writer) {
				fmt.Fprintf(w, "model     %s of %s (%s)\nprovider  %s\nnetwork   %s, credential from: %s\n", plain(rec.Model), plain(rec.Provider), rec.Class,
					rec.DecisionStatus, rec.Network, rec.CredentialSource)
				var rulings []admission.Ruling
				for _, d := range rec.History {
					rulings = append(rulings, d.Ruling)
				}
				printRulings(w, append(rulings, rec.Ruling))
			})
		},
	}
	pairFlags(cmd, &provider, &model)
	return cmd
}

func noRecord(code reason.Code, home, file, format string, args ...any) error {
	e := reason.Errorf(code, "there is no admission record of "+format, args...)
	e.File = filepath.Join(home, filepath.FromSlash(file))
	return e.WithHint("`remit admit list` shows what was decided")
}

// view is what show prints as JSON.
type view struct {
	Record   any              `json:"record"`
	Result   admission.Result `json:"result"`
	Required bool             `json:"required"` // false: no run asks for the record
}

func (a *app) showAdmission(w io.Writer, v view, print func(io.Writer)) error {
	if a.json {
		if err := printJSON(w, v); err != nil {
			return err
		}
	} else {
		print(w)
		fmt.Fprintf(w, "\n%s  %s\n", upper(string(v.Result.Status)), plain(v.Result.Detail))
		if !v.Required {
			fmt.Fprintln(w, "The engine is built in: no run asks for this record.")
		}
	}
	if !v.Result.Admitted() {
		return exitCode(codeOf(v.Result.Code))
	}
	return nil
}

func printRulings(w io.Writer, rulings []admission.Ruling) {
	fmt.Fprintln(w)
	for _, r := range rulings {
		fmt.Fprintf(w, "%4d  %s  %s by %s: %s\n", r.Revision, r.At, r.Decision, plain(r.By), plain(r.Reason))
	}
}

func stated(s string) string {
	if s == "" {
		return "(not stated)"
	}
	return plain(s)
}
