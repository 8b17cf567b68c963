package store_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"remit/nexus/store"
	"remit/nexus/store/storetest"
)

// crashDSN tells this test binary to be the process that is killed.
const crashDSN = "REMIT_STORE_CRASH_DSN"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(crashDSN); dsn != "" {
		fmt.Fprintln(os.Stderr, acknowledge(dsn))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// acknowledge appends from many goroutines for ever and prints the id of each
// event once its command has returned.
func acknowledge(dsn string) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s, err := store.Open(ctx, dsn, store.Options{})
	if err != nil {
		return err
	}
	var out sync.Mutex
	for w := range 32 {
		go func() {
			for {
				var e store.Event
				err := s.Update(ctx, func(tx *store.Tx) (err error) {
					e, err = tx.Append(store.Event{Stream: fmt.Sprintf("s%d", w%8), Type: "note"})
					return err
				})
				if err != nil {
					cancel(err)
					return
				}
				out.Lock()
				fmt.Println(e.ID)
				out.Unlock()
			}
		}()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// TestKill: what was acknowledged before kill -9 is there afterwards, with all
// of its stream before it.
func TestKill(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), crashDSN+"="+dsn)
		var said strings.Builder
		child.Stderr = &said
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var acknowledged []string
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			acknowledged = append(acknowledged, lines.Text())
			if len(acknowledged) == 300 {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait() // it was killed
		if len(acknowledged) < 300 {
			t.Fatalf("%d acknowledged: %s", len(acknowledged), said.String())
		}
		s := storetest.Open(t, dsn, store.Options{})
		stored := map[string]bool{}
		for i := range 8 {
			for _, e := range readAll(t, s, fmt.Sprintf("s%d", i)) {
				stored[e.ID] = true
			}
		}
		for i, id := range acknowledged {
			if last := i == len(acknowledged)-1; !stored[id] && (!last || len(id) == 36) {
				t.Errorf("acknowledged event %d, %q, is lost", i, id)
			}
		}
		noGaps(t, s)
	})
}
