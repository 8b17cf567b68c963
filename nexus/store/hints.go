package store

import (
	"maps"
	"slices"
	"sync"
)

// hints wakes readers of streams. A hint may come without a change and, on
// PostgreSQL, up to a poll interval after it: never is it the truth.
type hints struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

func newHints() *hints { return &hints{waiting: map[string]chan struct{}{}} }

// Changed returns a channel that is closed when the stream may have new events.
// Ask first, read then, wait last: an event that comes in between is not missed.
func (s *Store) Changed(stream string) <-chan struct{} { return s.hints.next(stream) }

func (h *hints) next(stream string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch, ok := h.waiting[stream]
	if !ok {
		ch = make(chan struct{})
		h.waiting[stream] = ch
	}
	return ch
}

func (h *hints) wake(streams []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, stream := range streams {
		if ch, ok := h.waiting[stream]; ok {
			close(ch)
			delete(h.waiting, stream)
		}
	}
}

// streams lists the streams with waiting readers.
func (h *hints) streams() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.waiting))
}
