package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"

	"remit/law/admission"
	"remit/law/eligibility"
	"remit/law/task"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/harness"
	"remit/work/keycommand"
)

// modelFlags say which model an engine may ask, and how it is reached. There is
// no flag for a key: command lines are visible to everybody on the machine.
type modelFlags struct {
	bin, provider, model, engineModel                        string
	baseURL, keyEnv, keyFile, keyCommand, caFile, pricesFile string
	local                                                    bool
}

// wellKnown are the providers whose address everybody knows.
var wellKnown = map[string]struct{ baseURL, keyEnv string }{
	"openai":    {"https://api.openai.com/v1", "OPENAI_API_KEY"},
	"anthropic": {"https://api.anthropic.com", "ANTHROPIC_API_KEY"},
}

func (f *modelFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.bin, "bin", "", "the agent's program or its package (default: what make agents installed, else PATH)")
	fl.StringVar(&f.provider, "model-provider", "", "whose model the engine asks: openai, anthropic or a name of yours")
	fl.StringVar(&f.model, "model", "", "the one model that it may ask, exactly as its admission names it")
	fl.StringVar(&f.engineModel, "engine-model", "", "how the engine calls the model, when it knows it by another name")
	fl.StringVar(&f.baseURL, "base-url", "", "address of the provider, without the protocol's path (default: the well-known one)")
	fl.StringVar(&f.keyEnv, "key-env", "", "variable that holds the provider's key (default OPENAI_API_KEY or ANTHROPIC_API_KEY)")
	fl.StringVar(&f.keyFile, "key-file", "", "file that holds the provider's key")
	fl.StringVar(&f.keyCommand, "key-command", "", "program and arguments that print the provider's key, e.g. 'pass show openai'; no shell")
	fl.StringVar(&f.caFile, "model-ca", "", "PEM file of a further authority for the provider's certificate")
	fl.StringVar(&f.pricesFile, "prices", "", "price table (YAML or JSON): PROVIDER/MODEL: {in, cache_read, cache_write, out} in dollars per million tokens")
	fl.BoolVar(&f.local, "local-model", false, "the provider is on this machine or in this network, and may need no key")
}

// route is the way to the model, nil for an engine that asks none.
func (f *modelFlags) route(e engine.Engine, home string, policy *task.Policy) (*harness.ModelRoute, error) {
	if _, asks := e.(engine.Modelled); !asks {
		if f.model != "" || f.provider != "" {
			return nil, usagef("--model and --model-provider are for engines that ask a model")
		}
		return nil, nil
	}
	if f.provider == "" || f.model == "" {
		return nil, usagef("this engine asks a model: give --model-provider and --model")
	}
	u, source, err := f.upstream()
	if err != nil {
		return nil, err
	}
	if err := policy.CheckModel(task.ModelAsk{Provider: u.Provider, Class: u.Class, BaseURL: u.BaseURL, Credential: source}); err != nil {
		return nil, err
	}
	prices, err := f.prices()
	if err != nil {
		return nil, err
	}
	result, rec := admission.ModelResult(home, f.provider, f.model)
	result = result.Through(rec, admission.Way{Class: admission.Class(u.Class), Credential: source, BaseURL: u.BaseURL})
	return &harness.ModelRoute{Upstream: u, Model: f.model, EngineModel: f.engineModel, Status: result.Status, Detail: result.Detail, Prices: prices,
		RunCommand: keycommand.Run, KeepBodies: policy != nil && policy.Model.KeepBodies}, nil
}

// upstream is the provider, and the kind of place that its key comes from.
func (f *modelFlags) upstream() (u gateway.Upstream, source string, err error) {
	known := wellKnown[f.provider]
	u = gateway.Upstream{Provider: f.provider, Class: gateway.Hosted, BaseURL: cmp.Or(f.baseURL, known.baseURL), CAFile: f.caFile,
		Credential: gateway.Credential{Env: f.keyEnv, File: f.keyFile}}
	if f.local {
		u.Class = gateway.Local
	}
	if f.keyCommand != "" {
		if u.Credential.Command, err = keycommand.Split(f.keyCommand); err != nil {
			return u, "", usagef("--key-command: %w", err)
		}
	}
	stated := f.keyEnv != "" || f.keyFile != "" || f.keyCommand != ""
	if !stated && (!f.local || os.Getenv(known.keyEnv) != "") {
		u.Credential.Env = known.keyEnv
	}
	switch c := u.Credential; {
	case len(c.Command) > 0:
		source = "command"
	case c.File != "":
		source = "file"
	case c.Env != "":
		source = "environment"
	default:
		source = "none"
	}
	return u, source, nil
}

// prices are those of the user's table; nil without one.
func (f *modelFlags) prices() (map[string]gateway.Price, error) {
	if f.pricesFile == "" {
		return nil, nil
	}
	table, err := task.LoadPrices(f.pricesFile)
	if err != nil {
		return nil, err
	}
	out := make(map[string]gateway.Price, len(table))
	for name, p := range table {
		out[name] = gateway.Price{InMicroUSDPerMTok: p.In, CacheReadMicroUSDPerMTok: p.CacheRead, CacheWriteMicroUSDPerMTok: p.CacheWrite,
			OutMicroUSDPerMTok: p.Out, CacheWriteHourMicroUSDPerMTok: p.CacheWriteHour, UpToInTokens: p.UpToInTokens}
	}
	return out, nil
}

// admissionOf is what the records and the policy say of an engine. Before
// anything of it is proved it may work on copied fixtures.
func admissionOf(ctx context.Context, e engine.Engine, name, home string, policy *task.Policy) (harness.Admission, error) {
	if !eligibility.AdmissionRequired(name) {
		return harness.Admission{}, nil
	}
	identity, err := e.Identity(ctx)
	if err != nil {
		return harness.Admission{}, err
	}
	result, _ := admission.SourceResult(home, identity)
	enabled, stated := policy.Engine(name)
	return harness.Admission{Enabled: enabled && stated, SourceStatus: result.SourceStatus(), ProvenMode: task.CopiedFixture}, nil
}
