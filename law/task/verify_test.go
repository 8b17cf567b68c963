package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/proof/reason"
)

func TestVerifyDefaults(t *testing.T) {
	t.Parallel()
	v := mustParse(t, minimal()).Verify
	if v.ControlRule() != ControlPreferred || v.SchemeRule() != SchemeHalves || v.ObserveRule() != ObserveSample || v.Requires(RequireObserved) {
		t.Errorf("got %+v", v)
	}
	for _, tc := range []struct {
		line string
		head time.Duration
		want time.Duration
	}{
		{"", 3 * time.Second, 5 * time.Second}, {"", 30 * time.Second, 30 * time.Second}, {"", time.Hour, time.Minute}, {"verify: {extra_seconds: 0}", time.Hour, 0},
		{"verify: {extra_seconds: 90}", time.Second, 90 * time.Second}, {"verify: {extra_seconds: null}", time.Hour, time.Minute},
	} {
		if got := mustParse(t, minimal(tc.line)).Verify.Extra(tc.head); got != tc.want {
			t.Errorf("%s after %s: %s, want %s", tc.line, tc.head, got, tc.want)
		}
	}
}

// A default that is stated is not a difference between two contracts.
func TestVerifyCanonical(t *testing.T) {
	t.Parallel()
	plain, err := mustParse(t, minimal()).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"verify: {}": "",
		"verify: {control: preferred, scheme: halves, observe: sample, require: []}": "",
		"verify: {control: required}":                                              `"verify":{"control":"required"}`,
		"verify: {require: [observed, observed], extra_seconds: 0}":                `"verify":{"extra_seconds":0,"require":["observed"]}`,
		"verify: {control: off, scheme: single, observe: off, extra_seconds: 600}": `"verify":{"control":"off","extra_seconds":600,"observe":"off","scheme":"single"}`,
		"schema: remit.contract.v1\nverify: {observe: all}":                        `"verify":{"observe":"all"}`,
	} {
		c := mustParse(t, minimal(line))
		got, err := c.Canonical()
		if err != nil || want == "" && string(got) != string(plain) || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s (%v)", line, got, err)
		}
		sameAfterRoundTrip(t, c)
	}
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]reason.Code{
		"verify: required":                     reason.ContractType,
		"verify: {control: always}":            reason.ContractValue,
		"verify: {control: true}":              reason.ContractType,
		"verify: {scheme: thirds}":             reason.ContractValue,
		"verify: {observe: some}":              reason.ContractValue,
		"verify: {require: observed}":          reason.ContractType,
		"verify: {require: [proved]}":          reason.ContractValue,
		"verify: {extra_seconds: 601}":         reason.ContractValue,
		"verify: {extra_seconds: -1}":          reason.ContractValue,
		"verify: {extra: 5}":                   reason.ContractUnknownKey,
		"verify: {control: off, control: off}": reason.ContractDuplicateKey,
	} {
		if _, err := Parse("t.yaml", minimal(line)); reason.CodeOf(err) != want {
			t.Errorf("task file, %s: %v, want %s", line, err, want)
		}
		if _, err := ParsePolicy("remit.yaml", []byte(line)); reason.CodeOf(err) != want {
			t.Errorf("policy, %s: %v, want %s", line, err, want)
		}
	}
}

func TestVerifyIsOnlyStrengthened(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy, contract string // what verify has; "-": no policy at all
		flags            Verify
		want             string // in the canonical form; "": the defaults
		refused          string // the field of the problem
	}{
		"nothing":                {policy: "-"},
		"policy":                 {policy: "{control: required, extra_seconds: 9}", want: `{"control":"required","extra_seconds":9}`},
		"contract":               {policy: "-", contract: "{control: required}", want: `{"control":"required"}`},
		"both":                   {policy: "{observe: all}", contract: "{require: [observed]}", want: `{"observe":"all","require":["observed"]}`},
		"policy weakens":         {policy: "{control: off, scheme: single, observe: off}", want: `{"control":"off","observe":"off","scheme":"single"}`},
		"contract takes it back": {policy: "{control: off, scheme: single}", contract: "{control: preferred, scheme: halves}"},
		"flag takes it back":     {policy: "{control: off}", flags: Verify{Control: ControlPreferred}},
		"flag":                   {policy: "-", flags: Verify{Control: ControlRequired, Observe: ObserveAll, Require: []Requirement{RequireObserved}}, want: `{"control":"required","observe":"all","require":["observed"]}`},
		"more time":              {policy: "{extra_seconds: 9}", contract: "{extra_seconds: 10}", want: `{"extra_seconds":10}`},
		"more than the default":  {policy: "-", contract: "{extra_seconds: 61}", want: `{"extra_seconds":61}`},
		"the same flag":          {policy: "{control: required}", flags: Verify{Control: ControlRequired}, want: `{"control":"required"}`},

		"contract weakens the default": {policy: "-", contract: "{control: off}", refused: "verify.control"},
		"contract weakens a policy":    {policy: "{control: required}", contract: "{control: preferred}", refused: "verify.control"},
		"a scheme":                     {policy: "{}", contract: "{scheme: single}", refused: "verify.scheme"},
		"observing":                    {policy: "{observe: all}", contract: "{observe: sample}", refused: "verify.observe"},
		"less time":                    {policy: "{extra_seconds: 9}", contract: "{extra_seconds: 8}", refused: "verify.extra_seconds"},
		"less than the default":        {policy: "-", contract: "{extra_seconds: 59}", refused: "verify.extra_seconds"},
		"no time":                      {policy: "{}", contract: "{extra_seconds: 0}", refused: "verify.extra_seconds"},
		"flag weakens the default":     {policy: "-", flags: Verify{Control: ControlOff}, refused: "--control"},
		"flag weakens a contract":      {policy: "-", contract: "{observe: all}", flags: Verify{Observe: ObserveSample}, refused: "--observe"},
		"flag weakens a scheme":        {policy: "-", flags: Verify{Scheme: SchemeSingle}, refused: "--scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := appliedVerify(t, tc.policy, tc.contract, tc.flags)
			if tc.refused != "" {
				var problems Problems
				if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Code != reason.ContractNarrowing || problems[0].Field != tc.refused || problems[0].Hint == "" {
					t.Fatalf("got %+v, %v", c, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sameAfterRoundTrip(t, c)
			b, err := c.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			if want := `"verify":` + tc.want; tc.want != "" && !strings.Contains(string(b), want) || tc.want == "" && strings.Contains(string(b), `"verify"`) {
				t.Errorf("got %s\nwant %s", b, want)
			}
		})
	}
}

// appliedVerify makes a contract from a task file under a policy and flags.
func appliedVerify(t *testing.T, policy, contract string, flags Verify) (*Contract, error) {
	t.Helper()
	var p *Policy
	if policy != "-" {
		p = mustPolicy(t, "tests: extend\nverify: "+policy+"\n")
	}
	line := ""
	if contract != "" {
		line = "verify: " + contract
	}
	c, err := p.Apply(mustParse(t, minimal(line)))
	if err != nil {
		return nil, err
	}
	return Narrow(c, Flags{Verification: flags})
}

func TestUnknownVerifyFlags(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal())
	for _, flags := range []Verify{{Control: "always"}, {Scheme: "x"}, {Observe: "ALL"}, {Require: []Requirement{"proved"}}} {
		if got, err := Narrow(c, Flags{Verification: flags}); reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%+v: %+v, %v", flags, got, err)
		}
	}
}

// What is written beside the base commit can ask for more and not for less.
func TestVerifyOfTheBaseCounts(t *testing.T) {
	t.Parallel()
	strict := mustPolicy(t, "verify: {control: required, observe: all}")
	loose := mustPolicy(t, "tests: protect\nverify: {control: off, scheme: single, require: [observed]}")
	for name, tc := range map[string]struct {
		beside, base *Policy
		want         Verify
		notes        int
	}{
		"loosened":        {loose, strict, Verify{Control: ControlRequired, Observe: ObserveAll, Require: []Requirement{RequireObserved}}, 2},
		"not in the base": {loose, nil, Verify{Require: []Requirement{RequireObserved}}, 2},
		"tightened":       {strict, loose, Verify{Control: ControlRequired, Scheme: SchemeSingle, Observe: ObserveAll, Require: []Requirement{RequireObserved}}, 0},
		"removed":         {nil, strict, Verify{Control: ControlRequired, Observe: ObserveAll}, 0},
		"the same":        {loose, loose, loose.Verify, 0},
	} {
		got := tc.beside.WithBase(tc.base)
		a, _ := (&Contract{Verify: got.Verify}).Canonical()
		b, _ := (&Contract{Verify: tc.want}).Canonical()
		if string(a) != string(b) || tc.beside != nil && got.Tests != tc.beside.Tests {
			t.Errorf("%s: %+v", name, got)
		}
		if notes := tc.beside.Overridden(tc.base); len(notes) != tc.notes {
			t.Errorf("%s: %q", name, notes)
		}
	}
	if (*Policy)(nil).WithBase(nil) != nil {
		t.Error("no policy became one")
	}
}

// Whatever is asked for, the result is not weaker than what was there, and what
// is accepted is what the result says.
func TestVerifyProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, asked := anyVerify().Draw(t, "base"), anyVerify().Draw(t, "asked")
		got := base.strengthened(asked)
		if weaker := got.weakens(base); len(weaker) > 0 {
			t.Fatalf("%+v by %+v is %+v: weaker in %v", base, asked, got, weaker)
		}
		if again := got.strengthened(asked); len(again.weakens(got)) > 0 || len(got.weakens(again)) > 0 {
			t.Fatalf("%+v twice by %+v is %+v", base, asked, again)
		}
		if len(asked.weakens(base)) == 0 && asked.Control != "" && got.ControlRule() != asked.ControlRule() {
			t.Fatalf("%+v by %+v, which is accepted, is %+v", base, asked, got)
		}
	})
}

func anyVerify() *rapid.Generator[Verify] {
	return rapid.Custom(func(t *rapid.T) Verify {
		return Verify{
			Control:      rapid.SampledFrom(append(Controls(), "")).Draw(t, "control"),
			Scheme:       rapid.SampledFrom(append(Schemes(), "")).Draw(t, "scheme"),
			Observe:      rapid.SampledFrom(append(Observes(), "")).Draw(t, "observe"),
			Require:      rapid.SampledFrom([][]Requirement{nil, {RequireObserved}}).Draw(t, "require"),
			ExtraSeconds: rapid.Ptr(rapid.Int64Range(0, MaxExtraSeconds), true).Draw(t, "extra"),
		}
	})
}
