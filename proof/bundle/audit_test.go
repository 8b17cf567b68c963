package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"remit/proof/reason"
)

// runner plays commands: "ok", "fail N", "error", "spoil" and "print TEXT".
type runner struct{ dirs []string }

func (r *runner) Run(_ context.Context, dir, command string, stdout, stderr io.Writer) (int, error) {
	r.dirs = append(r.dirs, dir)
	verb, rest, _ := strings.Cut(command, " ")
	switch verb {
	case "ok":
	case "fail":
		var n int
		_, err := fmt.Sscan(rest, &n)
		_, _ = io.WriteString(stderr, "it failed\n")
		return n, err
	case "error":
		return 0, errors.New("the sandbox is not available")
	case "spoil": // leave by-products and lock the directory
		err := os.WriteFile(filepath.Join(dir, "__pycache__"), nil, 0o644)
		return 0, errors.Join(err, os.WriteFile(filepath.Join(dir, "RECEIPT.json"), []byte("spoiled"), 0o644),
			os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755), os.Chmod(filepath.Join(dir, "d"), 0o500))
	case "clean": // fails unless the workspace is as sealed
		_, err := os.Stat(filepath.Join(dir, "__pycache__"))
		if err == nil {
			return 1, nil
		}
	case "print":
		_, err := io.WriteString(stdout, rest)
		return 0, err
	}
	return 0, nil
}

func status(r *Report, gate string) Status {
	i := slices.IndexFunc(r.Gates, func(g GateResult) bool { return g.Name == gate })
	return r.Gates[i].Status
}

// TestGateOrder: all ten gates are reported, in the order of the design.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	want := []string{"zip.integrity", "zip.portability", "manifest.format", "manifest.hashes", "schema",
		"journal.chain", "projections", "signatures", "imports", "tests"}
	for _, path := range []string{sealed(t, session), writeTemp(t, sealedZip(t, sealed(t, session))), writeTemp(t, []byte("no zip"))} {
		var got []string
		for _, g := range auditPath(t, path, Options{Gates: passing()}).Gates {
			got = append(got, g.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// TestContentGates: what the caller's checks find decides, and a check that
// is not supplied blocks.
func TestContentGates(t *testing.T) {
	t.Parallel()
	path := writeTemp(t, sealedZip(t, sealed(t, session)))
	with := func(code reason.Code) []Gate {
		gates := passing()
		gates[1].Check = func(context.Context, fs.FS) []reason.Finding {
			return []reason.Finding{{Code: code, Detail: "x"}}
		}
		return gates
	}
	for _, tt := range []struct {
		name    string
		opt     Options
		want    Status
		journal Status
	}{
		{"all pass", Options{Gates: passing()}, Pass, Pass},
		{"none supplied", Options{}, Blocked, Blocked},
		{"one missing", Options{Gates: passing()[2:]}, Blocked, Blocked},
		{"one fails", Options{Gates: with(reason.JournalChain)}, Fail, Fail},
		{"one blocks", Options{Gates: with(reason.JournalUnfinished)}, Blocked, Blocked},
		{"an unknown code blocks", Options{Gates: with("new_code")}, Blocked, Blocked},
		{"portable on demand", Options{Profile: ProfilePortable}, Pass, Skipped},
	} {
		r := auditPath(t, path, tt.opt)
		if r.Status != tt.want || status(r, GateJournal) != tt.journal || r.ExitCode != tt.want.ExitCode() {
			t.Errorf("%s: %s (%d), want %s\n%s", tt.name, r.Status, r.ExitCode, tt.want, details(r))
		}
	}
}

// TestProfileBundleOnDemand holds portable content to the rules of a bundle.
func TestProfileBundleOnDemand(t *testing.T) {
	t.Parallel()
	v := readVector(t, vectorDir+"/ok-portable.txtar")
	r := auditBytes(t, v.zip, Options{Profile: ProfileBundle})
	if r.Status != Fail || !slices.Contains(found(r), "zip.portability zip_not_canonical") || status(r, GateSchema) != Blocked {
		t.Errorf("%s", details(r))
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	gate := passing()[0]
	for name, opt := range map[string]Options{
		"profile":         {Profile: "strict"},
		"gate name":       {Gates: []Gate{{Name: "schemas", Check: gate.Check}}},
		"own gate":        {Gates: []Gate{{Name: GateIntegrity, Check: gate.Check}}},
		"gate twice":      {Gates: []Gate{gate, gate}},
		"gate nil":        {Gates: []Gate{{Name: GateSchema}}},
		"extract to full": {Extract: dir},
	} {
		if r, err := Audit(t.Context(), dir, opt); err == nil || r != nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Audit(t.Context(), filepath.Join(dir, "absent"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := Audit(t.Context(), os.DevNull, Options{}); err == nil {
		t.Error("a device is audited")
	}
}

// TestCancelled: an audit that was stopped has no result.
func TestCancelled(t *testing.T) {
	t.Parallel()
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	dir := sealed(t, session)
	for _, path := range []string{dir, writeTemp(t, sealedZip(t, dir))} {
		if r, err := Audit(ctx, path, Options{Gates: passing()}); !errors.Is(err, why) || r != nil {
			t.Errorf("%v %v", r, err)
		}
	}
}

func TestCommandGates(t *testing.T) {
	t.Parallel()
	good := sealedZip(t, sealed(t, session))
	bad := bytes.Replace(good, []byte("# Changes"), []byte("# changes"), 1)
	for _, tt := range []struct {
		name           string
		zip            []byte
		checks, run    []string
		runner         Runner
		imports, tests Status
		want           Status
	}{
		{"not asked for", good, nil, nil, nil, Skipped, Skipped, Pass},
		{"pass", good, []string{"ok"}, []string{"ok"}, &runner{}, Pass, Pass, Pass},
		{"tests fail", good, []string{"ok"}, []string{"fail 1"}, &runner{}, Pass, Fail, Fail},
		{"no tests ran", good, nil, []string{"fail 5"}, &runner{}, Skipped, Fail, Fail},
		{"imports fail", good, []string{"fail 1", "ok"}, []string{"ok"}, &runner{}, Fail, Pass, Fail},
		{"not runnable", good, nil, []string{"error"}, &runner{}, Skipped, Blocked, Blocked},
		{"failed and not runnable", good, nil, []string{"error", "fail 1"}, &runner{}, Skipped, Fail, Fail},
		{"no runner", good, []string{"ok"}, []string{"ok"}, nil, Blocked, Blocked, Blocked},
		{"not sound", bad, []string{"ok"}, []string{"ok"}, &runner{}, Blocked, Blocked, Fail},
		{"fresh workspaces", good, []string{"spoil"}, []string{"clean"}, &runner{}, Pass, Pass, Pass},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			r := auditPath(t, writeTemp(t, tt.zip), Options{Gates: passing(), Checks: tt.checks, Run: tt.run, Runner: tt.runner, TempDir: tmp})
			if status(r, GateImports) != tt.imports || status(r, GateTests) != tt.tests || r.Status != tt.want {
				t.Errorf("%s", details(r))
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Errorf("%d workspaces are left over", len(left))
			}
			if run, ok := tt.runner.(*runner); ok && tt.imports == Blocked && len(run.dirs) > 0 {
				t.Error("a command ran from a bundle that is not sound")
			}
		})
	}
}

// TestExtract: the deliverable is what was sealed, whatever commands did, and
// it exists only when the audit passes.
func TestExtract(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	for _, path := range []string{dir, writeTemp(t, sealedZip(t, dir))} {
		target := filepath.Join(t.TempDir(), "new", "workspace")
		opt := Options{Gates: passing(), Run: []string{"spoil"}, Runner: &runner{}, Extract: target}
		if r := auditPath(t, path, opt); r.Status != Pass || !r.Extracted {
			t.Fatalf("%s", details(r))
		}
		if got, want := listing(t, target), listing(t, dir); got != want {
			t.Errorf("extracted\n%s\nwant\n%s", got, want)
		}
		if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
			t.Errorf("%d entries beside the deliverable", len(left)-1)
		}
		opt.Run, opt.Extract = []string{"fail 1"}, filepath.Join(t.TempDir(), "w")
		if r := auditPath(t, path, opt); r.Status != Fail || r.Extracted {
			t.Errorf("%s", details(r))
		}
		if _, err := os.Stat(opt.Extract); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a failed audit delivers")
		}
	}
}

// listing is every file below dir with its content.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		fmt.Fprintf(&b, "%s %q\n", name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGatesSeeTheFiles: the view of a zip and of a directory obeys io/fs, and
// shows the same.
func TestGatesSeeTheFiles(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	for _, path := range []string{dir, writeTemp(t, sealedZip(t, dir))} {
		gates := passing()
		gates[0].Check = func(_ context.Context, files fs.FS) []reason.Finding {
			if err := fstest.TestFS(files, append(keys(session), ManifestName)...); err != nil {
				t.Error(err)
			}
			text, err := fs.ReadFile(files, "report.json")
			if err != nil || string(text) != session["report.json"] {
				t.Errorf("%q %v", text, err)
			}
			return nil
		}
		auditPath(t, path, Options{Gates: gates})
	}
}

// TestGatesSeeWhatWasHashed: a file that changes between gates cannot be read.
func TestGatesSeeWhatWasHashed(t *testing.T) {
	t.Parallel()
	dir := sealed(t, session)
	path := filepath.Join(dir, "RECEIPT.json")
	gates := passing()
	gates[2].Check = func(_ context.Context, files fs.FS) []reason.Finding {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, path, []byte(strings.ToUpper(session["RECEIPT.json"])))
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if _, err := fs.ReadFile(files, "RECEIPT.json"); !errors.Is(err, errChanged) {
			t.Errorf("%v", err)
		}
		return nil
	}
	auditPath(t, dir, Options{Gates: gates})
}

// TestTooManyFiles: the limit holds for directories, full or empty.
func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	many := t.TempDir()
	empty := t.TempDir()
	for i := range 5 {
		put(t, many, fmt.Sprint(i), "x")
		if err := os.MkdirAll(filepath.Join(empty, fmt.Sprint(i), "x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{many, empty} {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := newAudit("x", Options{})
		a.lim.entries = 4
		r, err := a.directory(t.Context(), root)
		if err != nil || r.Status != Fail || !slices.Equal(found(r), []string{"zip.portability zip_too_many_entries"}) || status(r, GateHashes) != Blocked {
			t.Errorf("%v %v", err, r)
		}
		if err := root.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReportIsJSON(t *testing.T) {
	t.Parallel()
	r := auditPath(t, writeTemp(t, sealedZip(t, sealed(t, session))), Options{Gates: passing(), Run: []string{"fail 3"}, Runner: &runner{}})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back["schema"] != "remit.audit.v1" || back["path"] != "test.zip" || back["exit_code"] != 2.0 ||
		!strings.HasPrefix(fmt.Sprint(back["zip_sha256"]), "sha256:") {
		t.Errorf("%s", text)
	}
	if c := r.Commands[0]; *c.ExitCode != 3 || c.Stderr != "it failed\n" || c.StderrBytes != 10 {
		t.Errorf("%+v", c)
	}
}
