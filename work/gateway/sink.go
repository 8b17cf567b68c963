package gateway

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"remit/proof/canon"
)

// sink takes secrets out of a body, hashes it, and keeps it if asked to.
type sink struct {
	filter filter
	sum    hash.Hash
	size   int64
	file   io.WriteCloser
	err    error
}

// newSink always returns a sink; with an error it is one that keeps nothing.
func (g *Gateway) newSink(seq int64, kind string) (*sink, error) {
	s := &sink{filter: filter{secrets: g.secrets}, sum: sha256.New()}
	if g.keep == nil {
		return s, nil
	}
	s.file, s.err = g.keep(fmt.Sprintf("%06d-%s", seq, kind))
	return s, s.err
}

// pass takes a piece of a body and returns what of it may be shown.
func (s *sink) pass(p []byte, end bool) []byte {
	p = s.filter.pass(p, end)
	s.take(p)
	return p
}

// take takes a piece that has no secrets in it.
func (s *sink) take(p []byte) {
	s.sum.Write(p)
	s.size += int64(len(p))
	if s.file != nil && s.err == nil {
		_, s.err = s.file.Write(p)
	}
}

func (s *sink) close() (digest string, size int64, err error) {
	if s.file != nil {
		s.err = errors.Join(s.err, s.file.Close())
		s.file = nil
	}
	return canon.DigestSum(s.sum), s.size, s.err
}
