//go:build linux

package sandbox

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// outputs carries the streams of one command from their pipes to the caller's
// writers. It counts every byte, hands on those below the cap, and calls stop
// once when the cap is reached or a writer fails.
type outputs struct {
	limit    int64
	stop     func()
	used     atomic.Int64
	exceeded atomic.Bool
	once     sync.Once
	done     sync.WaitGroup
	pipes    []*stream
}

type stream struct {
	r, w  *os.File
	to    io.Writer
	count int64
	err   error // of the caller's writer
	head  head  // the beginning, to explain a command that did not start
}

// openOutputs makes the pipes: one for both streams if they have one writer.
func openOutputs(limit int64, stop func(), writers ...io.Writer) (*outputs, error) {
	o := &outputs{limit: limit, stop: stop}
	for _, to := range writers {
		r, w, err := os.Pipe()
		if err != nil {
			o.closeAll()
			return nil, err
		}
		o.pipes = append(o.pipes, &stream{r: r, w: w, to: to, head: head{limit: 4 << 10}})
	}
	return o, nil
}

// sameWriter reports whether two streams go to one writer. Writers of types
// that cannot be compared are different ones.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

func (o *outputs) writeEnds() []*os.File {
	var ends []*os.File
	for _, s := range o.pipes {
		ends = append(ends, s.w)
	}
	return ends
}

// begin starts reading, after the write ends were handed on.
func (o *outputs) begin() {
	for _, s := range o.pipes {
		s.w.Close()
		o.done.Go(func() { o.copy(s) })
	}
}

// finish waits for the ends of the streams and returns the first error of a
// writer. All processes are dead by now, so the ends are there already unless
// someone outside holds a pipe; the wait is short.
func (o *outputs) finish() error {
	for _, s := range o.pipes {
		_ = s.r.SetReadDeadline(time.Now().Add(5 * time.Second)) // a pipe of os.Pipe takes it
	}
	o.done.Wait()
	var errs []error
	for _, s := range o.pipes {
		s.r.Close()
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

func (o *outputs) closeAll() {
	for _, s := range o.pipes {
		s.r.Close()
		s.w.Close()
	}
}

func (o *outputs) copy(s *stream) {
	buf := make([]byte, 32<<10)
	for {
		n, err := s.r.Read(buf)
		s.count += int64(n)
		o.hand(s, buf[:n])
		if err != nil {
			return
		}
	}
}

func (o *outputs) hand(s *stream, p []byte) {
	over := o.used.Add(int64(len(p))) - o.limit
	if over > 0 {
		p = p[:max(0, int64(len(p))-over)]
		o.exceeded.Store(true)
		o.once.Do(o.stop)
	}
	s.head.add(p)
	if s.to == nil || s.err != nil || len(p) == 0 {
		return
	}
	if _, s.err = s.to.Write(p); s.err != nil {
		o.once.Do(o.stop)
	}
}
