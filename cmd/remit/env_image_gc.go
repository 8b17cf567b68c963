package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) imageGCCommand() *cobra.Command {
	var days int
	var all bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove images that no run has used for a while", Args: cobra.NoArgs,
		Long: `Gc removes the images that no run has used for --unused-days, or all (--all), and then
the layers that no image has any more. An image stays while a process that has used it
lives: a run, or a provider. What is removed has to be pulled again.`,
		Example: "  remit env image gc\n  remit env image gc --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if days < 0 {
				return usagef("give no negative number of days")
			}
			store, err := a.imageStore()
			if err != nil {
				return err
			}
			since := time.Now()
			if !all {
				since = since.AddDate(0, 0, -days)
			}
			done, err := store.Collect(cmd.Context(), since)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), done)
			}
			w := cmd.OutOrStdout()
			for _, r := range done.Images {
				if r.Why != "" {
					fmt.Fprintf(w, "kept     %s: %s\n", r.Digest, r.Why)
					continue
				}
				fmt.Fprintf(w, "removed  %s\n", r.Digest)
			}
			_, err = fmt.Fprintf(w, "%d layer(s) removed, %d MB\n", done.Layers, done.Bytes>>20)
			return err
		},
	}
	cmd.Flags().IntVar(&days, "unused-days", 30, "how long an image has not been used")
	cmd.Flags().BoolVar(&all, "all", false, "remove every image that no process is using")
	return cmd
}
