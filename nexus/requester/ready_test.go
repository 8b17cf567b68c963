package requester

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"remit/nexus/api"
)

// TestReadyConnection: a connection that is ready serves the next call, is never
// open twice, and is closed when no call comes.
func TestReadyConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made, open atomic.Int64 // a connection expires beside the test
		here := &api.Client{}
		q := New(func(context.Context) (*Connection, error) {
			made.Add(1)
			open.Add(1)
			return &Connection{Worker: here, Close: func() error { open.Add(-1); return nil }}, nil
		})
		call := func(with func(context.Context, func(*Connection) error) error, err error) {
			t.Helper()
			if got := with(t.Context(), func(*Connection) error {
				if n := open.Load(); n != 1 {
					t.Errorf("%d connections are open during a call", n)
				}
				return err
			}); !errors.Is(got, err) {
				t.Error(got)
			}
		}
		want := func(wantMade, wantOpen int64) {
			t.Helper()
			if synctest.Wait(); made.Load() != wantMade || open.Load() != wantOpen {
				t.Fatalf("%d made, %d open, want %d and %d", made.Load(), open.Load(), wantMade, wantOpen)
			}
		}
		q.Ready(t.Context())
		want(1, 1)
		call(q.with, nil)
		want(1, 0)
		call(q.withNext, nil)
		want(2, 1)
		call(q.with, nil)
		want(2, 0)
		call(q.withNext, nil)
		time.Sleep(readyFor + 1)
		want(3, 0)
		call(q.withNext, errors.New("it fails"))
		want(4, 0)
		q.Ready(t.Context())
		if err := q.Release(); err != nil {
			t.Error(err)
		}
		want(5, 0)
		if err := q.Release(); err != nil {
			t.Error(err)
		}
		// One to a server stays open longer than the next entries of a journal take to come.
		here = nil
		call(q.withNext, nil)
		before := made.Load()
		time.Sleep(2 * readyFor)
		call(q.withNext, nil)
		want(before, 1)
		time.Sleep(readyElsewhere + 1)
		want(before, 0)
	})
	failing := New(func(context.Context) (*Connection, error) { return nil, errors.New("closed") })
	failing.Ready(t.Context())
	if err := failing.with(t.Context(), func(*Connection) error { return nil }); err == nil {
		t.Error("a connection that failed serves a call")
	}
}
