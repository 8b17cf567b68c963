//test:plain-package It starts programs as processes, and meets them in files and over sockets; what they are made of has tests with the detector.

package faulty

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/engine"
)

// plainEngine is an engine without anything special.
type plainEngine struct{}

func (plainEngine) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: "plain", Version: "1", SHA256: "sha256:x"}, nil
}

func (plainEngine) Invocation(context.Context, engine.Task) (*engine.Invocation, error) {
	return &engine.Invocation{Argv: []string{"agent", "arg"}}, nil
}

// TestFaultIsInTheIdentity keeps a run under a fault from passing for another:
// each fault is another engine.
func TestFaultIsInTheIdentity(t *testing.T) {
	t.Parallel()
	seen := map[evidence.EngineIdentity]string{}
	for _, f := range []Fault{{}, {Name: "a"}, {Name: "b"}, {Name: "a", After: "echo"}, DropStep("x"), DropStep("y"), DelayStep("x", "y")} {
		id, err := (&Engine{Inner: plainEngine{}, Fault: f}).Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if other, twice := seen[id]; twice {
			t.Errorf("faults %q and %q have one identity %v", f.Name, other, id)
		}
		seen[id] = f.Name
		if id.Name != "plain" || (f.Name != "") != strings.HasSuffix(id.Version, "+fault."+f.Name) {
			t.Errorf("fault %q: identity %v", f.Name, id)
		}
	}
	if id, err := (&Engine{Inner: plainEngine{}, Fault: Fault{After: "rm -r ."}}).Identity(t.Context()); err == nil {
		t.Errorf("a fault without a name has identity %v", id)
	}
}

// TestNoFaultIsTheEngine keeps the wrapper out of the way of its controls.
func TestNoFaultIsTheEngine(t *testing.T) {
	t.Parallel()
	want, err := plainEngine{}.Invocation(t.Context(), engine.Task{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&Engine{Inner: plainEngine{}}).Invocation(t.Context(), engine.Task{})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

// TestInvocation looks at what each part of a fault does to the invocation.
func TestInvocation(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk broke")
	tests := []struct {
		name  string
		fault Fault
		check func(*engine.Invocation, error) bool
	}{
		{"shell around", Fault{After: "touch x"}, func(inv *engine.Invocation, _ error) bool {
			return reflect.DeepEqual(inv.Argv[4:], []string{"agent", "arg"}) && inv.Argv[0] == "sh" && strings.Contains(inv.Argv[2], "touch x\nexit $code")
		}},
		{"another program", Fault{Program: "/none"}, func(inv *engine.Invocation, _ error) bool {
			return reflect.DeepEqual(inv.Argv, []string{"/none", "arg"})
		}},
		{"a lent file", Fault{Needs: "/f"}, func(inv *engine.Invocation, _ error) bool {
			return len(inv.Binds) == 1 && inv.Binds[0].Host == "/f"
		}},
		{"the host", Fault{Host: func() error { return broken }}, func(_ *engine.Invocation, err error) bool {
			return errors.Is(err, broken)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inv, err := (&Engine{Inner: plainEngine{}, Fault: test.fault}).Invocation(t.Context(), engine.Task{})
			if !test.check(inv, err) {
				t.Errorf("%+v %v", inv, err)
			}
		})
	}
}

// TestReview reads the reviewer's verdict, and takes silence and anything but
// an approval for a rejection.
func TestReview(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, output string
		rejected     bool
	}{
		{"approved", reviewLine(Approved), false},
		{"rejected", reviewLine(Rejected), true},
		{"silent", "text", true},
		{"another word", `{"type":"review","verdict":"looks fine"}`, true},
		{"the last word counts", reviewLine(Approved) + "\n" + reviewLine(Rejected), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var events []engine.Event
			p := reviewed(nil)(func(e engine.Event) { events = append(events, e) })
			for line := range strings.Lines(test.output) {
				p.Line([]byte(strings.TrimSuffix(line, "\n")))
			}
			if end := p.End(); end.Rejected != test.rejected || !end.Complete {
				t.Errorf("%+v", end)
			}
			if len(events) != 2 || events[0].Kind != engine.ToolCall || events[1].Kind != engine.ToolResult || events[0].ID != events[1].ID {
				t.Errorf("events %+v", events)
			}
		})
	}
}

// FuzzReview feeds a reviewer's output, which is the agent's and hostile: only
// an approval as the last review is none of a rejection.
func FuzzReview(f *testing.F) {
	f.Add([]byte(reviewLine(Approved)))
	f.Add([]byte(reviewLine(Approved) + "\n" + reviewLine(Rejected)))
	f.Add([]byte(`{"type":"review","verdict":null}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		p := reviewed(nil)(func(engine.Event) {})
		last := ""
		for line := range bytes.Lines(output) {
			var r review
			if json.Unmarshal(line, &r) == nil && r.Type == "review" {
				last = r.Verdict
			}
			p.Line(line)
		}
		if end := p.End(); end.Rejected != (last != Approved) {
			t.Errorf("last verdict %q, %+v", last, end)
		}
	})
}

// TestSteps looks at what the faults of the journal let through.
func TestSteps(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault Fault
		want  string
	}{
		{"drop", DropStep("b"), "a c d"},
		{"drop what is not there", DropStep("x"), "a b b c d"},
		{"delay", DelayStep("b", "c"), "a c b b d"},
		{"delay for ever", DelayStep("b", "x"), "a c d"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, name := range []string{"a", "b", "b", "c", "d"} {
				for _, s := range test.fault.Journal(journal.Step{Name: name}) {
					got = append(got, s.Name)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%v, want %s", got, test.want)
			}
		})
	}
}

// TestDisks fills one disk, finds the other read-only, and leaves no mount that
// another process could see.
func TestDisks(t *testing.T) {
	t.Parallel()
	full, readOnly := filepath.Join(t.TempDir(), "full"), filepath.Join(t.TempDir(), "ro")
	err := PrivateMounts(func() error {
		if err := errors.Join(FullDisk(full, 8<<10), ReadOnlyDisk(readOnly)); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(full, "f"), make([]byte, 16<<10), 0o600); err == nil || !strings.Contains(err.Error(), "no space") {
			t.Errorf("writing to the full disk: %v", err)
		}
		if err := os.WriteFile(filepath.Join(readOnly, "f"), nil, 0o600); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("writing to the read-only disk: %v", err)
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo") // of the main thread
		if err != nil {
			return err
		}
		if bytes.Contains(mounts, []byte(full)) {
			t.Error("the mount is seen outside of its thread")
		}
		return errors.Join(Unmount(full), Unmount(readOnly))
	})
	if errors.Is(err, ErrNoMount) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{full, readOnly} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
}
