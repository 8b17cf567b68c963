package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"remit/law/admission"
)

// reviewFlags say when a record is to be decided again.
func reviewFlags(cmd *cobra.Command, r *admission.Review) {
	fl := cmd.Flags()
	fl.Var(&triggerFlag{r}, "review-on", "make the record stale when this changes, TRIGGER or TRIGGER=VALUE with what it is now (repeatable): "+
		strings.Join(names(admission.Triggers()), ", "))
	fl.Var(&reviewByFlag{r}, "review-by", "make the record stale from this time on: 2006-01-02, or 2006-01-02T15:04:05.000Z")
	complete(cmd, "review-on", names(admission.Triggers()))
}

// triggerFlag adds a trigger, and what it watches where the record does not say it.
type triggerFlag struct{ to *admission.Review }

// Set implements pflag.Value.
func (f *triggerFlag) Set(text string) error {
	name, value, stated := strings.Cut(text, "=")
	t := admission.Trigger(name)
	if !slices.Contains(admission.Triggers(), t) {
		return fmt.Errorf("%q is none of %s", name, strings.Join(names(admission.Triggers()), ", "))
	}
	if !slices.Contains(f.to.Triggers, t) {
		f.to.Triggers = append(f.to.Triggers, t)
	}
	if stated {
		if f.to.Basis == nil {
			f.to.Basis = map[admission.Trigger]string{}
		}
		f.to.Basis[t] = value
	}
	return nil
}

func (f *triggerFlag) String() string { return "" }

// Type is what the help calls the value.
func (f *triggerFlag) Type() string { return "trigger" }

// reviewByFlag reads a day or a time.
type reviewByFlag struct{ to *admission.Review }

// Set implements pflag.Value.
func (f *reviewByFlag) Set(text string) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if at, err := time.Parse(layout, text); err == nil {
			f.to.By = at.UTC().Format(admission.TimeFormat)
			return nil
		}
	}
	return fmt.Errorf("%q is neither a day (2006-01-02) nor a time (2006-01-02T15:04:05Z)", text)
}

func (f *reviewByFlag) String() string { return "" }

// Type is what the help calls the value.
func (f *reviewByFlag) Type() string { return "time" }
