package evidence

import (
	"fmt"
	"time"

	"remit/proof/form"
	"remit/proof/journal"
	"remit/proof/reason"
)

// Times are claims: only the machine that made a run has seen its clock.
// What no clock can have shown is a sign of a journal that was made up all the
// same. Steps run side by side, and a clock that is being set jumps, so that
// small differences say nothing.
const (
	clockSlack = time.Minute
	firstYear  = 2000
	lastYear   = 2200
)

var sessionTime = form.Lazy(`^([0-9]{8}T[0-9]{6}Z)-`)

// checkTimes looks at the times of a journal: they are in a sane range, go
// forward, begin when the session's id says, and leave the durations that are
// recorded inside them room.
func checkTimes(entries []journal.Entry) []reason.Finding {
	var out []reason.Finding
	add := func(line int, format string, args ...any) {
		if len(out) < maxFileFindings {
			out = append(out, reason.Finding{Code: reason.TimeImplausible, Path: JournalFile, Line: line, Detail: fmt.Sprintf(format, args...)})
		}
	}
	var latest time.Time
	for i := range entries {
		began, ended := spanOf(&entries[i])
		for _, at := range []time.Time{began, ended} {
			if at.Year() < firstYear || at.Year() > lastYear {
				add(i+1, "%s is at %s: no run of this program was then", entries[i].Name, at.Format(journal.TimeFormat))
			}
		}
		if i == 0 {
			if m := sessionTime().FindStringSubmatch(entries[0].SessionID); m != nil {
				if named, err := time.Parse("20060102T150405Z", m[1]); err != nil || began.Sub(named).Abs() > clockSlack {
					add(1, "the run began at %s, and its session is of %s", entries[0].StartedAt, m[1])
				}
			}
		} else if began.Before(entryStart(entries).Add(-clockSlack)) {
			add(i+1, "%s began at %s, before the run", entries[i].Name, entries[i].StartedAt)
		}
		if ended.Before(latest.Add(-clockSlack)) {
			add(i+1, "%s is at %s, and the entries before it reach to %s", entries[i].Name, ended.Format(journal.TimeFormat), latest.Format(journal.TimeFormat))
		}
		if ended.After(latest) {
			latest = ended
		}
		if spent := durationOf(&entries[i]); spent > ended.Sub(began)+clockSlack {
			add(i+1, "%s took %s, and what it records took %s", entries[i].Name, ended.Sub(began), spent)
		}
		var a ArtifactRecorded
		if entries[i].Name == StepArtifact && decode(entries[i].Outputs, &a) == nil {
			if checked, err := time.Parse(journal.TimeFormat, a.CheckedAt); err == nil && checked.After(ended.Add(clockSlack)) {
				add(i+1, "%s was checked at %s, after its entry was written", a.Path, a.CheckedAt)
			}
		}
	}
	return out
}

func entryStart(entries []journal.Entry) time.Time {
	began, _ := spanOf(&entries[0])
	return began
}

// spanOf is when a step began and when its entry's fact became true. The
// journal has accepted only times of the one form.
func spanOf(e *journal.Entry) (began, ended time.Time) {
	began, _ = time.Parse(journal.TimeFormat, e.StartedAt)
	ended, _ = time.Parse(journal.TimeFormat, entryTime(e))
	return began, ended
}

// durationOf is what a finished step records of the time that its commands
// took, one after the other.
func durationOf(e *journal.Entry) time.Duration {
	if e.Status == journal.Started {
		return 0
	}
	var spent int64
	switch e.Name {
	case StepEngine:
		var f EngineFinished
		if decode(e.Outputs, &f) == nil {
			spent = f.DurationMS
		}
	case StepVerifyBase, StepVerifyHead:
		var p VerifyPhase
		if decode(e.Outputs, &p) == nil {
			spent = madeIn(p.Runs)
		}
	case StepVerifyRun:
		var v VerifyRunEnded
		if decode(e.Outputs, &v) == nil {
			spent = madeIn(v.Runs)
		}
	}
	return time.Duration(min(max(spent, 0), 1<<40)) * time.Millisecond
}

// madeIn is the time of the runs that were not taken from the cache, in
// milliseconds.
func madeIn(runs []CommandRun) int64 {
	var spent int64
	for _, c := range runs {
		if !c.Cached {
			spent = counted(spent, min(c.DurationMS, 1<<40))
		}
	}
	return spent
}
