package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/proof/attest"
	"remit/proof/reason"
	"remit/work/keyring"
	"remit/work/route"
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
			records := route.Records(a.home.Dir, false, nil)
			rec, err := records.Source(engine)
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
			result := records.Reviewed(rec.Holds(id), reason.SourceNotAdmitted, rec.Ruling, admission.Facts{admission.OnEngineDigest: id.SHA256})
			v := view{Record: rec, Result: result, Required: eligibility.AdmissionRequired(engine)}
			return a.showAdmission(cmd.OutOrStdout(), v, admission.SourceFile(engine), func(w io.Writer) {
				fmt.Fprintf(w, "engine    %s %s\nsha256    %s\nsource    %s (%s) %s\nlicense   %s\n", plain(rec.Engine), versionText(rec.Version),
					stated(rec.SHA256), plain(rec.Name), rec.Type, stated(rec.URL), stated(rec.License))
				printRulings(w, rulings(rec.History, rec.Ruling, func(d admission.SourceDecision) admission.Ruling { return d.Ruling }))
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
			result, rec := route.Records(a.home.Dir, false, nil).ModelResult(provider, model)
			if result.Status == admission.StatusInvalid {
				return reason.Errorf(reason.InvalidAdmission, "%s", result.Detail)
			}
			if rec == nil {
				return noRecord(reason.ModelNotAdmitted, a.home.Dir, admission.ModelFile(provider, model), "model %q of provider %q", model, provider)
			}
			v := view{Record: rec, Result: result, Required: true}
			return a.showAdmission(cmd.OutOrStdout(), v, admission.ModelFile(provider, model), func(w io.Writer) {
				fmt.Fprintf(w, "model     %s of %s (%s)\nprovider  %s\nnetwork   %s, credential from: %s\n", plain(rec.Model),
					plain(rec.Provider), rec.Class, rec.DecisionStatus, rec.Network, rec.CredentialSource)
				printRulings(w, rulings(rec.History, rec.Ruling, func(d admission.ModelDecision) admission.Ruling { return d.Ruling }))
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
	Record    any              `json:"record"`
	Result    admission.Result `json:"result"`
	Required  bool             `json:"required"` // false: no run asks for the record
	Signature signatureView    `json:"signature"`
}

// signatureView is whose signature a record has.
type signatureView struct {
	Status      string `json:"status"` // signed, or the reason code of why it does not count
	By          string `json:"by"`
	Fingerprint string `json:"fingerprint"`
}

// signatureOf is the signature of a record's file.
func (a *app) signatureOf(file string) (signatureView, error) {
	text, signature, err := admission.Store{Home: a.home.Dir}.Signed(file)
	if err != nil {
		return signatureView{}, err
	}
	by, err := keyring.VerifyRecord(a.home.Dir, attest.NamespaceRecord, text, signature)
	if err != nil {
		return signatureView{Status: string(reason.CodeOf(err))}, nil
	}
	return signatureView{Status: "signed", By: by.Name, Fingerprint: by.Fingerprint}, nil
}

func (a *app) showAdmission(w io.Writer, v view, file string, print func(io.Writer)) (err error) {
	if v.Signature, err = a.signatureOf(file); err != nil {
		return err
	}
	if a.json {
		if err := printJSON(w, v); err != nil {
			return err
		}
	} else {
		print(w)
		if v.Signature.By == "" {
			fmt.Fprintf(w, "\nsigned    no (%s): it counts for nothing where remit.yaml says records: {signed: true}\n", v.Signature.Status)
		} else {
			fmt.Fprintf(w, "\nsigned    by %s, %s\n", plain(v.Signature.By), v.Signature.Fingerprint)
		}
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

// rulings are those of a record, the oldest first.
func rulings[D any](history []D, latest admission.Ruling, of func(D) admission.Ruling) []admission.Ruling {
	var out []admission.Ruling
	for _, d := range history {
		out = append(out, of(d))
	}
	return append(out, latest)
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
