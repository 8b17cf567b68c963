// Package counted has a reader that counts: streams of strangers are bounded by what
// was read of them, before and behind their decompression.
package counted

import "io"

// Reader counts the bytes that are read through it.
type Reader struct {
	R io.Reader
	N int64
}

// Read implements io.Reader.
func (c *Reader) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	return n, err
}
