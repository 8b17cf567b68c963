package task

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"remit/proof/reason"
)

func TestGroupsOfCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		line      string
		want      [][]string
		canonical string
	}{
		"plain":      {`verification_commands: [a, b]`, [][]string{{"a"}, {"b"}}, ""},
		"nested":     {`verification_commands: [[a, b], [c], "d e"]`, [][]string{{"a", "b"}, {"c"}, {"d e"}}, `"verification_groups":[2,1,1]}`},
		"last":       {"verification_commands:\n- a\n- - b\n  - c", [][]string{{"a"}, {"b", "c"}}, `"verification_groups":[1,2]}`},
		"singles":    {`verification_commands: [[a], [b]]`, [][]string{{"a"}, {"b"}}, ""},
		"lengths":    {"verification_groups: [2]\nverification_commands: [a, b]", [][]string{{"a", "b"}}, `"verification_groups":[2]}`},
		"none":       {`verification_commands: []`, nil, ""},
		"first form": {"schema: remit.contract.v1\nverification_commands: [a, b]", [][]string{{"a", "b"}}, ""},
		"v1, none":   {"schema: remit.contract.v1", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustParse(t, minimal(tc.line))
			if got := c.Groups(); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("groups %q, want %q", got, tc.want)
			}
			if got, want := c.SharedView(), strings.Contains(tc.line, "contract.v1"); got != want {
				t.Errorf("shared view: %v", got)
			}
			sameAfterRoundTrip(t, c)
			b, err := c.Canonical()
			if err != nil || tc.canonical != "" && !strings.Contains(string(b), tc.canonical) || tc.canonical == "" && strings.Contains(string(b), "groups") {
				t.Errorf("canonical form %s (%v)", b, err)
			}
			more, err := Narrow(c, Flags{Verify: []string{"x"}})
			if err != nil {
				t.Fatal(err)
			}
			want := append(slices.Clone(tc.want), []string{"x"})
			if c.SharedView() {
				want = [][]string{append(slices.Concat(tc.want...), "x")}
			}
			if got := more.Groups(); !reflect.DeepEqual(got, want) {
				t.Errorf("with a flag: %q, want %q", got, want)
			}
			sameAfterRoundTrip(t, more)
		})
	}
}

func TestGroupsAreRefused(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"schema: remit.contract.v1\nverification_commands: [[a, b]]":             "contract_invalid_value 6 verification_commands",
		"schema: remit.contract.v1\nverification_commands: [[a]]":                "contract_invalid_value 6 verification_commands",
		"verification_commands: [a, []]":                                         "contract_invalid_value 5 verification_commands",
		"verification_commands: [[[a]]]":                                         "contract_wrong_type 5 verification_commands[0]",
		"verification_commands: [a, [b, 1]]":                                     "contract_wrong_type 5 verification_commands[2]",
		"verification_commands: [a,\n  [b, ' ']]":                                "contract_invalid_value 6 verification_commands[2]",
		"verification_commands: a":                                               "contract_wrong_type 5 verification_commands",
		"verification_commands: [[a, b]]\nverification_groups: [2]":              "contract_invalid_value 6 verification_groups",
		"verification_groups: [2]\nverification_commands: [[a, b]]":              "contract_invalid_value 6 verification_commands",
		"verification_commands: [a, b]\nverification_groups: [3]":                "contract_invalid_value 6 verification_groups[0]",
		"verification_commands: [a, b]\nverification_groups: [1]":                "contract_invalid_value 6 verification_groups",
		"verification_commands: [a, b]\nverification_groups: [0, 2]":             "contract_invalid_value 6 verification_groups[0]",
		"verification_commands: [a, b]\nverification_groups: [x]":                "contract_wrong_type 6 verification_groups[0]",
		"verification_commands: [a]\nverification_groups: [9000000000000000000]": "contract_invalid_value 6 verification_groups[0]",
	} {
		_, err := Parse("t.yaml", minimal(lines))
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		if got := fmt.Sprintf("%s %d %s", problems[0].Code, problems[0].Line, problems[0].Field); got != want {
			t.Errorf("%s:\ngot  %s (%v)\nwant %s", lines, got, err, want)
		}
	}
}

// The groups of a policy are those of a contract made from an issue.
func TestGroupsOfAPolicy(t *testing.T) {
	t.Parallel()
	c, err := FromIssue([]byte("# Fix it\n"), "x.md", mustPolicy(t, "allowed_paths: [a]\nverification_commands: [[npm run build, npm test], go vet]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Groups(); !reflect.DeepEqual(got, [][]string{{"npm run build", "npm test"}, {"go vet"}}) {
		t.Errorf("got %q", got)
	}
	if _, err := ParsePolicy("remit.yaml", []byte("verification_groups: [2]\n")); reason.CodeOf(err) != reason.ContractUnknownKey {
		t.Errorf("a policy takes lengths: %v", err)
	}
}

// However the commands are grouped, the groups hold them all, in order.
func TestGroupsHoldEveryCommand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := &Contract{Schema: rapid.SampledFrom([]string{Schema, SchemaV1}).Draw(t, "schema"),
			VerificationCommands: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 6).Draw(t, "commands"),
			VerificationGroups:   rapid.SliceOfN(rapid.IntRange(-1, 4), 0, 4).Draw(t, "groups")}
		if got := slices.Concat(c.Groups()...); !slices.Equal(got, c.VerificationCommands) {
			t.Fatalf("%q in groups %v is %q", c.VerificationCommands, c.VerificationGroups, got)
		}
	})
}

// A contract.json of the first form, as published sessions have it, gives back
// its own bytes; so does one of the second.
func TestBothFormsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{Schema, SchemaV1} {
		c := mustParse(t, minimal("schema: "+schema, "verification_commands: [a, b]"))
		src, err := c.Canonical()
		if err != nil || !strings.Contains(string(src), `"schema":"`+schema+`"`) {
			t.Fatalf("%s (%v)", src, err)
		}
		again, err := ParseCanonical("contract.json", src)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := again.Canonical(); err != nil || string(b) != string(src) {
			t.Errorf("%s: %s, then %s (%v)", schema, src, b, err)
		}
	}
	published := "../../vectors/evidence/valid/pass/contract.json"
	src, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	src = src[:len(src)-1]
	c, err := ParseCanonical(published, src)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := c.Canonical(); err != nil || string(b) != string(src) || !c.SharedView() {
		t.Errorf("a published contract became %s (%v)", b, err)
	}
}
