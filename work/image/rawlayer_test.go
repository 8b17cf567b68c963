package image_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rawLayer is a layer whose bytes and diff id need not agree.
type rawLayer struct {
	packed, plain []byte
	kind          types.MediaType
}

func hashOf(b []byte) (v1.Hash, error) {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, nil
}

func (l *rawLayer) Digest() (v1.Hash, error) { return hashOf(l.packed) }
func (l *rawLayer) DiffID() (v1.Hash, error) { return hashOf(l.plain) }
func (l *rawLayer) Size() (int64, error)     { return int64(len(l.packed)), nil }
func (l *rawLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.packed)), nil
}

func (l *rawLayer) Uncompressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.plain)), nil
}

func (l *rawLayer) MediaType() (types.MediaType, error) {
	if l.kind == "" {
		return types.OCILayer, nil
	}
	return l.kind, nil
}
