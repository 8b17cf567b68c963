package lanes

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/nexus/store"
	"remit/proof/reason"
)

const (
	tailLength = 512 // frames that the lanes of a topic share
	readBatch  = 128 // events taken from the store, or from the tail, at once
	retryPause = time.Second
)

// feed is the end of one stream, encoded once for all lanes that follow it.
type feed struct {
	lanes  *Lanes
	stream string
	stop   context.CancelFunc
	done   chan struct{}
	refs   int // guarded by Lanes.mu

	// Guarded by Lanes.mu too: it is held for copying slices only.
	tail [][]byte // frames of the events head-len(tail)+1 … head
	head int64
	wake chan struct{} // closed when head moves
}

// follow returns the feed of a stream, which runs while it has followers.
func (l *Lanes) follow(stream string, head int64) *feed {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.feeds[stream]
	if f == nil {
		ctx, stop := context.WithCancel(l.ctx)
		f = &feed{lanes: l, stream: stream, stop: stop, done: make(chan struct{}), head: head, wake: make(chan struct{})}
		l.feeds[stream] = f
		go f.run(ctx)
	}
	f.refs++
	return f
}

// release ends the feed after its last follower.
func (f *feed) release() {
	f.lanes.mu.Lock()
	f.refs--
	last := f.refs == 0
	if last {
		delete(f.lanes.feeds, f.stream)
	}
	f.lanes.mu.Unlock()
	if last {
		f.stop()
		<-f.done
	}
}

// run moves the head as the stream grows. The store's hint may come late or for
// nothing; what counts is what a read finds.
func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	for {
		changed := f.lanes.opt.Store.Changed(f.stream)
		n, err := f.advance(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.lanes.opt.Log.Warn("lane cannot read its stream", "stream", f.stream, "error", err)
			if !sleep(ctx, retryPause) {
				return
			}
		case n == 0:
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// advance reads the next events into the tail.
func (f *feed) advance(ctx context.Context) (int, error) {
	f.lanes.mu.Lock()
	after := f.head
	f.lanes.mu.Unlock()
	events, err := f.lanes.read(ctx, f.stream, after)
	if err != nil || len(events) == 0 {
		return 0, err
	}
	frames := make([][]byte, 0, len(events))
	for _, e := range events {
		frame, err := eventFrame(e)
		if err != nil {
			return 0, err
		}
		frames = append(frames, frame)
	}
	f.lanes.mu.Lock()
	defer f.lanes.mu.Unlock()
	// Retention may have cut off what lay between; then the tail begins anew.
	if events[0].Seq != f.head+1 {
		f.tail = nil
	}
	f.tail = append(f.tail, frames...)
	if over := len(f.tail) - tailLength; over > 0 {
		f.tail = append([][]byte(nil), f.tail[over:]...)
	}
	f.head = events[len(events)-1].Seq
	close(f.wake)
	f.wake = make(chan struct{})
	return len(events), nil
}

// next returns frames behind a seq out of the tail. None and lag 0 mean that the
// reader is up to date until wake; none and lag > 0 that it must ask the store.
func (f *feed) next(after int64) (frames [][]byte, lag int64, wake <-chan struct{}) {
	f.lanes.mu.Lock()
	defer f.lanes.mu.Unlock()
	lag = max(0, f.head-after)
	if first := f.head - int64(len(f.tail)); lag > 0 && after >= first {
		part := f.tail[after-first:]
		frames = append(frames, part[:min(len(part), readBatch)]...)
	}
	return frames, lag, f.wake
}

func (l *Lanes) read(ctx context.Context, stream string, after int64) (events []store.Event, err error) {
	err = l.opt.Store.Look(ctx, func(tx *store.Tx) error {
		events, err = tx.Events(stream, after, readBatch)
		return err
	})
	return events, err
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// EventOf is an event as the API shows it.
func EventOf(e store.Event) api.Event {
	return api.Event{
		StreamID: e.Stream, Seq: e.Seq, EventID: e.ID, EventType: e.Type, IdempotencyKey: api.Optional(e.IdempotencyKey),
		Payload: e.Payload, PayloadSha256: e.PayloadSHA256, RecordedAt: api.TimeOf(e.RecordedAt), Principal: e.Principal,
	}
}

// encode writes a frame as one JSON text.
func encode(f api.LaneFrame) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func eventFrame(e store.Event) ([]byte, error) {
	event := EventOf(e)
	return encode(api.LaneFrame{Type: api.LaneFrameTypeEvent, StreamID: e.Stream, Seq: &e.Seq, Event: &event})
}

// Kind is what a topic is about.
type Kind string

// The kinds of topic.
const (
	Fleet   Kind = "fleet"   // Subject is a user id
	Run     Kind = "run"     // Subject is a run id
	Jobs    Kind = "jobs"    // Subject is a provider id
	Account Kind = "account" // Subject is a user id
)

// Topic is a parsed topic name.
type Topic struct {
	Name    string // also the stream_id
	Kind    Kind
	Subject string
}

const maxTopic = 255

// Parse reads a topic name; anything but the four forms is lane_unknown.
func Parse(name string) (Topic, error) {
	t := Topic{Name: name}
	switch {
	case len(name) > maxTopic:
	case between(name, "fleet:user:", ":workers", &t.Subject):
		t.Kind = Fleet
	case between(name, "run:", ":events", &t.Subject):
		t.Kind = Run
	case between(name, "jobs:", "", &t.Subject):
		t.Kind = Jobs
	case between(name, "user:", ":receipts", &t.Subject):
		t.Kind = Account
	}
	if t.Kind == "" {
		return Topic{}, reason.Errorf(reason.LaneUnknown, "no lane %.80q", name)
	}
	return t, nil
}

// between takes the subject out of a name. A subject has no colon and no
// control, so that one name has one reading.
func between(name, before, after string, subject *string) bool {
	rest, ok := strings.CutPrefix(name, before)
	if !ok {
		return false
	}
	s, ok := strings.CutSuffix(rest, after)
	if !ok || s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ':' || s[i] == '/' {
			return false
		}
	}
	*subject = s
	return true
}
