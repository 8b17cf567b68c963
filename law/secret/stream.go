package secret

import (
	"fmt"
	"io"
	"slices"
)

const (
	// blockBytes is how much of the input is looked at in one step.
	blockBytes = 128 << 10
	// maxRegion ends a chain of overlapping secrets, so that the window keeps
	// its bound.
	maxRegion = 64 << 10
)

// Stream scans what is written to it. Findings come in the order of their
// offsets and do not overlap: what does is one finding, named for the
// credential in it if there is one.
type Stream struct {
	s     *Scanner
	rules Rules
	found func(f Finding, text []byte)

	buf      []byte      // the window
	base     int64       // offset of buf[0]
	scanned  int         // bytes of buf that the automaton has read
	state    uint32      // of the automaton
	waiting  []candidate // whose rest is not in the window yet
	regions  []region    // found, not reported yet
	reported int64       // the end of the last region that was reported
}

// candidate is an anchor in the window, by offset.
type candidate struct {
	at, end int64
	pattern int32
}

// region is a match, by offset.
type region struct {
	from, to int64
	pattern  int32
}

// Stream makes a scan of one text. found is called with each finding and its
// text, which is only valid during the call.
func (s *Scanner) Stream(rules Rules, found func(f Finding, text []byte)) *Stream {
	return &Stream{s: s, rules: rules, found: found}
}

// Scan reads r to its end.
func (s *Scanner) Scan(r io.Reader, rules Rules, found func(f Finding, text []byte)) error {
	scan := s.Stream(rules, found)
	if _, err := io.CopyBuffer(scan, struct{ io.Reader }{r}, make([]byte, blockBytes)); err != nil {
		return fmt.Errorf("reading what is searched for secrets: %w", err)
	}
	scan.Close()
	return nil
}

// Write takes more of the text. It never fails.
func (t *Stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		take := min(len(rest), blockBytes-(len(t.buf)-t.scanned))
		t.buf = append(t.buf, rest[:take]...)
		rest = rest[take:]
		if len(t.buf)-t.scanned == blockBytes {
			t.step(false)
		}
	}
	return len(p), nil
}

// Close ends the text: what was waiting for more of it is decided.
func (t *Stream) Close() { t.step(true) }

func (t *Stream) step(final bool) {
	ready := t.waiting
	t.waiting = nil
	for _, c := range ready {
		t.consider(c, final)
	}
	for t.scanned < len(t.buf) {
		n, state := t.s.auto.skip(t.state, t.buf[t.scanned:])
		t.state = state
		if n == 0 {
			t.scanned = len(t.buf)
			break
		}
		t.scanned += n
		for _, id := range t.s.auto.ends[state/t.s.auto.width] {
			p := &t.s.patterns[id]
			if p.rule()&t.rules == 0 {
				continue
			}
			if at, ok := p.start(t.buf, t.scanned); ok {
				t.consider(candidate{t.base + int64(at), t.base + int64(t.scanned), id}, final)
			}
		}
	}
	t.tell(final)
	t.slide()
}

// consider decides a candidate if all that it may look at is in the window.
func (t *Stream) consider(c candidate, final bool) {
	p := &t.s.patterns[c.pattern]
	if !final && c.at+int64(p.reach()) > t.base+int64(len(t.buf)) {
		t.waiting = append(t.waiting, c)
		return
	}
	if from, to, ok := p.match(t.buf, int(c.at-t.base), int(c.end-t.base)); ok {
		t.regions = append(t.regions, region{t.base + int64(from), t.base + int64(to), c.pattern})
	}
}

// frontier is the first offset at which a region may still begin.
func (t *Stream) frontier() int64 {
	first := t.base + int64(t.scanned) - lookBehind
	for _, c := range t.waiting {
		first = min(first, c.at)
	}
	return first
}

// tell joins the regions that overlap and reports those that no later one can
// touch.
func (t *Stream) tell(final bool) {
	slices.SortStableFunc(t.regions, func(a, b region) int { return int(min(max(a.from-b.from, -1), 1)) })
	frontier := t.frontier()
	kept := t.regions[:0]
	for i := 0; i < len(t.regions); {
		r := t.regions[i]
		r.from = max(r.from, t.reported)
		for i++; i < len(t.regions) && t.regions[i].from < r.to && r.to-r.from < maxRegion; i++ {
			next := t.regions[i]
			if t.s.patterns[r.pattern].shape != nil && t.s.patterns[next.pattern].shape == nil {
				r.pattern = next.pattern
			}
			r.to = max(r.to, next.to)
		}
		switch {
		case r.to <= r.from: // wholly inside of what was reported
		case final || r.to <= frontier || r.to-r.from >= maxRegion:
			text := t.buf[r.from-t.base : r.to-t.base]
			t.found(t.s.patterns[r.pattern].finding(text, r.from), text)
			t.reported = r.to
		default:
			kept = append(kept, r)
		}
	}
	t.regions = kept
}

// slide drops what no match needs any more from the window.
func (t *Stream) slide() {
	keep := t.frontier()
	for _, r := range t.regions {
		keep = min(keep, r.from)
	}
	drop := int(max(0, keep-lookBehind-t.base))
	n := copy(t.buf, t.buf[drop:])
	t.buf = t.buf[:n]
	t.base += int64(drop)
	t.scanned -= drop
}
