package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"remit/proof/reason"
	"remit/work/harness"
	"remit/work/image"
	"remit/work/sandbox"
)

func (a *app) envImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "The system images that runs can have as their root",
		Long: `A policy (remit.yaml) can name an image, by its digest, that every command of a run has
as its root: environment: {image: NAME@sha256:DIGEST}. An image is pulled once, by
these commands and never by a run, checked, unpacked and kept by digest below
$REMIT_HOME/images. docs/images.md says what of an image is used, and what is refused.`,
	}
	cmd.AddCommand(a.imagePullCommand(), a.imageListCommand(), a.imageShowCommand(), a.imageSaveCommand(), a.imageGCCommand())
	return cmd
}

func (a *app) imageStore() (*image.Store, error) { return image.Open(a.home.ImagesDir()) }

// pulledImage is an image with what a policy says of it.
type pulledImage struct {
	*image.Image
	Policy string `json:"policy"`         // the value of environment.image
	Shell  bool   `json:"shell"`          // command lines run in it
	Why    string `json:"why,omitempty"`  // not
	Code   string `json:"code,omitempty"` // of that
	Bytes  int64  `json:"bytes"`          // unpacked
}

// policyName is the reference with the digest that it had.
func policyName(ref image.Reference, img *image.Image) string {
	name, _, _ := strings.Cut(ref.Text, "@")
	if ref.Kind != image.Registry {
		name = "local" // a path of this machine says nothing to another one
	}
	digest := img.Digest
	if img.Index != "" && ref.Kind == image.Registry {
		digest = img.Index // it means the same on machines of every platform
	}
	return name + "@" + digest
}

func (a *app) imagePullCommand() *cobra.Command {
	var opt image.Options
	cmd := &cobra.Command{
		Use: "pull REFERENCE", Short: "Get an image, check it, and unpack it", Args: cobra.ExactArgs(1),
		Long: `Pull gets an image from a registry (NAME:TAG, NAME@sha256:DIGEST), or from a file:
oci:DIR, oci-archive:FILE, docker-archive:FILE. It checks every digest, refuses what no
image may have, unpacks the layers that are not there yet, and prints the line for
remit.yaml. A tag is resolved the first time, and means the same from then on; --again
resolves it anew, and unpacks every layer again.

Credentials are those of docker login. They are used outside of every sandbox, and are
in no record. A registry has to have a public address and TLS; --private-registry allows
one on a private address, and plain HTTP to it.`,
		Example: `  remit env image pull docker.io/library/python:3.13-slim
  remit env image pull --private-registry registry.internal:5000/tools/ci:7
  remit env image pull oci-archive:ci.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := image.Parse(args[0])
			if err != nil {
				return err
			}
			store, err := a.imageStore()
			if err != nil {
				return err
			}
			view := newProgress(os.Stderr)
			opt.Report = view.Output
			img, err := store.Pull(cmd.Context(), ref, opt)
			view.close()
			if err != nil {
				return fmt.Errorf("pulling %s: %w", ref.Text, err)
			}
			out := pulledImage{Image: img, Policy: policyName(ref, img)}
			for _, l := range img.Layers {
				out.Bytes += l.Bytes
			}
			d, err := sandbox.Open(cmd.Context(), a.sandboxOptions("", nil))
			if err == nil {
				err = harness.CheckImage(cmd.Context(), a.home, d, img.Digest)
			}
			if out.Shell = err == nil; err != nil {
				out.Code, out.Why = string(reason.CodeOf(err)), plain(err.Error())
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), out)
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "image     %s\n          %s, %d layer(s), %d MB\n", img.Digest, img.Platform, len(img.Layers), out.Bytes>>20)
			if !out.Shell {
				fmt.Fprintf(w, "unusable  %s\n", out.Why)
			}
			_, err = fmt.Fprintf(w, "remit.yaml\n  environment:\n    image: %s\n", out.Policy)
			return err
		},
	}
	cmd.Flags().BoolVar(&opt.Private, "private-registry", false, "allow a registry on a private address, and plain HTTP")
	cmd.Flags().BoolVar(&opt.Again, "again", false, "resolve the tag anew, and unpack layers that are there")
	return cmd
}

// listedImage is an image in a list.
type listedImage struct {
	*image.Image
	Bytes  int64  `json:"bytes"` // unpacked, with the layers that others have too
	UsedAt string `json:"used_at"`
}

func (a *app) imageListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "The images of this machine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.imageStore()
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			if a.json {
				listed := []listedImage{}
				for _, img := range list {
					listed = append(listed, listedImage{img, img.Bytes(), store.LastUsed(img).UTC().Format(time.RFC3339)})
				}
				return printJSON(cmd.OutOrStdout(), map[string]any{"images": listed})
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no images: `remit env image pull REFERENCE` gets one")
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "DIGEST\tPLATFORM\tLAYERS\tMB\tPULLED\tUSED\tAS")
			for _, img := range list {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", img.Digest, plain(img.Platform), len(img.Layers), img.Bytes()>>20,
					img.PulledAt.Format("2006-01-02 15:04"), store.LastUsed(img).UTC().Format("2006-01-02 15:04"),
					plain(strings.Join(img.References, ", ")))
			}
			return w.Flush()
		},
	}
}

// imageArgs completes digests of images.
func (a *app) imageArgs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if store, err := a.imageStore(); err == nil && len(args) == 0 {
		list, _ := store.List() // nothing to offer otherwise
		for _, img := range list {
			names = append(append(names, img.Digest), img.References...)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) imageShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show DIGEST|REFERENCE", Short: "What an image is made of, and whether it is still as it was unpacked",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.imageArgs,
		Example: "  remit env image show docker.io/library/python:3.13-slim",
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.imageStore()
			if err != nil {
				return err
			}
			digest := args[0]
			if !strings.HasPrefix(digest, "sha256:") {
				ref, err := image.Parse(digest)
				if err == nil {
					digest, err = store.Resolve(ref)
				}
				if err != nil {
					return err
				}
			}
			img, err := store.Find(digest)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), img.Image)
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "image       %s\n", img.Digest)
			if img.Index != "" {
				fmt.Fprintf(w, "of index    %s\n", img.Index)
			}
			fmt.Fprintf(w, "platform    %s\nuser        %s\ndirectory   %s (the workspace is used)\nentrypoint  %s (not used)\n",
				plain(img.Platform), plain(img.User), plain(img.WorkingDir), plain(strings.Join(append(img.Entrypoint, img.Cmd...), " ")))
			for _, v := range img.Env {
				fmt.Fprintf(w, "variable    %s\n", plain(v))
			}
			for _, l := range img.Layers {
				fmt.Fprintf(w, "layer       %s  %d entries, %d bytes", l.DiffID, l.Entries, l.Bytes)
				if l.Dropped > 0 {
					fmt.Fprintf(w, ", %d device(s) or FIFO(s) left out", l.Dropped)
				}
				fmt.Fprintln(w)
			}
			return nil
		},
	}
}

func (a *app) imageSaveCommand() *cobra.Command {
	var c image.Config
	cmd := &cobra.Command{
		Use: "save DIR FILE", Short: "Make an image of a directory, in one file", Args: cobra.ExactArgs(2),
		Long: `Save writes a directory with a root file system, such as debootstrap makes, into an
archive that pull reads (oci-archive:FILE), and so do podman, skopeo and registries. The
same directory gives the same digest. Everything in it belongs to root, and devices,
FIFOs and sockets are left out.`,
		Example: `  debootstrap --variant=minbase bookworm root && remit env image save root ci.tar
  remit env image save --env PATH=/opt/tool/bin:/usr/bin:/bin root ci.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			saved, err := image.Save(cmd.Context(), args[0], args[1], c)
			if err != nil {
				return err
			}
			if a.json {
				return printJSON(cmd.OutOrStdout(), saved)
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "image     %s\n          %d entries, %d MB compressed", saved.Digest, saved.Entries, saved.Bytes>>20)
			if saved.Dropped > 0 {
				fmt.Fprintf(w, ", %d device(s), FIFO(s) or socket(s) left out", saved.Dropped)
			}
			_, err = fmt.Fprintf(w, "\nnext      remit env image pull oci-archive:%s\n", plain(args[1]))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&c.Env, "env", nil, "a variable of the image, NAME=VALUE (repeatable)")
	cmd.Flags().StringVar(&c.User, "user", "", "the user of the image, as in USER in a Dockerfile")
	return cmd
}
