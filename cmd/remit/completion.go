package main

import (
	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/work/sandbox"
)

// mutationModes are the names of all mutation modes.
func mutationModes() (all []string) {
	for _, m := range task.MutationModes() {
		all = append(all, m.String())
	}
	return all
}

// completeDrivers completes --sandbox.
func completeDrivers(cmd *cobra.Command) {
	complete(cmd, "sandbox", []string{sandbox.DriverBwrap, sandbox.DriverNone})
}
