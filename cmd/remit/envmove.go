package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/reason"
	"remit/work/depend"
)

func (a *app) envGCCommand() *cobra.Command {
	var key string
	var days int
	var all bool
	cmd := &cobra.Command{
		Use: "gc", Short: "Remove layers that no run has used for a while", Args: cobra.NoArgs,
		Long: `Gc removes the layers that no run has used for --unused-days, or one of them (--key),
or all (--all). A layer that a run is using stays. What is removed is made again by
the next run that needs it.`,
		Example: "  remit env gc\n  remit env gc --key 3f2a",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if key != "" && all || days < 0 {
				return usagef("give one of --key and --all, and no negative number of days")
			}
			store, err := a.layerStore()
			if err != nil {
				return err
			}
			var removed []depend.Removed
			if key == "" {
				now := time.Now()
				since := now.AddDate(0, 0, -days)
				if all {
					since = now
				}
				removed, err = store.Collect(now, since)
			} else {
				var full string
				if full, err = store.Complete(key); err == nil {
					var r depend.Removed
					r, err = store.Remove(full)
					removed = []depend.Removed{r}
				}
			}
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"removed": removed})
			}
			for _, r := range removed {
				if r.Why != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "kept     %s: %s\n", depend.Short(r.Key), r.Why)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "removed  %s, %d MB\n", depend.Short(r.Key), r.Bytes>>20)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "remove this layer, whatever its content")
	cmd.Flags().IntVar(&days, "unused-days", 30, "how long a layer has not been used")
	cmd.Flags().BoolVar(&all, "all", false, "remove every layer that no run is using")
	if err := cmd.RegisterFlagCompletionFunc("key", a.layerArgs); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (a *app) envExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export KEY FILE", Short: "Write a layer into one file, for a machine without a network", Args: cobra.ExactArgs(2),
		ValidArgsFunction: a.layerArgs,
		Long: `Export writes the layer with its manifest into a zstd-compressed tar. The same layer
gives the same bytes. The file holds the packages, and nothing of this machine.`,
		Example: "  remit env export 3f2a layer.tar.zst",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			l, err := a.lookLayer(args[0])
			if err != nil {
				return err
			}
			defer l.Release()
			f, err := os.OpenFile(args[1], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				e := reason.Errorf(reason.OutputExists, "there is something already").
					WithHint("name another file, or remove this one first")
				e.File = args[1]
				return e
			}
			if err != nil {
				return reason.Errorf(reason.FileUnusable, "the layer cannot be written: %w", err)
			}
			defer func() {
				if closeErr := f.Close(); err == nil && closeErr != nil {
					err = closeErr
				}
				if err != nil {
					_ = os.Remove(args[1]) // half of a layer is none
				}
			}()
			if err := l.Export(cmd.Context(), f); err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"key": l.Key, "file": args[1]})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "layer %s is in %s\n", depend.Short(l.Key), filepath.Base(args[1]))
			return err
		},
	}
}

func (a *app) envImportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Take a layer from a file", Args: cobra.ExactArgs(1),
		Long: `Import takes a layer from a file of 'remit env export'. Every byte is compared with
the manifest in the file. The manifest itself is the word of the maker of the file:
the layer is marked as imported, here and in the evidence of each run that uses it.`,
		Example: "  remit env import layer.tar.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.layerStore()
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return reason.Errorf(reason.FileUnusable, "the layer cannot be read: %w", err)
			}
			defer f.Close()
			l, err := store.Import(cmd.Context(), f)
			if err != nil {
				return err
			}
			defer l.Release()
			if a.json {
				return printJSON(cmd.OutOrStdout(), l.Manifest)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "layer %s: %s of %s, %d package(s)\n", depend.Short(l.Key), plain(l.Recipe.Ecosystem),
				plain(l.Recipe.Dir), len(l.Deliveries))
			return err
		},
	}
}
