package harness

import "os"

// reserved is how many bytes of the disk a journal owns beyond its end while
// its run goes on. A disk that fills up then cannot keep the run from telling
// so; when the space is given back, the rest of the evidence has room.
const reserved = 512 << 10

// yield gives the reserved space of the journal back. Truncating a file to the
// size that it has drops what was allocated behind its end; the lock keeps
// every append of this process away meanwhile, and the journal's own lock those
// of others.
func (r *recorder) yield(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if info, err := os.Lstat(path); err == nil {
		_ = os.Truncate(path, info.Size()) // without it the evidence is tried all the same
	}
}
