package attest

import (
	"encoding/binary"
	"errors"
)

// maxField bounds one field of a key or signature, in bytes. An ed25519 key file
// with its comment needs a few hundred.
const maxField = 16 << 10

// errCut is the error of a structure that ends before its fields do.
var errCut = errors.New("the data is cut off")

// wire reads fields of the SSH wire format (RFC 4251, section 5) from the front
// of its bytes.
type wire []byte

// uint32 reads four bytes, the most significant first.
func (w *wire) uint32() (uint32, error) {
	if len(*w) < 4 {
		return 0, errCut
	}
	n := binary.BigEndian.Uint32(*w)
	*w = (*w)[4:]
	return n, nil
}

// field reads a length and as many bytes.
func (w *wire) field() ([]byte, error) {
	n, err := w.uint32()
	if err != nil {
		return nil, err
	}
	if n > maxField {
		return nil, errors.New("a field is too long")
	}
	if uint32(len(*w)) < n {
		return nil, errCut
	}
	out := (*w)[:n]
	*w = (*w)[n:]
	return out, nil
}

// fields reads one field into each of the given places.
func (w *wire) fields(into ...*[]byte) (err error) {
	for _, place := range into {
		if *place, err = w.field(); err != nil {
			return err
		}
	}
	return nil
}

// end is an error when something follows.
func (w *wire) end() error {
	if len(*w) > 0 {
		return errors.New("bytes follow the end")
	}
	return nil
}

// appendField writes a length and the bytes.
func appendField[T string | []byte](to []byte, field T) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(field)))
	return append(to, field...)
}
