package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"remit/work/engine"
	"remit/work/engine/acp"
)

// laneFlags are the flags of run for one lane, and its engine.
func (a *app) laneFlags(f *compareFlags, l *lane, args []string) (*runFlags, engine.Engine, error) {
	own, model := f.runFlags, f.model
	model.bin = f.bins[l.engine]
	if l.engine != f.commanded() {
		args = nil
	}
	if l.engine != acp.Name {
		own.acpWire = ""
	}
	if l.model == "" && len(f.only) == 0 { // else something is said of the model, and what is settled is taken whole
		var err error
		if l.settled, err = a.settle(&model, l.engine, &args, &own.acpWire); err != nil {
			return &own, nil, err
		}
	}
	own.engine, own.model = l.engine, modelFlags{bin: model.bin}
	eng, _, err := own.newEngine(args)
	if err != nil {
		return &own, nil, err
	}
	if _, asks := eng.(engine.Modelled); !asks {
		if l.model != "" {
			return &own, eng, usagef("--engines %s=%s/%s: this engine asks no model", l.engine, l.provider, l.model)
		}
		return &own, eng, nil
	}
	own.model = model
	if l.model != "" {
		own.model.provider, own.model.model = l.provider, l.model
	}
	l.provider, l.model = own.model.provider, own.model.model
	return &own, eng, f.apart(&own.model, l)
}

// apart sets the model flags that are for this lane only.
func (f *compareFlags) apart(m *modelFlags, l *lane) error {
	given, flags := *m, new(cobra.Command)
	m.add(flags) // which sets the defaults
	*m = given
	for _, text := range f.only {
		name, rest, ok := strings.Cut(text, ":")
		flag, value, valued := strings.Cut(rest, "=")
		switch {
		case !ok || name == "":
			return usagef("--for %q: not NAME:FLAG=VALUE", text)
		case slices.Contains([]string{"bin", "model", "model-provider", "preset"}, flag):
			return usagef("--for %q: an entry of --engines names the model, --bin the agent; --preset is for all", text)
		case flags.Flag(flag) == nil:
			return usagef("--for %q: %q is no flag about models", text, flag)
		case name != l.engine && name != l.provider:
			continue
		case !valued:
			value = flags.Flag(flag).NoOptDefVal // "true" of a switch
		}
		if err := flags.Flags().Set(flag, value); err != nil {
			return usagef("--for %q: %w", text, err)
		}
	}
	return nil
}

// ofOneProvider are the flags that say where a provider is and which key opens
// it.
var ofOneProvider = []string{"base-url", "key-env", "key-file", "key-command", "model-ca", "local-model", "stored-state"}

// unmixed keeps the key of one provider from the address of another: where the
// lanes ask several, such a flag has to say whose it is. A --for that no lane
// heeds is a mistake in a name.
func (f *compareFlags) unmixed(cmd *cobra.Command, asking []laneName) error {
	providers := map[string]bool{}
	for _, n := range asking {
		providers[n.provider] = true
	}
	for _, flag := range ofOneProvider {
		if len(providers) > 1 && cmd.Flags().Changed(flag) {
			return usagef("--%s is of one provider, and the lanes ask several: give each its own with --for PROVIDER:%s", flag, flag)
		}
	}
	for _, text := range f.only {
		name, rest, _ := strings.Cut(text, ":")
		if flag, _, _ := strings.Cut(rest, "="); slices.Contains(ofOneProvider, flag) && providersOf(asking, name) > 1 {
			return usagef("--for %q: --%s is of one provider, and the lanes of %s ask several: say which with --for PROVIDER:%s",
				text, flag, name, flag)
		}
		if !slices.ContainsFunc(asking, func(n laneName) bool { return name == n.engine || name == n.provider }) {
			return usagef("--for %q: no lane of the engine or provider %q asks a model", text, name)
		}
	}
	return nil
}

// providersOf is how many providers the lanes ask that a name of --for is for.
func providersOf(asking []laneName, name string) int {
	providers := map[string]bool{}
	for _, n := range asking {
		if name == n.engine || name == n.provider {
			providers[n.provider] = true
		}
	}
	return len(providers)
}

// laneValues is a flag of NAME=VALUE, given once a name.
type laneValues map[string]string

// String is the default, which there is none of.
func (laneValues) String() string { return "" }

// Type is what help calls the value.
func (laneValues) Type() string { return "NAME=PATH" }

// Set takes one.
func (v *laneValues) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return fmt.Errorf("%q is not NAME=PATH", text)
	}
	if _, twice := (*v)[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	if *v == nil {
		*v = laneValues{}
	}
	(*v)[name] = value
	return nil
}
