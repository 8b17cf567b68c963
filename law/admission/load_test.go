package admission

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// below are the records of a home, at the time of those that the tests make.
func below(home string) Store {
	return Store{Home: home, Now: time.Date(2026, 2, 3, 4, 5, 7, 0, time.UTC)}
}

// put writes a file below a home.
func put(t *testing.T, home, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRecordsAreFound(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	put(t, home, SourceFile("codex"), text(t, source(t, nil, Admitted)), 0o600)
	put(t, home, ModelFile("openai", "gpt-5.5"), text(t, model(t, nil, Admitted)), 0o600)
	put(t, home, sourceDir+"/.new-123", "half of a rec", 0o600)
	if res, rec := below(home).SourceResult(build); !res.Admitted() || rec == nil || res.RecordID != rec.ID {
		t.Errorf("source: %+v", res)
	}
	if res, rec := below(home).ModelResult("openai", "gpt-5.5"); !res.Admitted() || rec == nil {
		t.Errorf("model: %+v", res)
	}
	if res, rec := below(home).ModelResult("openai", "gpt-5"); res.Status != StatusMissing || rec != nil {
		t.Errorf("other model: %+v", res)
	}
	all, err := below(home).Load()
	if err != nil || len(all.Sources) != 1 || len(all.Models) != 1 || len(all.Damaged) != 0 {
		t.Errorf("all: %+v, %v", all, err)
	}
	for _, empty := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		all, err := below(empty).Load()
		rec, errRec := below(empty).Source("codex")
		if err != nil || errRec != nil || rec != nil || len(all.Sources)+len(all.Models)+len(all.Damaged) != 0 {
			t.Errorf("empty: %+v %v %v", all, err, errRec)
		}
	}
}

// A file that is there is never taken for missing.
func TestDamagedFileIsNotMissing(t *testing.T) {
	t.Parallel()
	good := text(t, source(t, nil, Admitted))
	for name, damage := range map[string]func(t *testing.T, home string){
		"empty":              func(t *testing.T, home string) { put(t, home, SourceFile("codex"), "", 0o600) },
		"other can write it": func(t *testing.T, home string) { put(t, home, SourceFile("codex"), good, 0o666) },
		"group can write it": func(t *testing.T, home string) { put(t, home, SourceFile("codex"), good, 0o620) },
		"directory":          func(t *testing.T, home string) { put(t, home, SourceFile("codex")+"/x", good, 0o600) },
		"kind is a file":     func(t *testing.T, home string) { put(t, home, sourceDir, good, 0o600) },
		"link to a record":   func(t *testing.T, home string) { link(t, home, put(t, t.TempDir(), "codex.json", good, 0o600)) },
		"link to nothing":    func(t *testing.T, home string) { link(t, home, "nowhere") },
		"another kind's text": func(t *testing.T, home string) {
			put(t, home, SourceFile("codex"), text(t, model(t, nil, Admitted)), 0o600)
		},
		"kind leads outside": func(t *testing.T, home string) {
			outside := t.TempDir()
			put(t, outside, "codex.json", good, 0o600)
			if err := errors.Join(os.MkdirAll(filepath.Join(home, Dir), 0o700), os.Symlink(outside, filepath.Join(home, sourceDir))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			damage(t, home)
			rec, err := below(home).Source("codex")
			if rec != nil || reason.CodeOf(err) != reason.InvalidAdmission || !strings.HasPrefix(err.Error(), filepath.Join(home, Dir, "source", "codex.json")+":") {
				t.Errorf("got %+v, %v", rec, err)
			}
			if res, _ := below(home).SourceResult(build); res.Status != StatusInvalid || res.Code != reason.SourceNotAdmitted {
				t.Errorf("result %+v", res)
			}
		})
	}
	home := t.TempDir()
	file := put(t, home, ModelFile("openai", "gpt-5.5"), "{\n", 0o600)
	if res, _ := below(home).ModelResult("openai", "gpt-5.5"); res.Status != StatusInvalid || res.Code != reason.ModelNotAdmitted || !strings.Contains(res.Detail, file+":1: ") {
		t.Errorf("model: %+v", res)
	}
	if res, _ := below(home).SourceResult(build); res.Status != StatusMissing {
		t.Errorf("no source: %+v", res)
	}
}

func link(t *testing.T, home, target string) {
	t.Helper()
	file := filepath.Join(home, filepath.FromSlash(SourceFile("codex")))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.Symlink(target, file)); err != nil {
		t.Fatal(err)
	}
}

// A record in the place of another is about another pair: stale, and damaged in
// a listing, where the others still show.
func TestRecordInAnotherPlace(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	put(t, home, ModelFile("openai", "gpt-6"), text(t, model(t, nil, Admitted)), 0o600)
	put(t, home, SourceFile("pi"), text(t, source(t, nil, Admitted)), 0o600)
	put(t, home, SourceFile("codex"), text(t, source(t, nil, Admitted)), 0o600)
	put(t, home, SourceFile("claude"), "{}\n", 0o600)
	if res, _ := below(home).ModelResult("openai", "gpt-6"); res.Status != StatusMismatch || !res.Stale || res.Code != reason.ModelMismatch {
		t.Errorf("model: %+v", res)
	}
	id := build
	id.Name = "pi"
	if res, _ := below(home).SourceResult(id); res.Status != StatusMismatch || !res.Stale {
		t.Errorf("source: %+v", res)
	}
	all, err := below(home).Load()
	if err != nil || len(all.Sources) != 1 || len(all.Models) != 0 || len(all.Damaged) != 3 {
		t.Errorf("all: %+v, %v", all, err)
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want string }{
		{SourceFile("codex"), "admissions/source/codex.json"},
		{ModelFile("openai", "gpt-5.5"), "admissions/model/openai+gpt-5.5.json"},
		{ModelFile("qwen-local", "qwen3.6-35b-a3b"), "admissions/model/qwen-local+qwen3.6-35b-a3b.json"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
	// Whatever a name is, the file is directly in its directory, its own, and
	// no other on a file system that folds case.
	seen := map[string]string{}
	names := []string{"a", "A", "a+b", "b", "..", ".", "", "../x", "/etc/passwd", "a/b", `a\b`, "a\x00", "é", "con.", "-x", "a b", "a.json",
		"sha256=" + strings.Repeat("0", 64), strings.Repeat("a", 80), strings.Repeat("a", 81), strings.Repeat("a", 300), "1:a", "K", "\u212a"}
	for _, a := range names {
		check := func(file, dir, subject string) {
			t.Helper()
			base := path.Base(file)
			if path.Dir(file) != dir || !filepath.IsLocal(file) || len(base) > 255 || strings.ContainsAny(base, "/\\\x00 ") {
				t.Errorf("%q has the file %q", subject, file)
			}
			if other, taken := seen[strings.ToLower(file)]; taken {
				t.Errorf("%q and %q have the file %q", subject, other, file)
			}
			seen[strings.ToLower(file)] = subject
		}
		check(SourceFile(a), sourceDir, a)
		for _, b := range names {
			check(ModelFile(a, b), modelDir, a+"\n"+b)
		}
	}
}
