package task

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
)

const vectors = "../../vectors/contract"

// minimal is a task file that allows src/**; extra lines are added to it.
func minimal(extra ...string) []byte {
	return []byte("task_id: t\ninstructions: Fix it.\nallowed_paths: [\"src/**\"]\n" +
		"forbidden_actions: [" + strings.Join(defaultForbiddenActions, ", ") + "]\n" + strings.Join(extra, "\n") + "\n")
}

func mustParse(t *testing.T, src []byte) *Contract {
	t.Helper()
	c, err := Parse("task.yaml", src)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return c
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(vectors, dir, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no vectors in %s: %v", dir, err)
	}
	return names
}

var expectation = regexp.MustCompile(`^# expect: (\S+) line=(\d+) field=(\S*)$`)

// Every invalid vector has one defect, and that defect is reported once, with
// code, line and field.
func TestInvalidVectors(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, "invalid") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(src), "\n")
			want := expectation.FindStringSubmatch(head)
			if want == nil {
				t.Fatalf("first line is no expectation: %q", head)
			}
			c, err := Parse(name, src)
			var problems Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, %v", c, err)
			}
			if len(problems) != 1 {
				t.Fatalf("%d problems, want one:\n%v", len(problems), err)
			}
			p := problems[0]
			if got := fmt.Sprintf("%s line=%d field=%s", p.Code, p.Line, p.Field); got != strings.Join([]string{want[1], "line=" + want[2], "field=" + want[3]}, " ") {
				t.Errorf("got  %s\nwant %s\n(%v)", got, head, p)
			}
			if p.File != name || p.Message == "" {
				t.Errorf("problem names file %q, message %q", p.File, p.Message)
			}
			if _, known := reason.Lookup(p.Code); !known {
				t.Errorf("code %q is not registered", p.Code)
			}
		})
	}
}

// Every valid vector parses, validates, and keeps its digest through its own
// canonical form, read as a contract.json and as a task file.
func TestValidVectors(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, "valid") {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sameAfterRoundTrip(t, mustParse(t, src))
		})
	}
}

func sameAfterRoundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *Contract) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatalf("a parsed contract does not validate: %v", err)
	}
	b, err := c.Canonical()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := canon.Check(b); err != nil {
		t.Fatalf("canonical form is not canonical: %v\n%s", err, b)
	}
	want, err := c.Digest()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for form, parse := range map[string]func(string, []byte) (*Contract, error){"yaml": Parse, "json": ParseCanonical} {
		again, err := parse("contract.json", b)
		if err != nil {
			t.Fatalf("as %s: %v\n%s", form, err, b)
		}
		if got, err := again.Digest(); err != nil || got != want {
			second, _ := again.Canonical()
			t.Fatalf("as %s: digest %s, want %s (%v)\n%s\n%s", form, got, want, err, b, second)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal("budget: {max_budget_usd: 1.50, wall_seconds: 90}"))
	got, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"allow_ops":["read","write","create","delete","rename","exec","mode_change","symlink"],"allow_submodules":false,` +
		`"allow_symlinks":false,"allowed_paths":["src/**"],"approval_required":false,"authority_basis":"local-operator","base":"HEAD",` +
		`"budget":{"max_budget_micro_usd":1500000,"max_tokens":null,"wall_seconds":90},"evidence_expectations":[],"expect_diff":true,` +
		`"forbidden_actions":["push","merge","deploy","close","pr_open","issue_close","public_publication","credential_change",` +
		`"vendor_source_mutation","authority_mutation"],"forbidden_paths":[],"held_out_tests":[],"instructions":"Fix it.","issue":null,` +
		`"limits":{"cpus_milli":0,"disk_mb":0,"memory_mb":0,"output_bytes":0,"pids":0},"mutation_mode":"copied-repo","network":"none",` +
		`"policy_bundle_id":"remit.local.default","protected_paths":[],"require_clean":true,"risk_class":"low","schema":"remit.contract.v2",` +
		`"target_repository":"","task_id":"t","tests":"extend","title":"t","verification_commands":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseCanonicalRefuses(t *testing.T) {
	t.Parallel()
	good, err := mustParse(t, minimal()).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, with string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return bytes.Replace(bytes.Clone(good), []byte(old), []byte(with), 1)
	}
	for name, tc := range map[string]struct {
		src  []byte
		code reason.Code
	}{
		"key missing":       {replace(`"expect_diff":true,`, ""), reason.NotCanonical},
		"key unknown":       {replace(`{"allow_ops"`, `{"a":1,"allow_ops"`), reason.ContractSyntax},
		"space":             {replace(`:true`, `: true`), reason.NotCanonical},
		"trailing document": {append(bytes.Clone(good), "{}"...), reason.NotCanonical},
		"duplicate key":     {replace(`"base":"HEAD"`, `"base":"x","base":"HEAD"`), reason.NotCanonical},
		"unknown mode":      {replace(`"copied-repo"`, `"anything"`), reason.ContractSyntax},
		"bad glob":          {replace(`src/**`, `../**`), reason.ContractGlob},
		"actions left out":  {replace(`"push",`, ``), reason.ContractValue},
		"negative limit":    {replace(`"pids":0`, `"pids":-1`), reason.ContractValue},
		"empty":             {nil, reason.ContractSyntax},
	} {
		if _, err := ParseCanonical("contract.json", tc.src); reason.CodeOf(err) != tc.code {
			t.Errorf("%s: got %v, want %s", name, err, tc.code)
		}
	}
}

func TestAllProblemsAtOnceInSourceOrder(t *testing.T) {
	t.Parallel()
	_, err := Parse("t.yaml", []byte("task_id: a/b\ntitel: x\nallowed_paths: [/etc, src/**, ../x]\nrisk_class: hihg\nbudget: {max_tokens: -1}\n"))
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s %s", p.Line, p.Field, p.Code))
	}
	want := []string{
		"1 task_id contract_invalid_value",
		"1 instructions contract_missing_key",
		"1 forbidden_actions contract_missing_key",
		"2 titel contract_unknown_key",
		"3 allowed_paths[0] contract_bad_glob",
		"3 allowed_paths[2] contract_bad_glob",
		"4 risk_class contract_invalid_value",
		"5 budget.max_tokens contract_invalid_value",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.IsSortedFunc(problems, func(a, b *reason.Error) int { return a.Line - b.Line }) {
		t.Errorf("not in source order:\n%v", err)
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(want) {
		t.Errorf("message has %d lines, want %d", got, len(want))
	}
	for _, p := range problems {
		if !errors.Is(err, error(p)) {
			t.Errorf("%v is not in the chain", p)
		}
	}
}

func TestHintsNameTheNearestWord(t *testing.T) {
	t.Parallel()
	for line, hint := range map[string]string{
		"alowed_paths: []":            `did you mean "allowed_paths"?`,
		"mutation_mode: copied_repo":  `did you mean "copied-repo"?`,
		"risk_class: hihg":            `did you mean "high"?`,
		"budget: {wall_secconds: 3}":  `did you mean "wall_seconds"?`,
		"tests: whatever":             "one of protect, extend, free",
		"zzz: 1":                      "one of schema, task_id",
		"limits: {memory: 3}":         `did you mean "memory_mb"?`,
		"allow_ops: [modechange]":     `did you mean "mode_change"?`,
		"allowed_paths: 3":            "",
		"verification_command: [foo]": `did you mean "verification_commands"?`,
	} {
		_, err := Parse("t.yaml", minimal(line))
		var problems Problems
		if !errors.As(err, &problems) {
			t.Fatalf("%s: %v", line, err)
		}
		if !slices.ContainsFunc(problems, func(p *reason.Error) bool { return strings.HasPrefix(p.Hint, hint) }) {
			t.Errorf("%s: hint %q, want %q", line, problems[0].Hint, hint)
		}
	}
}

// What would exhaust the parser is refused before it is parsed.
func TestHostileSources(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		src  string
		code reason.Code
	}{
		"too many bytes":  {strings.Repeat("#", MaxSourceBytes+1), reason.ContractTooLarge},
		"too many tokens": {strings.Repeat("a: 1\n", maxTokens), reason.ContractTooLarge},
		"open lists":      {strings.Repeat("[", 15_000), reason.ContractSyntax},
		"open mappings":   {strings.Repeat("{a: ", 4_000), reason.ContractSyntax},
		"dashes":          {strings.Repeat("- ", 15_000), reason.ContractSyntax},
		"colons":          {strings.Repeat("a: ", 6_000), reason.ContractSyntax},
		"colons in flow":  {"{task_id: " + strings.Repeat("a: ", 6_000) + "}", reason.ContractMissingKey},
		"question marks":  {strings.Repeat("? ", 15_000), reason.ContractSyntax},
		"anchors":         {strings.Repeat("&a ", 5_000), reason.ContractSyntax},
		"long bad list":   {string(minimal("forbidden_paths: [" + strings.Repeat("/x, ", 9_000) + "/y]")), reason.ContractValue},
		"deep blocks":     {deepBlocks(300), reason.ContractUnknownKey},
		"NUL":             {"task_id: \x00", reason.ContractSyntax},
		"UTF-16":          {"\xff\xfet\x00a\x00", reason.ContractSyntax},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse("t.yaml", []byte(tc.src)); reason.CodeOf(err) != tc.code {
				t.Errorf("got %.200v, want %s", err, tc.code)
			}
		})
	}
}

func deepBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func TestByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	src := bytes.ReplaceAll(minimal("title: x"), []byte("\n"), []byte("\r\n"))
	c := mustParse(t, append([]byte("\ufeff"), src...))
	if c.Title != "x" || c.TaskID != "t" || c.Instructions != "Fix it." {
		t.Errorf("got %+v", c)
	}
}

func TestLoadBindsHeldOutTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hidden/a_test.go", "package a")
	write("task.yaml", string(minimal("held_out_tests: [{path: src/a_test.go, source: hidden/a_test.go}]")))
	c, err := Load(filepath.Join(dir, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.HeldOutTests[0].SHA256, canon.Digest([]byte("package a")); got != want || c.Dir != dir {
		t.Errorf("digest %s, want %s; dir %s", got, want, c.Dir)
	}
	write("changed.yaml", string(minimal("held_out_tests: [{path: src/a_test.go, source: hidden/a_test.go, sha256: \""+canon.Digest([]byte("other"))+"\"}]")))
	if _, err := Load(filepath.Join(dir, "changed.yaml")); reason.CodeOf(err) != reason.ContractValue {
		t.Errorf("a changed held-out test: %v", err)
	}
	write("missing.yaml", string(minimal("held_out_tests: [{path: src/a_test.go, source: hidden/b_test.go}]")))
	if _, err := Load(filepath.Join(dir, "missing.yaml")); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Errorf("a missing held-out test: %v", err)
	}
	// A link out of the task file's directory would put a file of the host
	// before the agent's tests.
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "hidden", "link")); err != nil {
		t.Fatal(err)
	}
	write("link.yaml", string(minimal("held_out_tests: [{path: src/a_test.go, source: hidden/link}]")))
	if _, err := Load(filepath.Join(dir, "link.yaml")); reason.CodeOf(err) != reason.ContractUnreadable {
		t.Errorf("a link out of the directory: %v", err)
	}
}

func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, MaxSourceBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]reason.Code{
		"nothing": reason.ContractUnreadable, ".": reason.ContractUnreadable, "big": reason.ContractTooLarge,
	} {
		_, err := Load(filepath.Join(dir, name))
		if reason.CodeOf(err) != code {
			t.Errorf("%s: %v, want %s", name, err, code)
		}
	}
	if _, err := LoadPolicy(filepath.Join(dir, "remit.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing policy is %v, want fs.ErrNotExist in the chain", err)
	}
}

func TestParseUSDIsExact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "1": 1_000_000, "1.5": 1_500_000, "1.50": 1_500_000, "0.000001": 1, "0.1": 100_000, "0.29": 290_000,
		"1.005": 1_005_000, "9007199254.740991": maxInteger,
	} {
		if got, err := ParseUSD(in); err != nil || got != want {
			t.Errorf("ParseUSD(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "1.", ".5", "-1", "-0.5", "+1", "1e3", "1,5", "1.0000001", "1_000", "0x1", "01", "NaN", ".inf", "9007199254.740992", "99999999999999999999"} {
		if got, err := ParseUSD(in); err == nil {
			t.Errorf("ParseUSD(%q) = %d, want an error", in, got)
		}
	}
}

func TestModesAreOrderedAndNamed(t *testing.T) {
	t.Parallel()
	modes := MutationModes()
	for i, m := range modes {
		back, err := ParseMutationMode(m.String())
		if err != nil || back != m {
			t.Errorf("%s reads back as %s, %v", m, back, err)
		}
		for j, other := range modes {
			if m.Exceeds(other) != (i > j) {
				t.Errorf("%s exceeds %s: %v", m, other, m.Exceeds(other))
			}
		}
	}
	if _, err := ParseMutationMode("Copied-Repo"); err == nil {
		t.Error("mode names are exact")
	}
	for _, bad := range []MutationMode{-1, 6} {
		if _, err := bad.MarshalText(); err == nil || bad.Valid() {
			t.Errorf("%d passes as a mode", int(bad))
		}
	}
	if !RiskClass("unheard-of").NeedsApproval() || !RiskHigh.NeedsApproval() || RiskMedium.NeedsApproval() {
		t.Error("high, critical and unknown risk need approval, medium does not")
	}
	if !RiskClass("unheard-of").Exceeds(RiskCritical) {
		t.Error("an unknown risk class is the riskiest")
	}
}
