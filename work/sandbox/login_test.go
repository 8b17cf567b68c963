//go:build linux

package sandbox

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// What the kernel counts for a user must not be there for a command to use up:
// other programs of the login need it, and other runs.
func TestLoginResources(t *testing.T) {
	t.Parallel()
	e := escape(t, "what a login has once")
	for _, tt := range []struct {
		what string
		most int // that a Run may get
	}{
		{"inotify", max(1, number(t, "/proc/sys/fs/inotify/max_user_instances")/inotifyPart)},
		{"signals", mostSignals},
		{"queues", 3},
		{"terminals", mostTerminals},
		{"memory", mostLocked / (256 << 10)},
	} {
		if asRoot() && tt.what == "inotify" {
			continue // counted for the uid of the Run, which no other process has
		}
		got, then := taken(e, open1(e), tt.what)
		if got < 1 {
			t.Errorf("%s: nothing works inside", tt.what)
		}
		if tt.what == "inotify" { // the error that the threat model names
			e.Check(then == "too many open files", "after %d: %s", got, then)
		}
		e.Check(got <= tt.most, "%s: a command got %d, more than %d", tt.what, got, tt.most)
		if control, _ := taken(e, without(e, controlled{noLoginLimits: true}), tt.what); control <= tt.most && tt.what != "terminals" {
			t.Logf("no control on this machine: %s ends at %d anyway", tt.what, control)
		}
	}
	// What cannot be bounded is said, and only where the login is not the Run's own.
	said := strings.Contains(strings.Join(open1(t).Describe().NotEnforced, "\n"), "login: epoll watches")
	if said == asRoot() {
		t.Errorf("as root %v: not enforced: %q", asRoot(), open1(t).Describe().NotEnforced)
	}
}

func taken(t testing.TB, d Driver, what string) (n int, then string) {
	t.Helper()
	o := try(t, d, Spec{}, attackPath, "attack", "login", what)
	count, then, _ := strings.Cut(strings.TrimSpace(o.out), " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatalf("%s: %s", what, o.out)
	}
	return n, then
}

func number(t testing.TB, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
