package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// TestAgentOf: a request is of the agent that its first system text names, in
// every protocol and form, and of no agent where there is none that can be read.
func TestAgentOf(t *testing.T) {
	t.Parallel()
	g := &Gateway{agentIn: func(system string) string { return strings.TrimPrefix(strings.SplitN(system, "\n", 2)[0], "# ") }}
	for name, test := range map[string]struct {
		p          Protocol
		body, want string
	}{
		"chat":               {Chat, `"messages":[{"role":"system","content":"# A\nmore"},{"role":"system","content":"# B"}]`, "A"},
		"chat, parts":        {Chat, `"messages":[{"content":[{"type":"text","text":"# A"}],"role":"developer"}]`, "A"},
		"chat, from a user":  {Chat, `"messages":[{"role":"user","content":"# A"}]`, ""},
		"chat, nothing":      {Chat, `"messages":[]`, ""},
		"responses":          {Responses, `"input":"x","instructions":"# A"`, "A"},
		"messages":           {Messages, `"messages":[],"system":"# A"`, "A"},
		"messages, parts":    {Messages, `"messages":[],"system":[{"type":"text","text":"# A"},{"type":"text","text":"# B"}]`, "A"},
		"messages, no parts": {Messages, `"messages":[],"system":[7]`, ""},
		"cut at a letter":    {Messages, `"messages":[],"system":"` + strings.Repeat("é", maxSystem) + `"`, strings.Repeat("é", maxSystem/2)},
	} {
		q, bad := inspect(test.p, fmt.Appendf(nil, `{"model":"m",%s}`, test.body), false)
		if bad != nil && name != "messages, no parts" {
			t.Fatalf("%s: %s", name, bad.message)
		}
		if got := g.agentOf(test.p, q); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
