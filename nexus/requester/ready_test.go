package requester

import (
	"context"
	"errors"
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
		made, open, here := 0, 0, &api.Client{}
		q := New(func(context.Context) (*Connection, error) {
			made++
			open++
			return &Connection{Worker: here, Close: func() error { open--; return nil }}, nil
		})
		call := func(with func(context.Context, func(*Connection) error) error, err error) {
			t.Helper()
			if got := with(t.Context(), func(*Connection) error {
				if open != 1 {
					t.Errorf("%d connections are open during a call", open)
				}
				return err
			}); !errors.Is(got, err) {
				t.Error(got)
			}
		}
		want := func(wantMade, wantOpen int) {
			t.Helper()
			if synctest.Wait(); made != wantMade || open != wantOpen {
				t.Fatalf("%d made, %d open, want %d and %d", made, open, wantMade, wantOpen)
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
		before := made
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
