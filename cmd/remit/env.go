package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/harness"
	"remit/work/sandbox"
)

func (a *app) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "env", Short: "The dependencies that runs find beside the tree",
		Long: `A policy (remit.yaml) can have dependencies prepared from the lock files of the base
commit: environment: {prepare: [{ecosystem: npm}]}. They are made once, before any
agent, in a sandbox that reaches the registry and nothing else, and kept by digest
below $REMIT_HOME/environments. A run makes what is missing by itself; these commands
make it beforehand, show it, check it, and move it to a machine without a network.

docs/environments.md says how layers are made, and what is refused.`,
	}
	cmd.AddCommand(a.envBuildCommand(), a.envListCommand(), a.envShowCommand(), a.envCheckCommand(), a.envGCCommand(),
		a.envExportCommand(), a.envImportCommand(), a.envImageCommand())
	return cmd
}

func (a *app) layerStore() (*depend.Store, error) { return depend.OpenStore(a.home.EnvironmentsDir()) }

// layerArgs completes keys of layers.
func (a *app) layerArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var keys []string
	if store, err := a.layerStore(); err == nil && len(args) == 0 {
		all, _ := store.Keys() // nothing to offer otherwise
		for _, k := range all {
			keys = append(keys, depend.Short(k))
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) envBuildCommand() *cobra.Command {
	var repo, base, driver string
	var toolchains []string
	cmd := &cobra.Command{
		Use: "build", Short: "Make the layers that the policy of a commit wants", Args: cobra.NoArgs,
		Long: `Build does what a run does before its engine begins: it reads remit.yaml of the
commit, and makes the layers that the store does not have. Packages come from the
registry that the client of this machine is configured for (npm config get registry).`,
		Example: `  remit env build
  remit env build --repo ../app --base v1.2`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := sandbox.Open(cmd.Context(), a.sandboxOptions(driver, toolchains))
			if err != nil {
				return err
			}
			view := newProgress(os.Stderr)
			out, err := harness.BuildEnvironment(cmd.Context(), harness.EnvironmentBuild{Home: a.home, Repo: repo, Base: base, Sandbox: d,
				Registries: a.registries(), Tell: view.Output, Clock: time.Now})
			view.close()
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), out)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "baseline  %s\n", out.BaselineCommit)
			printLayers(cmd.OutOrStdout(), out.Environment.Layers)
			return nil
		},
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "the repository: it is only read")
	cmd.Flags().StringVar(&base, "base", "", "revision whose environment is made (default HEAD)")
	cmd.Flags().StringVar(&driver, "sandbox", "", "sandbox driver: bwrap (default)")
	chooseDriver(cmd)
	cmd.Flags().StringArrayVar(&toolchains, "toolchain", nil, "further host directory, shown read-only with its bin on PATH (repeatable)")
	return cmd
}

func printLayers(w io.Writer, layers []evidence.EnvironmentLayer) {
	for _, l := range layers {
		fmt.Fprintf(w, "layer     %s  %s of %s, %d package(s), at %s\n          content %s\n", depend.Short(l.Key), plain(l.Ecosystem),
			plain(l.Dir), l.Packages, plain(strings.Join(l.Paths, ", ")), l.ContentSHA256)
	}
}

// listedLayer is a layer in a list.
type listedLayer struct {
	Key           string   `json:"key"`
	Ecosystem     string   `json:"ecosystem"`
	Dir           string   `json:"dir"`
	Paths         []string `json:"paths"`
	ContentSHA256 string   `json:"content_sha256"`
	Packages      int      `json:"packages"`
	Bytes         int64    `json:"bytes"`
	MadeAt        string   `json:"made_at"`
	UsedAt        string   `json:"used_at"`
	Imported      bool     `json:"imported"`
	// Problem is why the layer cannot be used, "" if nothing is known against it.
	Problem string `json:"problem,omitempty"`
}

func (a *app) envListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "The layers of this machine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.layerStore()
			if err != nil {
				return err
			}
			keys, err := store.Keys()
			if err != nil {
				return err
			}
			layers := []listedLayer{}
			for _, key := range keys {
				l, err := store.Look(key)
				if err != nil {
					layers = append(layers, listedLayer{Key: key, Problem: plain(err.Error())})
					continue
				}
				layers = append(layers, listedLayer{Key: key, Ecosystem: l.Recipe.Ecosystem, Dir: l.Recipe.Dir, Paths: l.Recipe.Paths, ContentSHA256: l.ContentSHA256,
					Packages: len(l.Deliveries), Bytes: l.Bytes, MadeAt: l.MadeAt, UsedAt: store.LastUsed(key).UTC().Format(time.RFC3339),
					Imported: l.Imported})
				l.Release()
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"layers": layers})
			}
			if len(layers) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no layers: `remit env build` makes those of a repository")
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "KEY\tECOSYSTEM\tDIR\tPACKAGES\tMB\tUSED\t")
			for _, l := range layers {
				note := l.Problem
				if l.Imported {
					note = "imported"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", depend.Short(l.Key), plain(l.Ecosystem), plain(l.Dir), l.Packages,
					l.Bytes>>20, l.UsedAt, note)
			}
			return w.Flush()
		},
	}
}

func (a *app) envShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show KEY", Short: "What a layer is made of: recipe, tools, packages", Args: cobra.ExactArgs(1), ValidArgsFunction: a.layerArgs,
		Example: "  remit env show 3f2a", RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.lookLayer(args[0])
			if err != nil {
				return err
			}
			defer l.Release()
			if a.json {
				return printJSON(cmd.OutOrStdout(), l.Manifest)
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "key       %s\ncontent   %s\n          %d entries, %d bytes\necosystem %s of %s\npaths     %s\nfetch     %s\n", l.Key, l.ContentSHA256, l.Entries, l.Bytes,
				plain(l.Recipe.Ecosystem), plain(l.Recipe.Dir), plain(strings.Join(l.Recipe.Paths, ", ")), plain(strings.Join(l.Recipe.Fetch, "; ")))
			for _, c := range slices.Concat(l.Recipe.Install, l.Recipe.Build) {
				fmt.Fprintf(w, "build     %s (no network)\n", plain(c))
			}
			for _, host := range l.Recipe.Hosts {
				fmt.Fprintf(w, "tunnel    %s: the commands of the fetch saw the source, and could send some of it there\n", plain(host))
			}
			for _, in := range l.Recipe.Inputs {
				fmt.Fprintf(w, "input     %s  %s\n", in.SHA256, plain(in.Path))
			}
			for _, t := range l.Recipe.Tools {
				fmt.Fprintf(w, "tool      %s  %s\n", t.SHA256, plain(t.Name))
			}
			for _, d := range l.Deliveries {
				if len(l.Recipe.Hosts) > 0 {
					fmt.Fprintf(w, "opened    %s, %d bytes came\n", plain(d.Path), d.Bytes)
					continue
				}
				fmt.Fprintf(w, "package   %s  %s@%s\n", d.SHA256, plain(d.Name), plain(d.Version))
			}
			made := "made"
			if l.Imported {
				made = "imported from a file that was made"
			}
			_, err = fmt.Fprintf(w, "%s at %s\n", made, plain(l.MadeAt))
			return err
		},
	}
}

func (a *app) lookLayer(name string) (*depend.Layer, error) {
	store, err := a.layerStore()
	if err != nil {
		return nil, err
	}
	return store.Look(name)
}

// checkedLayer is what the check of a layer found.
type checkedLayer struct {
	Key     string      `json:"key"`
	OK      bool        `json:"ok"`
	Code    reason.Code `json:"code,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

func (a *app) envCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check [KEY...]", Short: "Compare layers with their manifests, byte by byte", ValidArgsFunction: a.layerArgs,
		Example: "  remit env check\n  remit env check 3f2a",
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.layerStore()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if args, err = store.Keys(); err != nil {
					return err
				}
			}
			checked, first := []checkedLayer{}, error(nil)
			for _, name := range args {
				key, err := checkLayer(cmd.Context(), store, name)
				c := checkedLayer{Key: key, OK: err == nil}
				if err != nil {
					if cmd.Context().Err() != nil {
						return err
					}
					c.Code, c.Problem = reason.CodeOf(err), plain(err.Error())
					if first == nil {
						first = err
					}
				}
				checked = append(checked, c)
				if !a.json {
					fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", map[bool]string{true: "ok     ", false: "CHANGED"}[c.OK], depend.Short(c.Key))
				}
			}
			if a.json {
				if err := printJSON(cmd.OutOrStdout(), map[string]any{"layers": checked}); err != nil {
					return err
				}
				if first != nil {
					return exitCode(evidence.ExitCode(string(reason.StatusOf(reason.CodeOf(first)))))
				}
			}
			return first
		},
	}
}

func checkLayer(ctx context.Context, store *depend.Store, name string) (key string, err error) {
	l, err := store.Look(name)
	if err != nil {
		return name, err
	}
	defer l.Release()
	return l.Key, l.Check(ctx)
}
