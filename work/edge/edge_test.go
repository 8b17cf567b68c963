package edge

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Connections are counted: one more than the limit waits until one of them is
// closed.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, 2)
	accepted := make(chan net.Conn)
	stopped := make(chan error)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				stopped <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	first := <-accepted
	<-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted")
	case <-time.After(20 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives its place back once
	<-accepted
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-stopped; err == nil {
		t.Error("Accept goes on after Close")
	}
}

// The error for a file that cannot be read does not name the file, and a file that is too
// large is not read.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "s3cret")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := ReadFile(file, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	for what, err := range map[string]error{
		"too large": second(ReadFile(file, 4)), "a directory": second(ReadFile(dir, 1<<20)), "absent": second(ReadFile(file+"x", 5)),
		"no certificate": second(Roots(file)), "absent roots": second(Roots(file + "x")),
	} {
		if err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if roots, err := Roots(""); roots != nil || err != nil {
		t.Errorf("no file: %v, %v", roots, err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"http://p.example:3128": true, "https://u:p@p.example": true, "socks5h://[::1]:1080": true,
		"p.example:3128": false, "ftp://p.example": false, "http://": false, "::": false} {
		if u, err := Proxy(address); (err == nil && u != nil) != ok {
			t.Errorf("%s: %v, %v", address, u, err)
		}
	}
	if u, err := Proxy(""); u != nil || err != nil {
		t.Errorf("no proxy: %v, %v", u, err)
	}
}

func second[T any](_ T, err error) error { return err }
