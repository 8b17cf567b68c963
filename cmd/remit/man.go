package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"remit/law/task"
	"remit/work/sandbox"
)

// manCommand writes the man pages; a package runs it when it is built.
func (a *app) manCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages to a directory", Args: cobra.ExactArgs(1), GroupID: "machine",
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("making %s: %w", args[0], err)
			}
			pages, err := writeManPages(root, args[0])
			if err != nil {
				return err
			}
			return a.present(c.OutOrStdout(), map[string]string{"written": args[0]}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%d man pages are in %s\n", pages, plain(args[0]))
				return err
			})
		},
	}
}

// mutationModes are the names of all mutation modes.
func mutationModes() (all []string) {
	for _, m := range task.MutationModes() {
		all = append(all, m.String())
	}
	return all
}

// chooseDriver has --sandbox name a driver.
func chooseDriver(cmd *cobra.Command) {
	choose(cmd, "sandbox", []string{sandbox.DriverBwrap, sandbox.DriverNone})
}
