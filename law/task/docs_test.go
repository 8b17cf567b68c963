package task

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

// page reads docs/policy.md. The tests below hold it against the code, so that
// the documentation is executed, not believed.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// table returns the rows of the table behind its marker, cells without
// backticks.
func table(t *testing.T, name string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(page(t), "<!-- table: "+name+" -->\n")
	if !ok {
		t.Fatalf("docs/policy.md has no table %q", name)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("table %q has no rows", name)
	}
	return rows[2:]
}

func bare(cell string) string { return strings.Trim(cell, "`") }

func column(rows [][]string, i int) []string {
	var cells []string
	for _, row := range rows {
		cells = append(cells, bare(row[i]))
	}
	return cells
}

func same(t *testing.T, what string, documented, real []string) {
	t.Helper()
	if !slices.Equal(documented, real) {
		t.Errorf("%s: documented\n%q\nreal\n%q", what, documented, real)
	}
}

func TestDocumentedKeysAreTheKeys(t *testing.T) {
	t.Parallel()
	var c Contract
	var real []string
	for _, k := range contractKeys(&c) {
		real = append(real, k.name)
		switch k.name {
		case "issue":
			for _, nested := range issueKeys(&Issue{}) {
				real = append(real, "issue."+nested.name)
			}
		case "limits":
			for _, nested := range limitKeys(&c.Limits) {
				real = append(real, "limits."+nested.name)
			}
		case "budget":
			for _, nested := range []string{"max_budget_usd", "max_budget_micro_usd", "max_tokens", "wall_seconds", "max_requests", "idle_seconds"} {
				real = append(real, "budget."+nested)
			}
		case "lifecycle":
			for _, nested := range lifecycleKeys(&c.Lifecycle) {
				real = append(real, "lifecycle."+nested.name)
			}
		case "verify":
			for _, nested := range verifyKeys(&c.Verify) {
				real = append(real, "verify."+nested.name)
			}
		case "held_out_tests":
			for _, nested := range []string{"path", "source", "sha256"} {
				real = append(real, "held_out_tests[]."+nested)
			}
		}
	}
	rows := table(t, "keys")
	documented := column(rows, 0)
	slices.Sort(real)
	slices.Sort(documented)
	same(t, "keys", documented, real)

	b, err := mustParse(t, minimal()).Canonical()
	if err != nil {
		t.Fatal(err)
	}
	var canonical map[string]json.RawMessage
	if err := json.Unmarshal(b, &canonical); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, known := reason.Lookup(reason.Code(bare(row[4]))); !known {
			t.Errorf("%s: code %s is not registered", row[0], row[4])
		}
		if !strings.HasPrefix(row[2], "`") {
			continue // a default in words
		}
		value := canonical[bare(row[0])]
		if group, key, nested := strings.Cut(bare(row[0]), "."); nested {
			var inner map[string]json.RawMessage
			if err := json.Unmarshal(canonical[group], &inner); err != nil {
				t.Fatal(err)
			}
			value = inner[key]
		}
		if string(value) != bare(row[2]) {
			t.Errorf("%s: documented default %s, real %s", row[0], row[2], value)
		}
	}
}

// Each key that the table calls required is missed when it is not there, with
// the documented code.
func TestDocumentedRequiredKeys(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(string(minimal()), "\n")
	checked := 0
	for _, row := range table(t, "keys") {
		name := bare(row[0])
		if row[2] != "required" || strings.Contains(name, ".") {
			continue
		}
		checked++
		rest := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.HasPrefix(line, name+":") })
		if _, err := Parse("t.yaml", []byte(strings.Join(rest, ""))); string(reason.CodeOf(err)) != bare(row[4]) {
			t.Errorf("without %s: %v, documented %s", name, err, row[4])
		}
	}
	if checked != 4 {
		t.Errorf("%d required keys documented", checked)
	}
}

func TestDocumentedLists(t *testing.T) {
	t.Parallel()
	same(t, "forbidden actions", column(table(t, "actions"), 0), DefaultForbiddenActions())
	var verify []string
	for _, c := range Controls() {
		verify = append(verify, "control "+string(c))
	}
	for _, s := range Schemes() {
		verify = append(verify, "scheme "+string(s))
	}
	for _, o := range Observes() {
		verify = append(verify, "observe "+string(o))
	}
	for _, r := range Requirements() {
		verify = append(verify, "require "+string(r))
	}
	var documentedVerify []string
	for _, row := range table(t, "verify") {
		documentedVerify = append(documentedVerify, bare(row[0])+" "+bare(row[1]))
	}
	same(t, "values of verify", documentedVerify, verify)
	same(t, "mutation modes", column(table(t, "modes"), 0), modeNames[:])
	var permissions, globs, why, policyKeys []string
	for _, p := range Permissions() {
		permissions = append(permissions, string(p))
	}
	same(t, "permissions", column(table(t, "permissions"), 0), permissions)
	for _, p := range ProtectedPaths() {
		globs, why = append(globs, p.Glob), append(why, p.Why)
	}
	same(t, "protected paths", column(table(t, "protected"), 0), globs)
	same(t, "reasons of protected paths", column(table(t, "protected"), 1), why)
	for _, k := range ruleKeys(&Contract{}) {
		policyKeys = append(policyKeys, k.name)
	}
	policyKeys = append(policyKeys, "engines", "model", "records", "instructions_from", "environment", "export")
	documented := column(table(t, "policy keys"), 0)
	slices.Sort(policyKeys)
	slices.Sort(documented)
	same(t, "policy keys", documented, policyKeys)
}

func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	for _, row := range table(t, "examples") {
		e := Envelope{AllowOps: Permissions(), AllowPaths: []string{bare(row[0])}}
		if row[1] != "–" {
			e.DenyPaths = []string{bare(row[1])}
		}
		op, name, ok := strings.Cut(row[2], " ")
		if !ok || !slices.Contains(knownOps, Op(op)) {
			t.Fatalf("example %v has no change", row)
		}
		w := WriteOp{Path: bare(name), Op: Op(op)}
		switch w.Op {
		case OpRename:
			w.OldPath = "elsewhere"
		case OpSymlink:
			w.LinkTarget = "b"
		}
		got := codes(e.Check([]WriteOp{w}))
		if got == "" {
			got = "pass"
		}
		if got != bare(row[3]) {
			t.Errorf("%s: got %s", strings.Join(row, " | "), got)
		}
	}
}

var fence = regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```")

func TestDocumentedFilesParse(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, block := range fence.FindAllStringSubmatch(page(t), -1) {
		seen[block[1]] = true
		var err error
		if block[1] == PolicyFile {
			_, err = ParsePolicy(block[1], []byte(block[2]))
		} else {
			_, err = Parse(block[1], []byte(block[2]))
		}
		if err != nil {
			t.Errorf("%s: %v", block[1], err)
		}
	}
	if !seen["task.yaml"] || !seen[PolicyFile] {
		t.Errorf("examples found: %v", seen)
	}
}
