package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/session"
)

// TestShippedProgramHasNoCrashPoints keeps the hook of these tests out of what
// is shipped: the variable does nothing, and its name is not in the program.
func TestShippedProgramHasNoCrashPoints(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 5, 8)
	requireSandbox(t)
	for path, want := range map[string]bool{program(): false, crashing(): true} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(crashWord)) != want {
			t.Errorf("the name of the variable is in the program %s: %v", path, !want)
		}
	}
	s := newScene(t, gitRepo(t, map[string]string{"a.txt": "a\n"}))
	cmd := s.command(t, program(), s.run()...)
	cmd.Env = append(cmd.Env, crashWord+"=3:after")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestKilledAtEveryStep kills a run with SIGKILL around its journal entries:
// before one is written, in the middle of its line, after it and when it is
// durable. Whatever the moment: no process, mount or temporary tree is left,
// list and show say where the run stopped, nothing claims a pass that does not
// audit, and the session can be resumed.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c, repo := crashRow(t, "killed at a journal step")
	tally.AtItsTurn(c, 3, 5)
	n, _ := entriesOf(t, newScene(t, repo))
	for _, points := range crashPoints(t, n) {
		t.Run("from_"+strings.ReplaceAll(points[0], ":", "_"), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, repo)
			for _, at := range points {
				if !s.crashed(t, at, s.run()...) {
					t.Errorf("the run was not killed at %s", at)
					continue
				}
				c.Add("kills", 1)
				// Before its first entry is in place there is no session.
				want := 1
				if strings.HasPrefix(at, "0:") {
					want = 0
				}
				s.settleNew(t, c, at, want)
			}
			s.swept(t, c)
		})
	}
}

// crashPoints are the places of all kills, in groups that share a home. The
// long version has all of them; the short one the last entry, and by turn every
// ninth of the others, at one place each.
func crashPoints(t testing.TB, n int64) (groups [][]string) {
	const every = 9
	turn := int64(tally.Turn(t, every*len(crashPlaces)))
	var all []string
	for entry := range n {
		for i, place := range crashPlaces {
			if turn < 0 || entry == n-1 || entry%every == turn%every && int64(i) == (entry+turn)/every%4 {
				all = append(all, fmt.Sprintf("%d:%s", entry, place))
			}
		}
	}
	for len(all) > 0 {
		k := min(len(all), 6)
		groups, all = append(groups, all[:k]), all[k:]
	}
	return groups
}

// settleNew settles the sessions that are not settled yet: of the last kill.
func (s scene) settleNew(t testing.TB, c *tally.Count, where string, want int) {
	t.Helper()
	s.gone(t, c, where)
	found := 0
	for _, row := range s.settled(t, where) {
		if row.Phase == session.Sealed {
			continue
		}
		found++
		s.unsealed(t, where, row)
		s.resume(t, c, where, row)
	}
	if want >= 0 && found != want {
		c.Add("lost", 1)
		t.Errorf("%s: %d sessions were cut off, want %d", where, found, want)
	}
}

// settled lists the sessions when none of them is running any more. A process
// that is dying while it starts another one gives its locks back a moment after
// it can be seen.
func (s scene) settled(t testing.TB, where string) []sessionRow {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		rows := s.list(t)
		running := slices.ContainsFunc(rows, func(r sessionRow) bool { return r.Phase == session.Running })
		if !running {
			return rows
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: a session whose process was killed is still running: %+v", where, rows)
		}
	}
}

// TestKilledAgainWhileResumed crashes the resumption too, and resumes again.
func TestKilledAgainWhileResumed(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c, repo := crashRow(t, "killed again while it is resumed")
	tally.AtItsTurn(c, 1, 5)
	n, _ := entriesOf(t, newScene(t, repo))
	type pair struct{ first, second string }
	var pairs []pair
	if _, soak := soaking(t); soak {
		pairs = []pair{{"3:torn", "3:torn"}} // in the repair of a torn line
		for entry := int64(1); entry < n-1; entry += 2 {
			for second := entry + 1; second < entry+9; second++ {
				pairs = append(pairs, pair{fmt.Sprintf("%d:%s", entry, crashPlaces[entry%4]), fmt.Sprintf("%d:%s", second, crashPlaces[second%4])})
			}
		}
	} else {
		pairs = []pair{
			{"3:torn", "3:torn"},
			{"3:torn", "4:before"},
			{fmt.Sprint(n/2, ":after"), fmt.Sprint(n/2+1, ":synced")},
			{fmt.Sprint(n-4, ":after"), fmt.Sprint(n-2, ":torn")},
		}
		switch tally.Turn(t, 2) {
		case 0:
			pairs = []pair{pairs[0], pairs[2]}
		case 1:
			pairs = []pair{pairs[1], pairs[3]}
		}
	}
	for _, p := range pairs {
		t.Run(strings.ReplaceAll(p.first+"_"+p.second, ":", "_"), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, repo)
			if !s.crashed(t, p.first, s.run()...) {
				t.Fatalf("the run was not killed at %s", p.first)
			}
			c.Add("kills", 1)
			rows := s.settled(t, p.first)
			if len(rows) != 1 {
				t.Fatalf("%d sessions", len(rows))
			}
			cmd := s.command(t, crashing(), "resume", rows[0].SessionID)
			cmd.Env = append(cmd.Env, crashWord+"="+p.second)
			_ = cmd.Run() // it is killed, or ends before that entry
			if cmd.ProcessState.ExitCode() == -1 {
				c.Add("kills", 1)
			} else if _, soak := soaking(t); !soak {
				t.Errorf("the resumption was not killed at %s: exit %d", p.second, cmd.ProcessState.ExitCode())
			}
			where := p.first + ", then " + p.second
			s.gone(t, c, where)
			for _, row := range s.settled(t, where) {
				s.resume(t, c, where, row)
			}
			s.swept(t, c)
		})
	}
}

// TestKilledAtRandom kills runs, and now and then their resumption, at moments
// that a seed gives. The seed is printed; REMIT_CRASH_SEED gives it again.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c, repo := crashRow(t, "killed at random moments")
	tally.AtItsTurn(c, 1, 4)
	_, took := entriesOf(t, newScene(t, repo))
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("REMIT_CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c.Note("REMIT_CRASH_SEED=%d; a whole run took %s", seed, took.Round(time.Millisecond))
	random := rand.New(rand.NewPCG(seed, 0))
	limit, soak := soaking(t)
	lanes := 1
	if soak {
		lanes = 2
	}
	var killed atomic.Int64
	for lane := range lanes {
		laneSeed := random.Uint64()
		t.Run(fmt.Sprint("lane_", lane), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(laneSeed, 1))
			deadline := time.Now().Add(limit)
			for round := 0; ; round++ {
				if time.Now().After(deadline) && (killed.Load() >= 4 || !soak && round == 10) {
					return
				}
				s := newScene(t, repo)
				for i := range 3 {
					killed.Add(s.killAt(t, c, time.Duration(random.Int64N(int64(took))), s.run()...))
					if rows := s.list(t); i == 2 && len(rows) > 0 {
						killed.Add(s.killAt(t, c, time.Duration(random.Int64N(int64(took))), "resume", rows[len(rows)-1].SessionID))
					}
					s.settleNew(t, c, fmt.Sprintf("round %d, kill %d", round, i), -1)
				}
				s.swept(t, c)
			}
		})
	}
}

// killAt starts the program and kills it after a while, if it has not ended.
func (s scene) killAt(t testing.TB, c *tally.Count, after time.Duration, args ...string) (killed int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(), args...) // killed with SIGKILL when the time is up
	cmd.Env = s.command(t, program()).Env
	_ = cmd.Run() // killed, or not
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == -1 {
		killed = 1
	}
	c.Add("kills", int(killed))
	return killed
}

// TestTwoProcessesOnOneSession: whatever two processes want of one session at
// the same time, one gets it and the other is refused.
func TestTwoProcessesOnOneSession(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	c, repo := crashRow(t, "two processes on one session")
	tally.AtItsTurn(c, 2, 8)
	s := newScene(t, repo)
	// The verification takes so long that both are there at the same time.
	run := s.run()
	run[6] += "\nsleep 2"
	whole := newScene(t, repo)
	entriesOf(t, whole)
	// Everything before the second verification ends before that begins.
	head := slices.IndexFunc(whole.journal(t).Entries, func(e journal.Entry) bool { return e.Name == evidence.StepVerifyHead })
	if !s.crashed(t, fmt.Sprint(head, ":after"), run...) {
		t.Fatal("the run was not killed")
	}
	c.Add("kills", 1)
	s.gone(t, c, "before both")
	rows := s.settled(t, "before both")
	if len(rows) != 1 {
		t.Fatalf("%d sessions", len(rows))
	}
	id := rows[0].SessionID
	type result struct {
		code        int
		out, stderr string
	}
	results := make([]result, 2)
	var both sync.WaitGroup
	for i := range results {
		both.Go(func() {
			cmd := s.command(t, program(), "resume", id)
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			_ = cmd.Run() // the exit code is looked at
			results[i] = result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
		})
	}
	both.Wait()
	won, refused := 0, 0
	for _, r := range results {
		switch {
		case r.code == 0:
			won++
		case r.code == 3 && strings.Contains(r.stderr, "another process is writing this journal") && strings.Contains(r.stderr, "hint: "):
			refused++
		}
	}
	if won != 1 || refused != 1 {
		t.Errorf("%d went on and %d were refused: %+v", won, refused, results)
	}
	c.Add("resumed", won)
	if out, err := s.command(t, program(), "audit", id).CombinedOutput(); err != nil {
		c.Add("lost", 1)
		t.Errorf("audit: %v\n%s", err, out)
	}
	s.gone(t, c, "after both")
}
