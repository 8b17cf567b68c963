package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/proof/reason"
	"remit/work/redact"
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

// decideSource puts a decision about a build of an engine on top of what was
// decided before.
func decideSource(home string, d admission.SourceDecision) (rec *admission.Source, err error) {
	if err := redact.RefuseRecord("the record of the engine", d); err != nil {
		return nil, err
	}
	err = admissionsLocked(home, func() error {
		previous, err := admission.SourceRecord(home, d.Engine)
		if err != nil {
			return err
		}
		if previous != nil && previous.Engine != d.Engine {
			return fmt.Errorf("the file of engine %q is about %q: move it away", d.Engine, previous.Engine)
		}
		if rec, err = admission.NextSource(previous, d); err != nil {
			return badDecision(err)
		}
		return writeAdmission(home, admission.SourceFile(d.Engine), rec.Encode)
	})
	return rec, err
}

// decideModel is decideSource for a pair of provider and model.
func decideModel(home string, d admission.ModelDecision) (rec *admission.Model, err error) {
	if err := redact.RefuseRecord("the record of the model", d); err != nil {
		return nil, err
	}
	err = admissionsLocked(home, func() error {
		previous, err := admission.ModelRecord(home, d.Provider, d.Model)
		if err != nil {
			return err
		}
		if previous != nil && (previous.Provider != d.Provider || previous.Model != d.Model) {
			return fmt.Errorf("the file of model %q is about %q: move it away", d.Model, previous.Model)
		}
		if rec, err = admission.NextModel(previous, d); err != nil {
			return badDecision(err)
		}
		return writeAdmission(home, admission.ModelFile(d.Provider, d.Model), rec.Encode)
	})
	return rec, err
}

// badDecision is what is wrong with a new decision. What was decided before has
// been checked, so the command line is what is wrong.
func badDecision(err error) error {
	var coded *reason.Error
	if !errors.As(err, &coded) || coded.Code != reason.InvalidAdmission {
		return fmt.Errorf("making the record: %w", err)
	}
	return usagef("%s: %s", coded.Field, coded.Message)
}

// admissionsLocked makes reading a record and writing its successor one step:
// two writers at once would each drop the other's decision from the history.
func admissionsLocked(home string, do func() error) error {
	dir := filepath.Join(home, admission.Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keeping admissions: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("keeping admissions: %w", err)
	}
	defer lock.Close() // gives the lock back, as the end of the process does
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			return do()
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("locking the admissions: %w", err)
		}
	}
}

// writeAdmission replaces a record's file as a whole, on disk when it returns:
// a decision that was printed must not be gone after a crash.
func writeAdmission(home, name string, encode func() ([]byte, error)) error {
	text, err := encode()
	if err != nil {
		return fmt.Errorf("making the record: %w", err)
	}
	path := filepath.Join(home, filepath.FromSlash(name))
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // best effort: the write error is what matters
		return fmt.Errorf("writing the record: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, unix.ENOTSUP) {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}
