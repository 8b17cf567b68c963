package task

import (
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestSwitchOn: an engine is added to whatever policy there is, and not a byte of the
// rest is changed.
func TestSwitchOn(t *testing.T) {
	t.Parallel()
	const tail = "network: gateway\nbudget: {max_tokens: 7}\n"
	for name, test := range map[string]struct {
		src, want string
		code      reason.Code
	}{
		"no file":          {"", "engines:\n  codex: {enabled: true}\n" + tail, ""},
		"no engines":       {"# ours\ntests: free # why\n", "# ours\ntests: free # why\nengines:\n  codex: {enabled: true}\n" + tail, ""},
		"no last line end": {"tests: free", "tests: free\nengines:\n  codex: {enabled: true}\n" + tail, ""},
		"a block":          {"engines:\n    # the first\n    pi: {enabled: true} # ours\ntests: free\n", "engines:\n    # the first\n    codex: {enabled: true}\n    pi: {enabled: true} # ours\ntests: free\n" + tail, ""},
		"a deep block":     {"engines:\n  pi:\n    enabled: true\n", "engines:\n  codex: {enabled: true}\n  pi:\n    enabled: true\n" + tail, ""},
		"a flow":           {"engines: {pi: {enabled: true}} # ours\n", "engines: {pi: {enabled: true}, codex: {enabled: true}} # ours\n" + tail, ""},
		"a flow with ä":    {"authority_basis: 'ä'\nengines: {pi: {enabled: true}} # ä\n", "authority_basis: 'ä'\nengines: {pi: {enabled: true}, codex: {enabled: true}} # ä\n" + tail, ""},
		"a flow of lines":  {"engines: {\n  pi: {enabled: true}\n}\n", "engines: {\n  pi: {enabled: true}\n, codex: {enabled: true}}\n" + tail, ""},
		"all of it":        {"engines: {codex: {enabled: true}}\nnetwork: gateway\nbudget: {wall_seconds: 5}\n", "engines: {codex: {enabled: true}}\nnetwork: gateway\nbudget: {wall_seconds: 5}\n", ""},
		"a budget":         {"budget: {wall_seconds: 5}\n", "budget: {wall_seconds: 5}\nengines:\n  codex: {enabled: true}\nnetwork: gateway\n", ""},
		"switched off":     {"engines: {codex: {enabled: false}}\n", "", reason.EngineNotEnabled},
		"no network":       {"network: none\n", "", reason.NetworkNotAllowed},
		"no policy":        {"[1]\n", "", reason.ContractSyntax},
		"all in one":       {"{tests: free}\n", "", reason.ContractValue},
		"an end mark":      {"tests: free\n...\n", "", reason.ContractValue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := SwitchOn("remit.yaml", []byte(test.src), "codex", "{max_tokens: 7}")
			if test.code == "" && err != nil || test.code != "" && reason.CodeOf(err) != test.code && !strings.Contains(err.Error(), string(test.code)) {
				t.Fatalf("%v, want %q\n%s", err, test.code, got)
			}
			if string(got) != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if err != nil {
				return
			}
			if again, err := SwitchOn("remit.yaml", got, "codex", "{max_tokens: 9}"); err != nil || string(again) != string(got) {
				t.Errorf("again: %v\n%s", err, again)
			}
		})
	}
}
