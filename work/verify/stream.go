package verify

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"sync"

	"remit/proof/canon"
	"remit/proof/reason"
)

// stream spools and hashes what a command writes to one of its outputs. A
// write never fails towards the command: what happened to the spool is reported
// afterwards, and makes the run a fault instead of a verdict.
type stream struct {
	mu    sync.Mutex
	file  *os.File
	sum   hash.Hash
	size  int64
	limit int64
	err   error
}

func newStream(dir string, limit int64) (*stream, error) {
	f, err := os.CreateTemp(dir, "output-*")
	if err != nil {
		return nil, reason.Errorf(reason.ArtifactWriteFailure, "spooling output: %w", err)
	}
	return &stream{file: f, sum: sha256.New(), limit: limit}, nil
}

// Write implements io.Writer. The sandbox stops a command at its output limit;
// what still arrives beyond it is hashed and not kept.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.Write(p)
	keep := p[:max(0, min(int64(len(p)), s.limit-s.size))]
	s.size += int64(len(p))
	if s.err == nil && len(keep) > 0 {
		if _, err := s.file.Write(keep); err != nil {
			s.err = reason.Errorf(reason.ArtifactWriteFailure, "spooling output: %w", err)
		}
	}
	return len(p), nil
}

// finish returns the digest and length of the stream.
func (s *stream) finish() (digest string, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum [sha256.Size]byte
	copy(sum[:], s.sum.Sum(nil))
	return canon.DigestText(sum), s.size, s.err
}

// open gives what was kept, from its beginning.
func (s *stream) open() (io.ReadCloser, error) {
	f, err := os.Open(s.file.Name())
	if err != nil {
		return nil, fmt.Errorf("opening spooled output: %w", err)
	}
	return f, nil
}

func (s *stream) close() {
	_ = s.file.Close() // read back already, and about to go with its directory
	_ = os.Remove(s.file.Name())
}
