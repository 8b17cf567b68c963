package remit_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// module is the import path that go.mod declares.
const module = "remit"

// A wing is a top-level directory of Go code, and the arrows that leave it.
type wing struct {
	name  string
	may   []string // wings, or packages of a wing, that it may import besides itself
	tests []string // what its _test.go files may import as well
	why   string
}

// wings lists the house from the ground floor up. A directory that is not in
// the table has no arrows at all, so a new wing is a deliberate change here.
var wings = []wing{
	{name: "proof", tests: []string{"fixtures/tally"}, why: "proof is checked offline by people who trust none of our other code"},
	{name: "law", may: []string{"proof"}, why: "law is pure functions over records: it decides, and neither acts nor asks"},
	{name: "work", may: []string{"proof", "law"}, tests: []string{"fixtures"}, why: "work executes what law allowed and must not know who ordered it"},
	{name: "nexus", may: []string{"proof", "law"}, tests: []string{"fixtures/tally"}, why: "nexus decides and never executes: a breach of the authority must not be able to start a process"},
	{name: "provider", may: []string{"proof", "law", "work", "nexus/api"}, tests: []string{"nexus", "fixtures"}, why: "a provider meets the authority through its published API only"},
	{name: "forge", may: []string{"proof", "law", "work"}, tests: []string{"fixtures"}, why: "an export reads a sealed bundle: it needs neither the authority nor a provider"},
	{name: "panel", may: []string{"proof", "law", "nexus"}, why: "the panel shows what nexus knows through its interfaces, and runs nothing"},
	{name: "cmd", may: []string{"proof", "law", "work", "nexus", "provider", "forge", "panel"}, tests: []string{"fixtures"}, why: "cmd wires the house together; nothing imports it"},
	{name: "fixtures", tests: []string{"proof", "law"}, why: "fixtures are cases for tests: they must not depend on the code that they test"},
	{name: "vectors", may: []string{"proof"}, tests: []string{"law"}, why: "vectors pin the format that proof implements"},
	{name: "examples", may: []string{"proof", "law", "work", "nexus", "provider", "forge"}, tests: []string{"fixtures"}, why: "examples show the public packages as a stranger would use them"},
	{name: "scripts", may: []string{"fixtures"}, why: "scripts drive the built program from outside"},
	{name: "", tests: []string{"fixtures/tally"}, why: "the root package is documentation and the tests of the house"},
}

// A fence keeps an import path inside the packages that have a reason for it.
// It covers the path itself and everything below it; the longest match counts.
type fence struct {
	imports string
	only    []string // directories (and below) whose code may import it
	except  bool     // turns only round: everywhere but there
	tests   bool     // _test.go files may import it anywhere
	why     string
}

// standardFences covers the parts of the standard library that reach outside
// the process. What is not listed is free.
var standardFences = []fence{
	{"os/exec", []string{"work/git", "work/sandbox", "work/engine", "work/keycommand", "cmd", "fixtures/osscase", "nexus/store/storetest", "scripts/vignette"}, false, true, "only git, sandbox, the engines and the command that the user names for a key start processes; everybody else asks them, so that confinement cannot be forgotten"},
	{"net", []string{"proof", "law"}, true, true, "proof and law work offline: an audit that needs the network proves nothing"},
	{"net/http", []string{"proof", "law"}, true, true, "proof and law work offline: an audit that needs the network proves nothing"},
	{"net/rpc", nil, false, false, "the API is HTTP with a published contract"},
	{"net/url", nil, true, true, "parsing a URL reaches nothing"},
	{"net/netip", nil, true, true, "parsing an address reaches nothing"},
	{"database/sql", []string{"nexus/store"}, false, true, "one package speaks SQL, so that one transaction per command stays true"},
	{"plugin", nil, false, false, "one static binary: no code is loaded at run time"},
	{"C", nil, false, false, "no cgo: one static binary, cross-compiled"},
	{"unsafe", []string{"work/sandbox"}, false, false, "only system calls that have no safe wrapper justify it"},
	{"encoding/gob", nil, false, false, "gob decodes by reflection and has no canonical form"},
	{"math/rand", nil, false, false, "use math/rand/v2 in tests and crypto/rand for tokens"},
	{"math/rand/v2", []string{"fixtures"}, false, true, "tokens and ids come from crypto/rand; this one is for seeded tests and their fixtures"},
	{"testing", testOnly, false, true, whyTestOnly},
}

// testOnly are the packages that exist for tests. Only tests import them, they
// each other and the project's own scripts, so that no binary has them.
var testOnly = []string{"fixtures", "nexus/store/storetest", "work/engine/agent/modeltest", "work/prove/provetest"}

const whyTestOnly = "the binary carries no test machinery"

// moduleFences names each outside module, and who may use it. A module that is
// not listed may not be used: a dependency is a decision.
var moduleFences = []fence{
	{"github.com/spf13/cobra", []string{"cmd"}, false, false, "flags and help belong to the command line"},
	{"github.com/spf13/pflag", []string{"cmd"}, false, false, "flags and help belong to the command line"},
	{"golang.org/x/term", []string{"cmd"}, false, false, "only the command line has a terminal"},
	{"github.com/bmatcuk/doublestar/v4", []string{"law"}, false, false, "one matcher for path rules, or two rooms disagree on what ** means"},
	{"github.com/goccy/go-yaml", []string{"law", "fixtures/osscase", "work/gateway/scripted", "work/detect", "work/depend"}, false, true, "YAML is how people write records; past law everything is canonical JSON. A layer reads the settings of pnpm and yarn as data. The scripts of the scripted model are written by people too, and no law reads them; detect reads the CI workflows of a repository, and writes a policy"},
	{"github.com/pelletier/go-toml/v2", []string{"work/detect", "work/depend"}, false, true, "manifests of Python and Cargo are TOML: they are read where a repository is looked at; so are the lock files of uv and Poetry, which a layer is made from"},
	{"github.com/go-json-experiment/json", []string{"proof/canon", "proof/journal", "work/gateway"}, false, true, "canonical bytes are made in canon, and line by line in the journal: nowhere else. The gateway only asks whether a body is JSON"},
	{"github.com/santhosh-tekuri/jsonschema/v6", nil, false, true, "the independent oracle for the schemas: never the implementation, its own start costs more than most commands"},
	{"github.com/gowebpki/jcs", nil, false, true, "the independent oracle for canonical JSON: never the implementation"},
	{"golang.org/x/mod/sumdb/tlog", []string{"proof/journal"}, false, true, "the tree head belongs to the journal"},
	{"golang.org/x/mod/sumdb/note", []string{"proof/journal", "proof/attest"}, false, true, "signed checkpoints belong to the journal and its attestations"},
	{"golang.org/x/mod/module", []string{"work/sandbox", "work/registry", "work/depend"}, false, true, "how a module is named in the Go module cache, in the protocol of its proxies, and in go.sum"},
	{"golang.org/x/mod/zip", nil, false, true, "the registries of tests make module archives"},
	{"golang.org/x/mod/sumdb", nil, false, true, "the registries of tests have a checksum database"},
	{"golang.org/x/mod/modfile", []string{"work/verify", "work/depend", "work/detect"}, false, true, "the verifier reads what a changed go.mod would redirect, a layer of modules what it requires, and detect which modules there are"},
	{"mvdan.cc/sh/v3/syntax", []string{"work/verify/shell", "work/verify/twin"}, false, true, "the verifier reads shell libraries that tests read into themselves, and edits tests of bats and scripts: both are a question of syntax"},
	{"golang.org/x/sys", []string{"proof/journal", "work", "provider", "cmd"}, false, true, "file locks, namespaces and process control; law and nexus have no business there"},
	{"golang.org/x/net/html", []string{"work/registry"}, false, true, "reads the pages of PyPI's simple index as data"},
	{"golang.org/x/net/bpf", []string{"work/sandbox"}, false, true, "assembles the seccomp program"},
	{"golang.org/x/text", []string{"proof/bundle", "law"}, false, true, "case folding and normalisation of names in zips and path rules"},
	{"golang.org/x/crypto", []string{"proof/attest"}, false, true, "OpenSSH keys; everything else is the standard library"},
	{"github.com/hiddeco/sshsig", []string{"proof/attest"}, false, true, "detached signatures"},
	{"github.com/google/go-containerregistry", []string{"work/image"}, false, true, "the protocol of image registries, and the user's credentials for them"},
	{"github.com/google/uuid", []string{"work", "nexus", "provider"}, false, true, "random identifiers; proof derives its ids from content"},
	{"modernc.org/sqlite", []string{"nexus/store"}, false, true, "one package speaks SQL"},
	{"github.com/jackc/pgx/v5", []string{"nexus/store"}, false, true, "one package speaks SQL"},
	{"github.com/coder/websocket", []string{"nexus/lanes", "nexus/nip01", "nexus/bridge", "nexus/api", "nexus/panel", "cmd", "scripts/vignette"}, false, true, "lanes are served by nexus and read through its client; relays of the mirror speak it too, and pages of the panel follow a run"},
	{"github.com/prometheus/client_golang", []string{"nexus/server"}, false, true, "one replica has one registry of figures: the other packages count, and server shows"},
	{"github.com/btcsuite/btcd/btcec/v2", []string{"proof/nostr"}, false, true, "Schnorr signatures belong to the form of Nostr's events"},
	{"github.com/therootcompany/xz", []string{"work/image"}, false, true, "the packages of Debian are packed with xz; this reader, unlike others, takes a bound on the memory that a stream may ask for"},
	{"github.com/klauspost/compress/zstd", []string{"work/depend", "work/image"}, false, true, "the form in which layers of dependencies and of images travel; the standard library has no zstd"},
	{"github.com/modelcontextprotocol/go-sdk/mcp", []string{"cmd"}, false, true, "the protocol by which agents and editors start runs; its tools are commands"},
	{"github.com/modelcontextprotocol/go-sdk/jsonrpc", []string{"cmd"}, false, true, "of that module: says which lines are no messages, which its transport would end with"},
	{"github.com/rogpeppe/go-internal", nil, false, true, "testscript: command line tests only"},
	{"pgregory.net/rapid", nil, false, true, "property tests only"},
	{"github.com/anishathalye/porcupine", nil, false, true, "linearisability tests only"},
	{"github.com/chromedp/chromedp", nil, false, true, "panel tests only"},
}

// starters are the packages that may start a process. The last three are for
// tests: one builds repositories, one starts a database server, one drives the
// built program.
var starters = []string{"work/git", "work/sandbox", "work/engine", "work/keycommand", "fixtures/osscase", "nexus/store/storetest", "scripts/vignette"}

const (
	whyStart = "only git, sandbox, the engines and the command for a key start processes; cmd may look a program up, not run it"
	whyClock = "proof and law know no clock but the one passed in: the same records give the same answer tomorrow"
)

// effects are functions and types that an import fence cannot see: the package
// is fine, what is taken from it is not.
var effects = []struct {
	name   string   // package path, dot, identifier
	only   []string // where it may be used, or with except where it may not
	except bool
	lifted []string // where the rule does not hold, for the reason in the comment
	why    string
}{
	{"os/exec.Command", starters, false, nil, whyStart},
	{"os/exec.CommandContext", starters, false, nil, whyStart},
	{"os/exec.Cmd", starters, false, nil, whyStart},
	{"os.StartProcess", []string{"work/sandbox"}, false, nil, whyStart},
	{"syscall.ForkExec", []string{"work/sandbox"}, false, nil, whyStart},
	{"syscall.StartProcess", []string{"work/sandbox"}, false, nil, whyStart},
	{"syscall.Exec", []string{"work/sandbox"}, false, nil, "only the helper inside the sandbox replaces itself"},
	{"golang.org/x/sys/unix.Exec", []string{"work/sandbox"}, false, nil, "only the helper inside the sandbox replaces itself"},
	// The audit holds a stopwatch to the commands that its caller asked for; no verdict depends on it.
	{"time.Now", []string{"proof", "law"}, true, []string{"proof/bundle"}, whyClock},
	{"time.Since", []string{"proof", "law"}, true, []string{"proof/bundle"}, whyClock},
	{"time.Until", []string{"proof", "law"}, true, nil, whyClock},
}

// gitStarters are the packages that may run the program git.
var gitStarters = []fence{
	{"git", []string{"work/git"}, false, true, "its environment is hardened against hostile repositories"},
	{"git", []string{"work/engine/fake"}, false, true, "the fake agent is inside the sandbox: its git is one more untrusted program"},
	{"git", []string{"fixtures/osscase"}, false, true, "builds throw-away repositories for tests"},
}

// TestLayering holds every Go file of the module against the tables above.
// Files are parsed, not built: build tags and broken packages hide nothing.
func TestLayering(t *testing.T) {
	t.Parallel()
	files := goFiles(t)
	if len(files) == 0 {
		t.Fatal("no Go files found: the test would prove nothing")
	}
	for _, f := range files {
		for _, broken := range violations(f) {
			t.Error(broken)
		}
	}
}

// TestLayeringCanFail plants one breach of each rule and expects it to be named.
func TestLayeringCanFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, imports, use string
		git                      bool
		want                     string // part of the message; "" = allowed
	}{
		{name: "proof is alone", file: "proof/journal/a.go", imports: "remit/law/task", want: "proof -> law"},
		{name: "proof within proof", file: "proof/journal/a.go", imports: "remit/proof/canon"},
		{name: "law looks down", file: "law/task/a.go", imports: "remit/proof/canon"},
		{name: "law does not act", file: "law/task/a.go", imports: "remit/work/git", want: "law -> work"},
		{name: "work looks down", file: "work/harness/a.go", imports: "remit/law/task"},
		{name: "work ignores the authority", file: "work/harness/a.go", imports: "remit/nexus/jobs", want: "work -> nexus"},
		{name: "nexus never executes", file: "nexus/jobs/a.go", imports: "remit/work/sandbox", want: "never executes"},
		{name: "nexus never executes, in tests too", file: "nexus/jobs/a_test.go", imports: "remit/work/sandbox", want: "never executes"},
		{name: "provider uses the API", file: "provider/a.go", imports: "remit/nexus/api"},
		{name: "provider sees no store", file: "provider/a.go", imports: "remit/nexus/store", want: "published API"},
		{name: "panel runs nothing", file: "panel/a.go", imports: "remit/work/harness", want: "panel -> work"},
		{name: "cmd wires", file: "cmd/remit/a.go", imports: "remit/work/harness"},
		{name: "nothing imports cmd", file: "work/harness/a_test.go", imports: "remit/cmd/remit", want: "work -> cmd"},
		{name: "fixtures stay in tests", file: "work/harness/a.go", imports: "remit/fixtures/osscase", want: "work -> fixtures"},
		{name: "fixtures in tests", file: "work/harness/a_test.go", imports: "remit/fixtures/osscase"},
		{name: "suites stay in tests", file: "work/engine/pi/a.go", imports: "remit/work/engine/agent/modeltest", want: "for tests"},
		{name: "suites in tests", file: "work/engine/pi/a_test.go", imports: "remit/work/engine/agent/modeltest"},
		{name: "test machinery stays in tests", file: "work/engine/pi/a.go", imports: "testing", want: "no test machinery"},
		{name: "unknown wing", file: "attic/a.go", imports: "remit/proof/canon", want: "not in the table"},
		{name: "unknown wing without imports of ours", file: "attic/a.go", imports: "fmt", want: "not in the table"},
		{name: "prefix is not a path", file: "lawless/a.go", imports: "remit/proof/canon", want: "not in the table"},
		{name: "proof starts nothing", file: "proof/bundle/a.go", imports: "os/exec", want: "os/exec"},
		{name: "workspace starts nothing", file: "work/workspace/a.go", imports: "os/exec", want: "os/exec"},
		{name: "engine starts its agent", file: "work/engine/codex/a.go", imports: "os/exec"},
		{name: "law has no network", file: "law/task/a.go", imports: "net/http", want: "net/http"},
		{name: "law parses a URL", file: "law/task/a.go", imports: "net/url"},
		{name: "cobra in cmd", file: "cmd/remit/a.go", imports: "github.com/spf13/cobra"},
		{name: "cobra elsewhere", file: "work/harness/a.go", imports: "github.com/spf13/cobra/doc", want: "cobra"},
		{name: "oracle in tests", file: "proof/canon/a_test.go", imports: "github.com/gowebpki/jcs"},
		{name: "oracle in code", file: "proof/canon/a.go", imports: "github.com/gowebpki/jcs", want: "oracle"},
		{name: "unlisted module", file: "work/harness/a.go", imports: "example.org/left/pad", want: "dependency is a decision"},
		{name: "unlisted module in a test", file: "work/harness/a_test.go", imports: "example.org/left/pad", want: "dependency is a decision"},
		{name: "unlisted part of a listed module", file: "proof/journal/a.go", imports: "golang.org/x/mod/semver", want: "dependency is a decision"},
		{name: "git started outside work/git", file: "work/engine/codex/a.go", imports: "os/exec", git: true, want: "only work/git starts git"},
		{name: "git started in work/git", file: "work/git/a.go", imports: "os/exec", git: true},
		{name: "clock in proof", file: "proof/journal/a.go", use: "time.Now", want: "no clock"},
		{name: "stopwatch of the audit", file: "proof/bundle/a.go", use: "time.Now"},
		{name: "cmd looks a program up", file: "cmd/remit/a.go", imports: "os/exec", use: "os/exec.LookPath"},
		{name: "cmd starts nothing", file: "cmd/remit/a.go", imports: "os/exec", use: "os/exec.CommandContext", want: "not run it"},
		{name: "clock in work", file: "work/harness/a.go", use: "time.Now"},
		{name: "hidden start", file: "nexus/jobs/a.go", use: "os.StartProcess", want: "os.StartProcess"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := sourceFile{path: test.file, test: strings.HasSuffix(test.file, "_test.go")}
			if test.imports != "" {
				f.imports = []importAt{{test.imports, 3}}
			}
			if test.use != "" {
				f.uses = []useAt{{test.use, 9}}
			}
			if test.git {
				f.startsGit = []int{7}
			}
			got := strings.Join(violations(f), "\n")
			if test.want == "" && got != "" {
				t.Errorf("refused: %s", got)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want a message with %q", got, test.want)
			}
		})
	}
}

// violations returns every rule that the file breaks, one message each.
func violations(f sourceFile) []string {
	dir := path.Dir(f.path)
	var out []string
	complain := func(line int, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...)))
	}
	from, known := wingOf(dir)
	if !known {
		complain(1, "directory %q is not in the table of wings: say on which floor it stands, and why", dir)
		return out
	}
	for _, imp := range f.imports {
		switch {
		case imp.path == module || strings.HasPrefix(imp.path, module+"/"):
			target := strings.TrimPrefix(strings.TrimPrefix(imp.path, module), "/")
			if !arrowAllowed(from, target, f.test) {
				to, _, _ := strings.Cut(target, "/")
				complain(imp.line, "%s -> %s (%s) is not allowed: %s", nameOf(from), to, imp.path, from.why)
			}
			if within(target, testOnly) && !f.test && from.name != "scripts" && !within(dir, testOnly) {
				complain(imp.line, "%s may not import %s, which is for tests: %s", dir, target, whyTestOnly)
			}
		case isStandard(imp.path):
			if fc, ok := fenceFor(standardFences, imp.path); ok && !fc.allows(dir, f.test) {
				complain(imp.line, "%s may not import %q: %s", dir, imp.path, fc.why)
			}
		default:
			fc, ok := fenceFor(moduleFences, imp.path)
			if !ok {
				complain(imp.line, "%q is in no row of the table: a dependency is a decision, so add it with its place and reason", imp.path)
			} else if !fc.allows(dir, f.test) {
				complain(imp.line, "%s may not import %q: %s", dir, imp.path, fc.why)
			}
		}
	}
	if f.test {
		return out
	}
	for _, c := range f.uses {
		for _, e := range effects {
			if c.name == e.name && within(dir, e.only) == e.except && !within(dir, e.lifted) {
				complain(c.line, "%s may not use %s: %s", dir, c.name, e.why)
			}
		}
	}
	for _, line := range f.startsGit {
		if !slices.ContainsFunc(gitStarters, func(g fence) bool { return g.allows(dir, f.test) }) {
			complain(line, "only work/git starts git: %s", gitStarters[0].why)
		}
	}
	return out
}

func nameOf(w wing) string {
	if w.name == "" {
		return "the root package"
	}
	return w.name
}

// wingOf finds the wing that a directory belongs to.
func wingOf(dir string) (wing, bool) {
	top, _, _ := strings.Cut(dir, "/")
	if top == "." {
		top = ""
	}
	i := slices.IndexFunc(wings, func(w wing) bool { return w.name == top })
	if i < 0 {
		return wing{}, false
	}
	return wings[i], true
}

func arrowAllowed(from wing, target string, test bool) bool {
	if within(target, []string{from.name}) || within(target, from.may) {
		return true
	}
	return test && within(target, from.tests)
}

func (f fence) allows(dir string, test bool) bool {
	return test && f.tests || within(dir, f.only) != f.except
}

// fenceFor returns the fence with the longest path that covers the import.
func fenceFor(table []fence, imported string) (fence, bool) {
	var best fence
	for _, f := range table {
		if within(imported, []string{f.imports}) && len(f.imports) > len(best.imports) {
			best = f
		}
	}
	return best, best.imports != ""
}

// within reports whether p is one of the directories or lies below one.
func within(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		return p == d || strings.HasPrefix(p, d+"/")
	})
}

// isStandard reports whether the path belongs to the standard library: only
// those have no dot in their first element.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// TestOnlyProversProve: nothing but what makes proofs asks for a run that goes
// further than is proved, so no flag, file or request can.
func TestOnlyProversProve(t *testing.T) {
	t.Parallel()
	provers := []string{"work/prove", "work/matrix"}
	found := 0
	for _, f := range goFiles(t) {
		for _, use := range f.uses {
			if f.test || use.name != "remit/law/eligibility.PurposeProof" {
				continue
			}
			if found++; !slices.Contains(provers, path.Dir(f.path)) {
				t.Errorf("%s:%d: only %v may ask for a proving run", f.path, use.line, provers)
			}
		}
	}
	if found == 0 {
		t.Error("no prover was found: the test shows nothing")
	}
}
