package main

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"remit/provider"
	"remit/work/harness"
	"remit/work/image"
	"remit/work/registry"
)

// environmentFlags say what a provider gets for the environments of jobs.
type environmentFlags struct {
	prepare       string
	imageHosts    []string
	privateImages bool
}

// The words of --prepare.
const (
	preparePublic = "public"
	prepareOwn    = "own"
)

const environmentHelp = `A job can bring the policy (remit.yaml) of its base commit. --prepare has this machine
make the dependency layers that it names, as 'remit run' does: with public from the
public registries, with own from those that npm, pip, go and cargo of this user are
configured for. With own, everybody whose jobs this machine takes can have every package
that these give out, also to their credentials. An image that a policy names is used if it
was pulled here, and pulled, without a credential, from the registries that
--image-registry names. Without these flags such jobs are refused.`

func (f *environmentFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.prepare, "prepare", "", "make the dependency layers of jobs: public or own, which says from which registries")
	fl.StringArrayVar(&f.imageHosts, "image-registry", nil, "HOST of a registry that images of jobs are pulled from (repeatable)")
	fl.BoolVar(&f.privateImages, "private-registry", false, "with --image-registry: allow a private address, and plain HTTP")
	_ = cmd.RegisterFlagCompletionFunc("prepare", cobra.FixedCompletions([]string{preparePublic, prepareOwn},
		cobra.ShellCompDirectiveNoFileComp))
}

// environments are what the flags come to, with the store of layers below a directory; own
// are the registries of this machine.
func (f *environmentFlags) environments(own func() harness.Registries, state string) (provider.Environments, error) {
	out := provider.Environments{ImageHosts: f.imageHosts, PrivateImages: f.privateImages}
	for _, host := range f.imageHosts {
		if err := image.CheckHost(host); err != nil {
			return out, usagef("--image-registry: %w", err)
		}
	}
	if f.privateImages && len(f.imageHosts) == 0 {
		return out, usagef("--private-registry is about the registries that --image-registry names")
	}
	// What came from the operator's own registries is not for those who are served
	// from the public ones.
	out.Dir = filepath.Join(state, "layers-"+f.prepare)
	switch f.prepare {
	case "":
	case preparePublic:
		out.Registries = publicRegistries()
	case prepareOwn:
		out.Registries = withoutTunnels(own())
	default:
		return out, usagef("--prepare is %q, must be %s or %s", f.prepare, preparePublic, prepareOwn)
	}
	return out, nil
}

// withoutTunnels has no way out for commands: those of a job are a stranger's, and the
// hosts that the operator allows are for repositories of the operator.
func withoutTunnels(from harness.Registries) harness.Registries {
	return func(ctx context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		if e == registry.Connect {
			return registry.Upstream{}, nil
		}
		return from(ctx, e)
	}
}

// publicRegistries are asked without a credential.
func publicRegistries() harness.Registries {
	return func(_ context.Context, e registry.Ecosystem) (registry.Upstream, error) {
		return throughProxies(registry.Defaults()[e]), nil
	}
}
