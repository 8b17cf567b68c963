package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

func TestModelPolicyRestricts(t *testing.T) {
	t.Parallel()
	p := mustPolicy(t, `model:
  keep_bodies: true
  providers:
    openai: {class: hosted, base_url: "https://api.openai.com/v1/", credential: environment}
    local: {}
`)
	if !p.Model.KeepBodies {
		t.Error("keep_bodies is lost")
	}
	const elsewhere = "https://stranger.example/v1"
	good := ModelAsk{"openai", "hosted", "https://api.openai.com/v1", "environment"}
	for name, test := range map[string]struct {
		change func(*ModelAsk)
		field  string // "" passes
	}{
		"as stated":         {func(*ModelAsk) {}, ""},
		"another class":     {func(a *ModelAsk) { a.Class = "local" }, "model.providers.openai.class"},
		"another address":   {func(a *ModelAsk) { a.BaseURL = elsewhere }, "model.providers.openai.base_url"},
		"a longer address":  {func(a *ModelAsk) { a.BaseURL += "/x" }, "model.providers.openai.base_url"},
		"another key":       {func(a *ModelAsk) { a.Credential = "command" }, "model.providers.openai.credential"},
		"not listed":        {func(a *ModelAsk) { a.Provider = "anthropic" }, "model.providers"},
		"nothing is stated": {func(a *ModelAsk) { *a = ModelAsk{"local", "local", elsewhere, "none"} }, ""},
	} {
		ask := good
		test.change(&ask)
		err := p.CheckModel(ask)
		e, coded := errors.AsType[*reason.Error](err)
		switch {
		case test.field == "" && err != nil, test.field != "" && (!coded || e.Field != test.field || e.Code != reason.ContractNarrowing):
			t.Errorf("%s: %v", name, err)
		case err != nil && strings.Contains(err.Error(), elsewhere):
			t.Errorf("%s: the error shows the user's address: %v", name, err)
		}
	}
	for _, any := range []*Policy{nil, {}, mustPolicy(t, "model: {keep_bodies: false}")} {
		if err := any.CheckModel(ModelAsk{Provider: "x"}); err != nil {
			t.Error(err)
		}
	}
	if err := mustPolicy(t, "model: {providers: {}}").CheckModel(good); err == nil {
		t.Error("an empty list of providers lets one through")
	}
}

// TestModelPolicyNamesNoKey: there is no way to write a key, a place where one is
// read, or a program into a repository's policy.
func TestModelPolicyNamesNoKey(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"model: {api_key: x}":                                     "contract_unknown_key 1 model.api_key",
		"model: {providers: {a: {key: x}}}":                       "contract_unknown_key 1 model.providers.a.key",
		"model: {providers: {a: {key_env: HOME}}}":                "contract_unknown_key 1 model.providers.a.key_env",
		"model: {providers: {a: {credential: HOME}}}":             "contract_invalid_value 1 model.providers.a.credential",
		"model: {providers: {a: {class: cloud}}}":                 "contract_invalid_value 1 model.providers.a.class",
		"model: {providers: {a: {base_url: 'https://u:p@h/'}}}":   "contract_invalid_value 1 model.providers.a.base_url",
		"model: {providers: {a: {base_url: 'https://h/?key=x'}}}": "contract_invalid_value 1 model.providers.a.base_url",
		"model: {providers: {a: {base_url: 'file:///etc'}}}":      "contract_invalid_value 1 model.providers.a.base_url",
		"model: {providers: {a b: {}}}":                           "contract_invalid_value 1 model.providers.a b",
		"model: {providers: [a]}":                                 "contract_wrong_type 1 model.providers",
		"model: {providers: {a: {}, a: {}}}":                      "contract_duplicate_key 1 model.providers.a",
		"model: {keep_bodies: 1}":                                 "contract_wrong_type 1 model.keep_bodies",
		"model: {prices: {}}":                                     "contract_unknown_key 1 model.prices",
	} {
		if _, err := ParsePolicy("remit.yaml", []byte(src)); !slices.Contains(problemTexts(err), want) {
			t.Errorf("%s: got %v, want %s", src, problemTexts(err), want)
		}
	}
}

// problemTexts are problems as "code line field".
func problemTexts(err error) []string {
	var problems Problems
	if !errors.As(err, &problems) {
		return []string{fmt.Sprint(err)}
	}
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s %d %s", p.Code, p.Line, p.Field))
	}
	return out
}
