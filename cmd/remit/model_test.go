package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/route"
	"remit/work/session"
)

// asking is an engine that asks a model and is never started here.
type asking struct{}

func (asking) Wire() string { return "chat" }
func (asking) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: "asking"}, nil
}
func (asking) Invocation(context.Context, engine.Task) (*engine.Invocation, error) { return nil, nil }

// TestRoute: the flags make the way to the model, and the policy is held against
// what they make of it, defaults included.
func TestRoute(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	prices := filepath.Join(home, "prices.yaml")
	if err := os.WriteFile(prices, []byte("acme/m: {in: 1, cache_read: 0.5, cache_write: 2, out: 3, cache_write_hour: 4, up_to_in_tokens: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := func(text string) *task.Policy {
		p, err := task.ParsePolicy("remit.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	acme := modelFlags{provider: "acme", model: "m", baseURL: "https://acme.example/v1"}
	with := func(change func(*modelFlags)) modelFlags {
		f := acme
		change(&f)
		return f
	}
	for name, test := range map[string]struct {
		flags  modelFlags
		policy *task.Policy
		key    gateway.Credential
		code   reason.Code // of the refusal; "usage" for a wrong command line
	}{
		"no key of an unknown provider": {acme, nil, gateway.Credential{}, ""},
		"a variable":                    {with(func(f *modelFlags) { f.keyEnv = "MY_KEY" }), nil, gateway.Credential{Env: "MY_KEY"}, ""},
		"a key in place of its name":    {with(func(f *modelFlags) { f.keyEnv = "sk-proj-" + strings.Repeat("aB3", 12) }), nil, gateway.Credential{}, "usage"},
		"one that could be a name":      {with(func(f *modelFlags) { f.keyEnv = "gh" + "p_aB3" + "x7Kd93mQpZt2LwVb8RnYc4HsJf6GaEuT1" }), nil, gateway.Credential{}, "usage"},
		"a command":                     {with(func(f *modelFlags) { f.keyCommand = "pass show 'a b'" }), nil, gateway.Credential{Command: []string{"pass", "show", "a b"}}, ""},
		"a command that cannot be cut":  {with(func(f *modelFlags) { f.keyCommand = "pass 'a" }), nil, gateway.Credential{}, "usage"},
		"the well-known variable":       {modelFlags{provider: "openai", model: "m"}, nil, gateway.Credential{Env: "OPENAI_API_KEY"}, ""},
		"which the policy asks for":     {modelFlags{provider: "openai", model: "m"}, policy("model: {providers: {openai: {class: hosted, credential: environment, base_url: 'https://api.openai.com/v1'}}}"), gateway.Credential{Env: "OPENAI_API_KEY"}, ""},
		"or does not":                   {modelFlags{provider: "openai", model: "m"}, policy("model: {providers: {openai: {credential: command}}}"), gateway.Credential{}, reason.ContractNarrowing},
		"another class":                 {with(func(f *modelFlags) { f.local = true }), policy("model: {providers: {acme: {class: hosted}}}"), gateway.Credential{}, reason.ContractNarrowing},
		"no such table":                 {with(func(f *modelFlags) { f.pricesFile = prices + "x" }), nil, gateway.Credential{}, reason.ContractUnreadable},
	} {
		r, err := test.flags.route(asking{}, route.Records(home, false, nil), test.policy)
		switch {
		case test.code == "" && err != nil, test.code == "usage" && (err == nil || reason.CodeOf(err) != ""), test.code != "usage" && reason.CodeOf(err) != test.code:
			t.Errorf("%s: %v", name, err)
		case err != nil && strings.Contains(err.Error(), "aB3"):
			t.Errorf("%s: the message repeats it: %v", name, err)
		case err == nil:
			c := r.Upstream.Credential
			if c.Env != test.key.Env || c.File != test.key.File || !slices.Equal(c.Command, test.key.Command) {
				t.Errorf("%s: %+v", name, c)
			}
			if r.RunCommand == nil || r.KeepBodies || r.Prices != nil || r.Status != "missing_admission" {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	f := with(func(f *modelFlags) { f.pricesFile = prices })
	r, err := f.route(asking{}, route.Records(home, false, nil), policy("model: {keep_bodies: true}"))
	want := gateway.Price{InMicroUSDPerMTok: 1e6, CacheReadMicroUSDPerMTok: 5e5, CacheWriteMicroUSDPerMTok: 2e6, OutMicroUSDPerMTok: 3e6, CacheWriteHourMicroUSDPerMTok: 4e6, UpToInTokens: 5}
	if err != nil || !r.KeepBodies || r.Prices["acme/m"] != want {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestPrintModel: the report for the terminal says how the engine was stopped,
// what the model cost, and what of that is not known.
func TestPrintModel(t *testing.T) {
	t.Parallel()
	provider, model, yes, no := "acme", "m", true, false
	for name, test := range map[string]struct {
		rep  evidence.Report
		want string
	}{
		"nothing":   {evidence.Report{}, ""},
		"known":     {evidence.Report{Usage: evidence.MeteredUsage{Requests: 2, Tokens: 30, CostMicroUSD: 1_000_042, CostKnown: &yes}}, "  model     m of acme: 2 request(s), 30 tokens, $1.000042\n"},
		"unknown":   {evidence.Report{Usage: evidence.MeteredUsage{Requests: 2, Tokens: 5, CostKnown: &no}}, "--prices"},
		"missing":   {evidence.Report{Usage: evidence.MeteredUsage{Requests: 2, CostKnown: &no}}, "what was used was not reported"},
		"in part":   {evidence.Report{Usage: evidence.MeteredUsage{Requests: 2, CostMicroUSD: 7, CostKnown: &no}}, "at least $0.000007"},
		"stopped":   {evidence.Report{Lifecycle: &evidence.Lifecycle{Stopped: evidence.StoppedIdle, AfterMS: 1500, Rule: evidence.LifecycleAllow}}, "after 1.5s, because it gave no sign of life; the contract allows"},
		"timed out": {evidence.Report{Lifecycle: &evidence.Lifecycle{Stopped: evidence.StoppedWall, Rule: evidence.LifecycleBlock}}, "its time was over; the contract does not allow"},
	} {
		test.rep.ModelProvider, test.rep.Model = &provider, &model
		var b bytes.Buffer
		if printModel(&b, &test.rep); !strings.Contains(b.String(), test.want) || test.want == "" && b.Len() > 0 {
			t.Errorf("%s: %q", name, b.String())
		}
	}
}

// TestPrintReport: a refusal has its own hint where there is one, else that of its
// code, and a run that was cut off does not say that nothing was started.
func TestPrintReport(t *testing.T) {
	t.Parallel()
	reasonText := "model_mismatch: x"
	show := func(hint string, started bool) string {
		rep := &evidence.Report{Status: "blocked", FailureReason: &reasonText, EngineProcessStarted: started,
			Blockers: []evidence.Blocker{{Code: reason.ModelMismatch, Message: "x", Hint: hint}}, NotApplicable: map[string]string{"source_repository_mutated": "y"}}
		var b bytes.Buffer
		printReport(&b, session.Session{}, rep)
		return b.String()
	}
	info, _ := reason.Lookup(reason.ModelMismatch)
	for _, test := range []struct {
		text string
		has  []string
	}{
		{show("", false), []string{"hint      " + info.Hint + "\n", "nothing was started"}},
		{show("do\x1b[31m this", true), []string{"hint      do", " this\n", "the run was cut off"}},
	} {
		for _, want := range test.has {
			if !strings.Contains(test.text, want) || strings.Contains(test.text, "\x1b") {
				t.Errorf("%q, want %q", test.text, want)
			}
		}
	}
}

// TestLimitFlags: a limit is a whole number in digits, and 0 and what is less are
// not taken for none.
func TestLimitFlags(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"-5", "007", "+7", "1h", "", "1.5", "9223372036854775808"} {
		f := new(limitFlags)
		for _, a := range []*amount{&f.wall, &f.requests} {
			if err := a.Set(text); err == nil || strings.Contains(err.Error(), "strconv") || a.value != nil {
				t.Errorf("%q: %v, %v", text, a.value, err)
			}
		}
	}
}

// TestWallIsALimit: --wall 0 allows nothing, and is no way to say that there is none.
func TestWallIsALimit(t *testing.T) {
	t.Parallel()
	f := new(limitFlags)
	var flags task.Flags
	if err := f.wall.Set("0"); err != nil {
		t.Fatal(err)
	}
	if f.flags(&flags); flags.WallSeconds == nil || *flags.WallSeconds != 0 {
		t.Errorf("%+v", flags)
	}
}
