//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"remit/nexus/api"
)

// noted is a run without a job: what a clerk wrote into its log.
type noted struct {
	run, finished api.Run
	events        []api.Event
}

// Clerks write small commands without a pause worth the name, so that kills
// meet commands that are committed and not answered yet.
const (
	notesInRun = 8
	clerkPause = 4 * time.Millisecond
	// maxNotes bounds what a long fire has to look at again.
	maxNotes = 20_000
)

// clerk makes runs, appends notes and ends them, until more says so.
func (l *load) clerk(ctx context.Context, name string, more func() bool) {
	for i := 0; more() && ctx.Err() == nil && i*notesInRun < maxNotes; i++ {
		n, err := l.notes(ctx, fmt.Sprintf("%s-%d", name, i))
		l.note(func() {
			if err != nil {
				l.errs = append(l.errs, err)
				return
			}
			l.noted = append(l.noted, n)
		})
		if err != nil {
			return
		}
	}
}

func (l *load) notes(ctx context.Context, name string) (*noted, error) {
	n := new(noted)
	if err := l.owner.post(ctx, "/v1/runs", "notes-"+name, object{"repo_ref": "fire", "metadata": object{"unit": name}}, &n.run); err != nil {
		return nil, err
	}
	path := "/v1/runs/" + n.run.RunID
	for i := range notesInRun {
		var e api.Event
		if err := l.owner.post(ctx, path+"/events", fmt.Sprintf("note-%s-%d", name, i),
			object{"event_type": "note", "payload": object{"text": fmt.Sprint(i)}}, &e); err != nil {
			return nil, err
		}
		n.events = append(n.events, e)
		if !wait(ctx, clerkPause) {
			return nil, context.Cause(ctx)
		}
	}
	return n, l.owner.post(ctx, path+"/finish", "finish-"+name, object{"status": "succeeded"}, &n.finished)
}

// notesOf holds the log of such a run against what was acknowledged: every note
// once, in its place, and nothing but them.
func (f *fire) notesOf(ctx context.Context, n *noted) (wrong []string) {
	say := func(format string, args ...any) {
		f.c.Add("missing", 1)
		wrong = append(wrong, fmt.Sprintf("run %s: ", n.run.RunID)+fmt.Sprintf(format, args...))
	}
	var now api.Run
	events, err := pages[api.Event](ctx, f.owner, "/v1/runs/"+n.run.RunID+"/events")
	if err == nil {
		err = f.owner.get(ctx, "/v1/runs/"+n.run.RunID, &now)
	}
	if err != nil {
		say("%v", err)
		return wrong
	}
	if now.Status != n.finished.Status || now.LastSeq != n.finished.LastSeq || int64(len(events)) != now.LastSeq {
		say("acknowledged as %+v, is %+v with %d events", n.finished, now, len(events))
	}
	_, form := fold(events)
	notes := 0
	for _, e := range events {
		if e.EventType == "note" {
			notes++
		}
	}
	if notes != len(n.events) {
		f.c.Add("doubled", max(0, notes-len(n.events)))
		say("%d notes, %d were acknowledged", notes, len(n.events))
	}
	for _, was := range n.events {
		if was.Seq < 1 || was.Seq > int64(len(events)) {
			say("event %d is gone", was.Seq)
			continue
		}
		if is := events[was.Seq-1]; is.EventID != was.EventID || is.PayloadSha256 != was.PayloadSha256 || is.RecordedAt != was.RecordedAt || string(is.Payload) != string(was.Payload) {
			say("event %d was acknowledged as %+v, is %+v", was.Seq, was, is)
		}
	}
	return append(wrong, form...)
}
