package main

import (
	"strings"

	"github.com/spf13/cobra"

	"remit/law/task"
)

// thoroughFlags ask for a more thorough verification than the base commit's
// policy does.
type thoroughFlags struct {
	control, scheme, observe string
	require                  []string
}

func (f *thoroughFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	for _, flag := range []struct {
		to     *string
		name   string
		usage  string
		values []string
	}{
		{&f.control, "control", "whether tests must be shown to be able to fail", names(task.Controls())},
		{&f.scheme, "scheme", "which tests are controlled: every one, or fixed and held-out ones", names(task.Schemes())},
		{&f.observe, "observe", "which parts of the change are tried without, to see if a test notices", names(task.Observes())},
	} {
		fl.StringVar(flag.to, flag.name, "", flag.usage+"; ask for more than remit.yaml does: "+strings.Join(flag.values, ", "))
		complete(cmd, flag.name, flag.values)
	}
	fl.StringArrayVar(&f.require, "require", nil, "what the change has to show: observed (repeatable)")
	complete(cmd, "require", names(task.Requirements()))
}

// names are the words of an enumeration.
func names[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// flags adds them to those that narrow a contract.
func (f *thoroughFlags) flags(to *task.Flags) {
	to.Verification = task.Verify{Control: task.Control(f.control), Scheme: task.Scheme(f.scheme), Observe: task.Observe(f.observe)}
	for _, r := range f.require {
		to.Verification.Require = append(to.Verification.Require, task.Requirement(r))
	}
}
