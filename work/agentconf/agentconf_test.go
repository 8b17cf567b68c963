//test:plain-package It only computes: there is one goroutine.

package agentconf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"remit/proof/reason"
)

func settled() *Agent {
	return &Agent{Engine: "codex", Bin: "/opt/codex", Version: "0.169.0", SHA256: "sha256:" + strings.Repeat("0", 64), Licence: "Apache-2.0", SetUpAt: "2026-02-01T12:00:00.000Z",
		Model: Model{Provider: "openai", Name: "gpt-5.5", KeyEnv: "OPENAI_API_KEY"}}
}

// TestKept: what is saved is read again, by name, and nothing else is.
func TestKept(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if a, err := Load(home, "codex"); a != nil || err != nil {
		t.Fatalf("%v, %v", a, err)
	}
	behind := &Agent{Engine: "acp", Command: []string{"/opt/Agent.py", "--quick"}, Wire: "chat", Model: Model{Provider: "local", Name: "m", Local: true, BaseURL: "http://127.0.0.1:1/v1"}}
	for _, a := range []*Agent{settled(), behind} {
		if err := a.Save(home); err != nil {
			t.Fatal(err)
		}
		got, err := Load(home, a.Name)
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v, %v, want %+v", got, err, a)
		}
		info, err := os.Stat(Path(home, a.Name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	all, err := All(home)
	if err != nil || len(all) != 2 || all[0].Name != "acp-agent.py" || all[1].Name != "codex" {
		t.Errorf("%v, %v", all, err)
	}
	if a, err := Load(home, "../codex"); a != nil || err != nil {
		t.Errorf("%v, %v", a, err)
	}
}

// TestRefused: a file that was touched, or that others may touch, is not believed,
// and nothing with a key in it is kept.
func TestRefused(t *testing.T) {
	t.Parallel()
	edit := func(old, with string) func(string) error {
		return func(path string) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600)
		}
	}
	for name, test := range map[string]struct {
		touch func(path string) error
		says  string
	}{
		"writable":        {func(p string) error { return os.Chmod(p, 0o622) }, "others can write it"},
		"gone":            {func(p string) error { return os.Rename(p, p+"x") }, ""},
		"another engine":  {edit(`"engine": "codex"`, `"engine": "pi"`), `it is about "codex" of engine "pi"`},
		"another name":    {edit(`"name": "codex"`, `"name": "pi"`), "it is about"},
		"an unknown key":  {edit(`"bin"`, `"binn"`), "unknown field"},
		"another schema":  {edit("agent.v1", "agent.v9"), "its schema is"},
		"no model":        {edit(`"name": "gpt-5.5"`, `"name": ""`), "names no model"},
		"something else":  {func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) }, "invalid character"},
		"much too long":   {func(p string) error { return os.WriteFile(p, make([]byte, maxBytes+1), 0o600) }, "more than"},
		"a directory":     {func(p string) error { _ = os.Remove(p); return os.Mkdir(p, 0o700) }, "no regular file"},
		"a symbolic link": {func(p string) error { _ = os.Rename(p, p+"x"); return os.Symlink(p+"x", p) }, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			a := settled()
			if err := a.Save(home); err != nil {
				t.Fatal(err)
			}
			if err := test.touch(Path(home, "codex")); err != nil {
				t.Fatal(err)
			}
			got, err := Load(home, "codex")
			if test.says == "" {
				if got != nil || err != nil {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if got != nil || err == nil || !strings.Contains(err.Error(), test.says) || reason.CodeOf(err) != reason.HomeUnusable {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	home := t.TempDir()
	leaky := settled()
	leaky.Model.KeyCommand = "echo gh" + "p_abcdefghijklmnopqrstuvwxyz0123456789"
	if err := leaky.Save(home); reason.CodeOf(err) != reason.SecretLeak {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(home, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestOfAnotherUser: whose file it is can write it, whatever its mode.
func TestOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	home := t.TempDir()
	if err := settled().Save(home); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(Path(home, "codex"), 64242, 64242); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(home, "codex"); got != nil || reason.CodeOf(err) != reason.HomeUnusable || !strings.Contains(err.Error(), "another user (64242)") {
		t.Errorf("%v, %v", got, err)
	}
}
