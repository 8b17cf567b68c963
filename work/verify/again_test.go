package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/verify/twin"
)

// TestNextRuns: a run in which a test passed that cannot is tried again alone,
// and nothing is left out.
func TestNextRuns(t *testing.T) {
	t.Parallel()
	neutral, lost := func(run int) trouble { return trouble{run: run} }, func(run int) trouble { return trouble{run: run, kind: twin.Fail, lost: true} }
	passes := func(run int) trouble { return trouble{run: run, kind: twin.Flip} }
	for _, tc := range []struct {
		troubles []trouble
		want     string
	}{
		{[]trouble{neutral(2)}, "[[2]]"},
		{[]trouble{neutral(0), neutral(1), neutral(2), neutral(1)}, "[[0 1 1] [2]]"},
		{[]trouble{neutral(0), lost(1), passes(3), neutral(3)}, "[[3 3] [0 1]]"},
		{[]trouble{{run: 1, fault: &reason.Finding{}}, lost(0)}, "[[1 0]]"},
	} {
		var got [][]int
		for later := tc.troubles; len(later) > 0; {
			var now []trouble
			now, later = nextRuns(later)
			var runs []int
			for _, tr := range now {
				runs = append(runs, tr.run)
			}
			got = append(got, runs)
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("%+v: %v, want %s", tc.troubles, got, tc.want)
		}
	}
}

// stumbling is a sandbox whose first runs with edited tests fail.
type stumbling struct {
	Sandbox
	left atomic.Int32
}

func (s *stumbling) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Result, error) {
	if spec.Capture && len(spec.Apply) > 0 && s.left.Add(-1) >= 0 {
		return nil, errors.New("no room for a control group")
	}
	return s.Sandbox.Run(ctx, spec)
}

// TestFaultOfTheProof: a fault on the base that passes does not cost the control.
func TestFaultOfTheProof(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	sb := realSandbox(t)
	dir := pyProject.base.write(t)
	needs(t, sb, dir, "python3 --version")
	for faults, want := range map[int32]string{1: "", 2: "", 4: "the base could not be run with edited tests"} {
		s := &stumbling{Sandbox: sb}
		s.left.Store(faults)
		r, err := Base(t.Context(), s, Plan{Lower: dir, Commands: pyProject.commands})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := strings.Cut(r.proof.reason, ":"); got != want || want == "" && r.Reusable() == nil {
			t.Errorf("%d faults: %q, want %q", faults, r.proof.reason, want)
		}
	}
}

// slow is a sandbox in which the first runs with edited tests reach their limit, those of the
// base or those of the head.
type slow struct {
	Sandbox
	head bool
	left atomic.Int32
}

func (s *slow) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Result, error) {
	r, err := s.Sandbox.Run(ctx, spec)
	if laid(spec, "tests/test_calc.py") && laid(spec, "calc.py") == s.head && len(spec.Commands) == 1 && spec.Capture && s.left.Add(-1) >= 0 {
		r.Commands[0].TimedOut, r.Commands[0].ExitCode = true, 137
		_, _ = io.WriteString(spec.Commands[0].Stderr, "Ran 1 test in 0.1s\n") // what the runner has said is no end
	}
	return r, err
}

// TestLimitOfTheControl: a run with edited tests that a limit stops shows nothing, neither
// that a test can fail nor that the change cheats.
func TestLimitOfTheControl(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	sb := realSandbox(t)
	dir := pyProject.base.write(t)
	needs(t, sb, dir, "python3 --version")
	for _, tc := range []struct {
		name    string
		head    bool
		left    int32
		want    reason.Code
		control bool
	}{
		{"the base, once", false, 1, "", true},
		{"the base, always", false, 100, "", false},
		{"the head, once", true, 1, "", true},
		{"the head, always", true, 100, reason.Timeout, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &slow{Sandbox: sb, head: tc.head}
			s.left.Store(tc.left)
			v, err := Run(t.Context(), s, Plan{Lower: dir, Patch: pyProject.honest.changes(), Commands: []string{pyProject.commands[0] + " -v"}})
			if err != nil {
				t.Fatal(err)
			}
			if codes(v.Findings) != string(tc.want) || tc.want == "" && v.Control.Made != tc.control {
				t.Errorf("%s%+v", explain(v), v.Control)
			}
			if !tc.control && tc.want == "" && !strings.Contains(v.Control.Reason, "it ran out of time") {
				t.Errorf("%q", v.Control.Reason)
			}
		})
	}
}
