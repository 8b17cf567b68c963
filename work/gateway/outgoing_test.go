package gateway

import (
	"errors"
	"io"
	"testing"
)

// The transport looks for the end of a body after its last byte. That the body
// was dropped by then must not look like a failure.
func TestDroppedBody(t *testing.T) {
	t.Parallel()
	o := newOutgoing([]byte("abc"))
	read, half := o.reader(), o.reader()
	if _, err := io.ReadFull(read, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(half, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	o.drop()
	if n, err := read.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if n, err := half.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errEnded) {
		t.Errorf("in the middle: %d, %v", n, err)
	}
}
