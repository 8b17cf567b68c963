package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
)

// TestSignInIsNoKey: a user who is signed in with a plan and has no key gets the message
// that the plan is not used; nothing of the sign-in is read, and no other error changes.
func TestSignInIsNoKey(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	missing := error(reason.Errorf(reason.AuthUnavailable, "no key"))
	if got := withoutPlan(missing, "codex", home); !errors.Is(got, missing) || strings.Contains(got.Error(), "plan") {
		t.Errorf("no user is signed in: %v", got)
	}
	if err := os.MkdirAll(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".codex/auth.json"), []byte(`{"tokens":{"access_token":"canary"}}`), 0); err != nil {
		t.Fatal(err)
	}
	got := withoutPlan(missing, "codex", home)
	e, _ := errors.AsType[*reason.Error](got)
	if e == nil || e.Code != reason.AuthUnavailable || !strings.Contains(got.Error(), "~/.codex/auth.json") || !strings.Contains(e.Hint, "--key-env") || strings.Contains(got.Error(), "canary") || strings.Count(got.Error(), "auth_unavailable") > 1 {
		t.Errorf("signed in: %v", got)
	}
	for _, other := range []struct {
		err    error
		engine string
	}{{missing, "pi"}, {missing, "claude"}, {reason.Errorf(reason.Timeout, "slow"), "codex"}} {
		if got := withoutPlan(other.err, other.engine, home); !errors.Is(got, other.err) || strings.Contains(got.Error(), "plan") {
			t.Errorf("%s, %v: %v", other.engine, other.err, got)
		}
	}
}
