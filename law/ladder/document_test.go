package ladder

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	document = "../../docs/ladder.md"
	blockTop = "Do not edit up to the next comment. -->\n"
	blockEnd = "<!-- end -->"
)

// TestStagesDocument keeps what docs/ladder.md says of the stages equal to the
// data.
func TestStagesDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	top, rest, found := strings.Cut(string(raw), blockTop)
	block, end, closed := strings.Cut(rest, blockEnd)
	if !found || !closed {
		t.Fatalf("%s has no block of the stages", document)
	}
	want := stagesText()
	if *update && block != want {
		if err := os.WriteFile(document, []byte(top+blockTop+want+blockEnd+end), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if block != want {
		t.Errorf("%s is not what the data says; run go test ./law/ladder -update", document)
	}
}

// stagesText is the data of the stages as Markdown.
func stagesText() string {
	var b strings.Builder
	b.WriteString("| stage | name | mutation scope | mode | proof | failure classes |\n|---|---|---|---|---|---|\n")
	for _, s := range stages {
		fmt.Fprintf(&b, "| %d | %s | %s | `%s` | `%s` | `%s` |\n", s.Number, s.Name, s.MutationScope, s.Mode, ProofFile(s.Number), strings.Join(s.FailureClasses, "`, `"))
	}
	for _, s := range stages {
		fmt.Fprintf(&b, "\n**Stage %d, %s**\n\n| list | check | holds if |\n|---|---|---|\n", s.Number, s.Name)
		for _, list := range []struct {
			name   string
			checks []NamedCheck
		}{{"entry gate", s.EntryGates}, {"required artifact", s.RequiredArtifacts}, {"validator", s.Validator}, {"promotion", s.Promotion}} {
			for _, c := range list.checks {
				fmt.Fprintf(&b, "| %s | `%s` | %s |\n", list.name, c.Name, c.Means)
			}
		}
	}
	return b.String()
}
