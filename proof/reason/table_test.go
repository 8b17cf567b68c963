//test:plain-package It only computes: there is one goroutine.

package reason

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reasons.md anew")

// constants returns the Code constants that registry.go declares, name to
// value, read from the source: the compiler cannot list them.
func constants(t *testing.T) map[string]Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "registry.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Code{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				t.Errorf("constant %s is not a Code", value.Names[0].Name)
				continue
			}
			literal, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found[value.Names[0].Name] = Code(literal)
		}
	}
	if len(found) < 100 {
		t.Fatalf("only %d constants found: the test does not read the registry", len(found))
	}
	return found
}

func TestEveryConstantHasOneEntry(t *testing.T) {
	t.Parallel()
	byValue := map[Code]string{}
	for name, code := range constants(t) {
		if other, taken := byValue[code]; taken {
			t.Errorf("%s and %s are both %q", name, other, code)
		}
		byValue[code] = name
	}
	entries := map[Code]int{}
	for _, info := range All() {
		entries[info.Code]++
		if byValue[info.Code] == "" {
			t.Errorf("entry %q has no constant", info.Code)
		}
	}
	for code, name := range byValue {
		if entries[code] != 1 {
			t.Errorf("%s (%q) has %d entries, want 1", name, code, entries[code])
		}
	}
}

func TestEntriesAreWellFormed(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	described, closed, last := map[string]Code{}, map[string]bool{}, ""
	for _, info := range All() {
		if !word.MatchString(string(info.Code)) || !word.MatchString(info.Domain) {
			t.Errorf("%s is not snake_case", info)
		}
		if info.Domain != last {
			if closed[info.Domain] {
				t.Errorf("%s: domain %s is not one group", info.Code, info.Domain)
			}
			closed[last], last = true, info.Domain
		}
		if info.Status != Fail && info.Status != Blocked {
			t.Errorf("%s has status %q", info, info.Status)
		}
		plain := strings.ReplaceAll(string(info.Code), "_", " ")
		if len(info.Description) < 20 || info.Description == plain || strings.ContainsAny(info.Description+info.Hint, "\n|") {
			t.Errorf("%s: %q is no one-line description", info, info.Description)
		}
		if other, taken := described[info.Description]; taken {
			t.Errorf("%s and %s have the same description", info.Code, other)
		}
		described[info.Description] = info.Code
	}
}

// The rows of the failure matrix are a promise to every reader of a report.
func TestFailureMatrixStatus(t *testing.T) {
	t.Parallel()
	for code, want := range map[Code]Status{
		NoDiff: Fail, DisallowedFileChange: Fail, VerificationFailed: Fail, MissingTestCommand: Blocked,
		MissingRequiredEvent: Fail, ReviewerRejected: Blocked, ApprovalDenied: Blocked, Timeout: Blocked,
		DirtyStartingTree: Blocked, DirtyEndingTree: Fail, ArtifactWriteFailure: Fail, ProviderUnavailable: Blocked,
		// Findings on a diff: the work ran and is not acceptable.
		ProtectedPath: Fail, SymlinkRefused: Fail, SubmoduleRefused: Fail, OpNotAllowed: Fail, NestedRepository: Fail,
		VerifierTampering: Fail, FlakyVerification: Fail, SecretLeak: Fail, SourceRepositoryMutated: Fail,
		InfrastructureFault: Fail, // labelled, and stays a failure
		// Gates: nothing ran.
		GateMissing: Blocked, EngineNotEnabled: Blocked, SourceNotAdmitted: Blocked, ModelNotAdmitted: Blocked, NetworkNotAllowed: Blocked,
		ModelMismatch: Blocked, TargetNotAdmitted: Blocked, ModeExceedsStage: Blocked, ApprovalMissing: Blocked,
		SandboxUnavailable: Blocked, ContractUnknownKey: Blocked, ContractMissingKey: Blocked,
		"never_heard_of": Blocked,
	} {
		if got := StatusOf(code); got != want {
			t.Errorf("%s leads to %s, want %s", code, got, want)
		}
	}
}

func TestLookupTakesBothForms(t *testing.T) {
	t.Parallel()
	for _, info := range All() {
		for _, form := range []Code{info.Code, Code(info.String())} {
			if got, ok := Lookup(form); !ok || got != info {
				t.Errorf("Lookup(%q) = %v, %v", form, got, ok)
			}
		}
		if _, ok := Lookup("elsewhere." + info.Code); ok {
			t.Errorf("%s found in a domain that it is not in", info.Code)
		}
	}
}

func TestErrorNamesPlaceFieldRuleAndCause(t *testing.T) {
	t.Parallel()
	cause := os.ErrNotExist
	e := Errorf(ContractGlob, "%q: %w", "a/../b", cause).WithHint("write %s", "a/b")
	e.File, e.Line, e.Column, e.Field = "t.yaml", 3, 5, "allowed_paths[0]"
	const want = `t.yaml:3:5: allowed_paths[0]: "a/../b": file does not exist (contract_bad_glob)`
	if e.Error() != want || e.Hint != "write a/b" || !errors.Is(e, cause) {
		t.Errorf("got %q, hint %q, cause %v", e.Error(), e.Hint, e.Unwrap())
	}
	if got := CodeOf(fmt.Errorf("reading: %w", e)); got != ContractGlob {
		t.Errorf("CodeOf = %q", got)
	}
	if got := CodeOf(cause); got != "" {
		t.Errorf("CodeOf of a foreign error = %q", got)
	}
	same, other := Errorf(NotFound, "reading: %w", Errorf(NotFound, "gone")), Errorf(Conflict, "reading: %w", Errorf(NotFound, "gone"))
	if same.Error() != "reading: gone (not_found)" || other.Error() != "reading: gone (not_found) (conflict)" {
		t.Errorf("a cause with a code: %q, %q", same, other)
	}
	f := Finding{Gate: "envelope", Code: ProtectedPath, Path: "a b", Line: 2, Detail: "why"}
	if f.String() != `envelope protected_path "a b" line 2: why` {
		t.Errorf("finding: %s", f)
	}
}

// reference renders docs/reasons.md.
func reference() []byte {
	var b bytes.Buffer
	b.WriteString(`# Reason codes

<!-- Generated from proof/reason/table.go by ` + "`go test ./proof/reason -update`" + `. Do not edit. -->

Every refusal, failure and finding carries one of these codes. The full form is ` + "`domain.code`" + `; both forms
name the same entry. Codes are only ever added, and a code that a reader does not know means blocked.

- **fail** (exit 2): it ran and the result is not acceptable.
- **blocked** (exit 3): it was not allowed to run, or could not.

One rule gives the exit code of every command. It is the status of what the command says last: of its verdict, where it has one
(run, resume, show, verify, reproduce, audit, compare, the matrix of the ladder and others that judge), or of the reason code of
its error; several errors of one file are blocked. An error without one of these codes is exit 1: a command line that is wrong
(` + "`usage`" + ` with ` + "`--json`" + `), or a fault in Remit or around it that was not foreseen (` + "`internal`" + `). Everything else is exit 0. With ` + "`--json`" + `
the document of an error has both, ` + "`error.code`" + ` and ` + "`exit_code`" + `.

A command line is wrong when its words alone say so: an unknown command or flag, a word too many or too few, a value that the flag
never has (no number, none of its words, no address). A contract or a job is held to its own rules, with their codes, also where
flags make it; and what a flag names and is not there, such as a session, a file or an engine, has a code.
`)
	domain := ""
	for _, info := range All() {
		if info.Domain != domain {
			domain = info.Domain
			fmt.Fprintf(&b, "\n## %s\n\n| code | status | what happened | what to do |\n|---|---|---|---|\n", domain)
		}
		hint := info.Hint
		if hint == "" {
			hint = "–"
		}
		if check := info.HintFor(true); check != info.Hint {
			hint += "<br>of `remit check`: " + check
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", info.Code, info.Status, info.Description, hint)
	}
	return b.Bytes()
}

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "reasons.md")
	want := reference()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/reasons.md is not what the table says; run go test ./proof/reason -update")
	}
}

// TestOperatorsAreLedOn: a refusal at the authority has a hint with the next command to
// type, except for the codes whose message alone says what is wrong.
func TestOperatorsAreLedOn(t *testing.T) {
	t.Parallel()
	said := []Code{OriginRefused, RequestInvalid, RequestTooLarge, LaneUnknown, JobInvalid, DigestMismatch, BridgeInvalid}
	for _, info := range nexusCodes {
		if (info.Hint == "") != slices.Contains(said, info.Code) {
			t.Errorf("%s has the hint %q", info.Code, info.Hint)
		}
	}
}
