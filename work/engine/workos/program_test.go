package workos

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/engine"
)

// TestProgram: only a native program is taken, and nothing is started.
func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	native := put("ca", nativeMagic+" program", 0o755)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(native, link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ bin, problem string }{
		"native":     {native, ""},
		"link":       {link, ""},
		"none named": {"", "--bin"},
		"absent":     {filepath.Join(dir, "absent"), "no such file"},
		"directory":  {dir, "no file"},
		"script":     {put("script", "#!/usr/bin/env bun\nimport './x'\n", 0o755), "no native program"},
		"empty":      {put("empty", "", 0o755), "no native program"},
		"not for us": {put("plain", nativeMagic, 0o644), "cannot be executed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, err := New(test.bin).Identity(t.Context())
			if test.problem == "" {
				digest := canon.Digest([]byte(nativeMagic + " program"))
				if err != nil || id.Name != "case" || id.SHA256 != digest || id.Version != "sha256-"+digest[7:19] {
					t.Errorf("%+v %v", id, err)
				}
				return
			}
			e, typed := errors.AsType[*reason.Error](err)
			if !typed || e.Code != reason.ProviderUnavailable || !strings.Contains(err.Error(), test.problem) || !strings.Contains(e.Hint, "build:binary") {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("the message tells how the machine is laid out: %v", err)
			}
			if _, err := New(test.bin).Invocation(t.Context(), engine.Task{}); reason.CodeOf(err) != reason.ProviderUnavailable {
				t.Errorf("an invocation all the same: %v", err)
			}
		})
	}
}

// TestInvocation: the token is in the environment alone, the same task has the
// same command line, and a repository that uses Case itself is refused.
func TestInvocation(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(file, []byte(nativeMagic), 0o755); err != nil {
		t.Fatal(err)
	}
	e := New(file)
	has := func(names ...string) func(string) bool {
		return func(name string) bool { return strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") }
	}
	task := engine.Task{Title: "add subtracts @workspace@", Instructions: "fix it", Verify: []string{"go vet ./... # twice", "go test ./..."}, InBaseline: has("go.mod", "package.json"),
		Model: &engine.Model{URL: "http://127.0.0.1:18080/", Token: "t-4711", Name: "gw-model"}}
	inv, err := e.Invocation(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if words := strings.Join(inv.Argv, "\x00"); strings.Contains(words, "t-4711") || strings.Contains(words, file) || inv.Env[tokenVariable] != "t-4711" {
		t.Errorf("%q %v", inv.Argv, inv.Env)
	}
	again, err := e.Invocation(t.Context(), task)
	if err != nil || strings.Join(again.Argv, "\x00") != strings.Join(inv.Argv, "\x00") {
		t.Errorf("another command line for the same task: %v", err)
	}
	settings := map[string]string{}
	files, err := settingsOf(task)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		settings[name] = text
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is %s", name, text)
		}
	}
	for name, words := range map[string][]string{
		"config.json":   {`"closer":{"model":"none","provider":"none"}`, `"default":{"model":"gw-model","provider":"openai"}`},
		"models.json":   {`"baseUrl":"http://127.0.0.1:18080/v1"`, `"id":"gw-model"`},
		"projects.json": {`"language":"go"`, `"test":"( go vet ./... # twice\n) \u0026\u0026 ( go test ./...\n)"`, `"path":"@workspace@"`},
		"task.json":     {`"status":"active"`, `"profile":"standard"`, `"created":"@created@"`, `"agents":{}`},
		"task.md":       {"Task: add subtracts", "fix it", "exit code 0: go test ./..."},
	} {
		for _, w := range words {
			if !strings.Contains(settings[name], w) {
				t.Errorf("%s has no %s:\n%s", name, w, settings[name])
			}
		}
	}
	task.InBaseline = has(".case")
	if _, err := e.Invocation(t.Context(), task); reason.CodeOf(err) != reason.WorkspaceConflict {
		t.Errorf("a repository with files of Case's own: %v", err)
	}
	task.InBaseline, task.Instructions = has(), strings.Repeat("x", 200<<10)
	if _, err := e.Invocation(t.Context(), task); reason.CodeOf(err) != reason.ContractValue {
		t.Errorf("endless instructions: %v", err)
	}
}

func settingsOf(task engine.Task) (map[string]string, error) {
	m := *task.Model
	m.URL = strings.TrimRight(m.URL, "/")
	list, err := settings(task, m)
	out := map[string]string{}
	for _, s := range list {
		out[s.Name] = s.Text
	}
	return out, err
}

func TestTestCommand(t *testing.T) {
	t.Parallel()
	if got := testCommand(nil); got != "true" {
		t.Errorf("%q", got)
	}
	if got := testCommand([]string{"make test"}); got != "make test" {
		t.Errorf("%q", got)
	}
}
