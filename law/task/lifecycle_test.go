package task

import (
	"bytes"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestLaterFieldsKeepDigests: a contract that says nothing about what came later,
// or states its default, has the digest that it always had.
func TestLaterFieldsKeepDigests(t *testing.T) {
	t.Parallel()
	plain, err := mustParse(t, minimal()).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"lifecycle", "max_requests", "idle_seconds"} {
		if bytes.Contains(plain, []byte(word)) {
			t.Errorf("%s is in a contract that does not state it", word)
		}
	}
	for text, same := range map[string]bool{
		"lifecycle: {}": true, "lifecycle: {timeout_after_valid_patch: block}": true, "budget: {max_requests: null, idle_seconds: null}": true,
		"lifecycle: {timeout_after_valid_patch: allow}": false, "budget: {max_requests: 0}": false, "budget: {idle_seconds: 5}": false,
	} {
		c := mustParse(t, append(minimal(), text+"\n"...))
		got, err := c.Canonical()
		if err != nil || bytes.Equal(got, plain) != same {
			t.Errorf("%s: same bytes %t, %v", text, !same, err)
		}
		sameAfterRoundTrip(t, c)
	}
	for _, text := range []string{"lifecycle: {timeout_after_valid_patch: maybe}", "budget: {idle_seconds: 0}", "budget: {idle_seconds: 999999999}", "budget: {max_requests: -1}"} {
		if _, err := Parse("t.yaml", append(minimal(), text+"\n"...)); reason.CodeOf(err) != reason.ContractValue {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLifecycleNarrows: policy and flags can take the permission away and never
// give it.
func TestLifecycleNarrows(t *testing.T) {
	t.Parallel()
	const said = "lifecycle: {timeout_after_valid_patch: %}\n"
	with := func(text, rule string) string {
		if rule == "" {
			return text
		}
		return text + strings.Replace(said, "%", rule, 1)
	}
	for _, test := range []struct {
		contract, policy, flag string
		want                   bool
		code                   reason.Code
	}{
		{"", "", "", false, ""}, {"allow", "", "", true, ""}, {"allow", "allow", "", true, ""}, {"allow", "block", "", false, ""},
		{"", "allow", "", false, ""}, {"block", "allow", "", false, ""}, {"allow", "", "block", false, ""}, {"allow", "", "allow", true, ""},
		{"", "", "allow", false, reason.ContractNarrowing}, {"allow", "block", "allow", false, reason.ContractNarrowing}, {"", "", "maybe", false, reason.ContractValue},
	} {
		c := mustParse(t, []byte(with(string(minimal()), test.contract)))
		c, err := mustPolicy(t, with("tests: free\n", test.policy)).Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		c, err = Narrow(c, Flags{Lifecycle: LifecycleRule(test.flag)})
		if reason.CodeOf(err) != test.code || err == nil && c.Lifecycle.AllowsTimeout() != test.want {
			t.Errorf("%+v: %+v, %v", test, c, err)
		}
	}
	c, err := FromIssue([]byte("# T\n"), "test", mustPolicy(t, with("allowed_paths: [\"**\"]\n", "allow")))
	if err != nil || !c.Lifecycle.AllowsTimeout() {
		t.Errorf("an issue does not get the policy's rule: %v", err)
	}
}

// TestLaterLimitsNarrow: the limits on requests and silence are lowered like
// those before them.
func TestLaterLimitsNarrow(t *testing.T) {
	t.Parallel()
	three, nine := int64(3), int64(9)
	c := mustParse(t, append(minimal(), "budget: {max_requests: 5, idle_seconds: 7}\n"...))
	c, err := mustPolicy(t, "budget: {max_requests: 8, idle_seconds: 4}\n").Apply(c)
	if err != nil || *c.Budget.MaxRequests != 5 || *c.Budget.IdleSeconds != 4 {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err = Narrow(c, Flags{MaxRequests: &three, IdleSeconds: &three}); err != nil || *c.Budget.MaxRequests != 3 || *c.Budget.IdleSeconds != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err = Narrow(c, Flags{MaxRequests: &nine}); reason.CodeOf(err) != reason.ContractNarrowing {
		t.Error(err)
	}
	if _, err = Narrow(c, Flags{IdleSeconds: &nine}); reason.CodeOf(err) != reason.ContractNarrowing {
		t.Error(err)
	}
}
