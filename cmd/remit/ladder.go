package main

import "github.com/spf13/cobra"

func (a *app) ladderCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ladder", Short: "Try an engine against the failure matrix, and say what is proved of it",
		Long: `The ladder is what an engine has to show before it may come closer to a real
repository: six stages, and twelve ways to fail of which each must end in one way
only. No stage makes an engine the default.`,
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.ladderProveCommand(), a.ladderMatrixCommand(), a.ladderStatusCommand(), a.ladderGuardCommand(), a.ladderRefreshCommand())
	return cmd
}
