package task

import (
	"slices"
	"testing"

	"remit/proof/reason"
)

func ptr[T any](v T) *T { return &v }

// TestNarrowAddsACommandOnce: what remit.yaml or the task has and --verify says
// again runs once. In a group with others a command sees what they leave, so that
// alone it is another one.
func TestNarrowAddsACommandOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		has    []string
		groups []int
		flags  []string
		want   []string
	}{
		"of the contract": {[]string{"make", "go vet"}, nil, []string{"go vet", "go test"}, []string{"make", "go vet", "go test"}},
		"of the flags":    {nil, nil, []string{"a", "b", "a"}, []string{"a", "b"}},
		"in a group":      {[]string{"build", "test"}, []int{2}, []string{"test", "test"}, []string{"build", "test", "test"}},
		"beside a group":  {[]string{"build", "test", "vet"}, []int{2, 1}, []string{"vet"}, []string{"build", "test", "vet"}},
	} {
		in := mustParse(t, minimal())
		in.VerificationCommands, in.VerificationGroups = c.has, c.groups
		got, err := Narrow(in, Flags{Verify: c.flags})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !slices.Equal(got.VerificationCommands, c.want) {
			t.Errorf("%s: %q, want %q", name, got.VerificationCommands, c.want)
		}
	}
}

func TestNarrowByFlags(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal("verification_commands: [make]", "budget: {max_budget_usd: 2, wall_seconds: 60}", "forbidden_paths: [src/a]"))
	before, err := c.Digest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Narrow(c, Flags{
		Allow: []string{"src/api/**", "src/x.go"}, Forbid: []string{"**/*.pem"}, Verify: []string{"go vet"}, Base: "v1", Tests: TestsProtect,
		MutationMode: ptr(CopiedFixture), ApprovalRequired: true, MaxBudgetMicroUSD: ptr(int64(1)), MaxTokens: ptr(int64(5)), WallSeconds: ptr(int64(60)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.AllowedPaths, []string{"src/api/**", "src/x.go"}) || !slices.Equal(got.ForbiddenPaths, []string{"src/a", "**/*.pem"}) ||
		!slices.Equal(got.VerificationCommands, []string{"make", "go vet"}) || got.Base != "v1" || got.Tests != TestsProtect ||
		got.MutationMode != CopiedFixture || !got.ApprovalRequired || *got.Budget.MaxBudgetMicroUSD != 1 || *got.Budget.MaxTokens != 5 ||
		*got.Budget.WallSeconds != 60 {
		t.Errorf("got %+v", got)
	}
	if after, err := c.Digest(); err != nil || after != before {
		t.Errorf("the original changed (%v)", err)
	}
}

func TestFlagsCannotWiden(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal("base: v1", "tests: protect", "mutation_mode: copied-fixture", "budget: {max_budget_usd: 2, max_tokens: 3, wall_seconds: 60}"))
	for name, flags := range map[string]Flags{
		"everything":         {Allow: []string{"**"}},
		"other directory":    {Allow: []string{"src/a", "docs/**"}},
		"the directory":      {Allow: []string{"src"}},
		"longer name":        {Allow: []string{"src2/**"}},
		"any src":            {Allow: []string{"**/src/**"}},
		"wildcard directory": {Allow: []string{"s*/**"}},
		"base":               {Base: "v2"},
		"tests":              {Tests: TestsFree},
		"mode":               {MutationMode: ptr(CopiedRepo)},
		"budget":             {MaxBudgetMicroUSD: ptr(int64(2_000_001))},
		"tokens":             {MaxTokens: ptr(int64(4))},
		"time":               {WallSeconds: ptr(int64(61))},
	} {
		if got, err := Narrow(c, flags); reason.CodeOf(err) != reason.ContractNarrowing {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for name, tc := range map[string]struct {
		flags Flags
		code  reason.Code
	}{
		"glob that leaves": {Flags{Allow: []string{"src/../.."}}, reason.ContractGlob},
		"bad deny":         {Flags{Forbid: []string{"["}}, reason.ContractGlob},
		"empty command":    {Flags{Verify: []string{""}}, reason.ContractValue},
		"tests rule":       {Flags{Tests: "none"}, reason.ContractValue},
		"no time":          {Flags{WallSeconds: ptr(int64(0))}, reason.ContractValue},
		"option as base":   {Flags{Base: "--output=x"}, reason.ContractNarrowing},
	} {
		if got, err := Narrow(c, tc.flags); reason.CodeOf(err) != tc.code {
			t.Errorf("%s: %+v, %v, want %s", name, got, err, tc.code)
		}
	}
}

// A contract of mode none allows no paths, and flags cannot bring any in.
func TestFlagsCannotAddPathsToReadOnlyContract(t *testing.T) {
	t.Parallel()
	c := mustParse(t, []byte("task_id: t\ninstructions: Look.\nmutation_mode: none\nforbidden_actions: []\n"))
	if got, err := Narrow(c, Flags{Allow: []string{"a"}}); reason.CodeOf(err) != reason.ContractNarrowing {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outer, glob string
		want        bool
	}{
		{"src/**", "src/**", true}, {"src/**", "src/", true}, {"src/", "src/**", true}, {"src/", "src/a/b", true}, {"src/**", "src/*", true},
		{"src/**", "src/**/*.go", true}, {"src/**", "src/{a,b}/c", true}, {"**", "a", true}, {"**", "*", true}, {"**/", "x/**", true},
		{"src/*.go", "src/a.go", true}, {"*/x/**", "*/x/y", true}, {"a[bc]/**", "a[bc]/d", true}, {"**/x/**", "**/x/y/**", true}, {"a", "a", true},
		{"src/**", "src", false}, {"src/**", "src2/a", false}, {"src/**", "sr*/a", false}, {"src/*.go", "src/*", false}, {"src/*.go", "src/b/a.go", false},
		{"src/*.go", "src/a.go/", false}, {"*", "**", false}, {"**/*", "**", false}, {"a", "a/", false}, {"a/b", "a/**", false}, {"*/x/**", "a*/x/y", false},
	} {
		if got := covers(tc.outer, tc.glob); got != tc.want {
			t.Errorf("covers(%q, %q) = %v", tc.outer, tc.glob, got)
		}
	}
}
