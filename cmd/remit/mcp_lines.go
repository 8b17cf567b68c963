package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The codes of JSON-RPC for a line that is no message.
const (
	parseError     = -32700
	invalidRequest = -32600
)

// mcpLines is the transport over stdin and stdout. A line that is no message is
// answered with an error, and the server goes on: the SDK ends with the first one.
func mcpLines(in io.Reader, out io.Writer) mcp.Transport {
	w := &oneWriter{to: out}
	return &mcp.IOTransport{Reader: &messageLines{in: bufio.NewReaderSize(in, 64<<10), answers: w}, Writer: w}
}

// oneWriter keeps the lines of two writers apart, and counts the calls that wait for
// an answer. Its user does not close it.
type oneWriter struct {
	mu   sync.Mutex
	to   io.Writer
	open int
	none chan struct{} // closed when no call waits any more, nil while it is not asked for
}

func (w *oneWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.to.Write(p)
	if answer, bad := jsonrpc.DecodeMessage(bytes.TrimSpace(p)); bad == nil {
		if r, ok := answer.(*jsonrpc.Response); ok && r.ID.IsValid() {
			if w.open--; w.open <= 0 && w.none != nil {
				close(w.none)
				w.none = nil
			}
		}
	}
	return n, err
}

// called counts a call.
func (w *oneWriter) called() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
}

// lastAnswers is how long the answers of a client that went away are waited for: it may
// read still, as in a pipe.
const lastAnswers = time.Second

// drain waits until each call has its answer: the SDK ends with its input.
func (w *oneWriter) drain() {
	w.mu.Lock()
	none := make(chan struct{})
	if w.open <= 0 {
		close(none)
	} else {
		w.none = none
	}
	w.mu.Unlock()
	select {
	case <-none:
	case <-time.After(lastAnswers):
	}
}

func (*oneWriter) Close() error { return nil }

// messageLines reads lines, and passes those on that are messages.
type messageLines struct {
	in      *bufio.Reader
	answers *oneWriter
	rest    []byte // of the line that is passed on
}

func (*messageLines) Close() error { return nil }

func (m *messageLines) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := m.line()
		if len(bytes.TrimSpace(line)) == 0 {
			if err != nil {
				m.answers.drain()
				return 0, err
			}
			continue
		}
		code, wrong, call := kindOf(line)
		if wrong == "" {
			if call {
				m.answers.called()
			}
			m.rest = line
			break
		}
		if _, err := fmt.Fprintf(m.answers, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, wrong); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// line reads one line, and keeps of one that is too long so much that this is seen.
func (m *messageLines) line() (line []byte, err error) {
	for {
		var piece []byte
		piece, err = m.in.ReadSlice('\n')
		if len(line) <= mcp.DefaultMaxLineLength {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// kindOf says what is wrong with a line, "" if it is a message, and whether that is a
// call, which gets an answer.
func kindOf(line []byte) (code int, wrong string, call bool) {
	switch {
	case len(line) > mcp.DefaultMaxLineLength:
		return invalidRequest, fmt.Sprintf("the line is longer than %d bytes", mcp.DefaultMaxLineLength), false
	case !json.Valid(line):
		return parseError, "the line is not JSON", false
	case bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")):
		return invalidRequest, "the line is a list: send each message in a line of its own", false
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return invalidRequest, "the line is JSON, and no message of JSON-RPC 2.0", false
	}
	if !wholeID(line) {
		return invalidRequest, "the id is a number that is not whole, or too large: send a string", false
	}
	request, ok := message.(*jsonrpc.Request)
	return 0, "", ok && request.ID.IsValid()
}

// maxID is up to where each whole number is one of its own to the SDK, which reads ids
// as floating-point numbers and cuts them off.
const maxID = 1 << 53

// wholeID reports whether the SDK answers a message by the id that it has.
func wholeID(line []byte) bool {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &m) != nil || len(m.ID) == 0 || m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9') {
		return true
	}
	n, err := strconv.ParseInt(string(m.ID), 10, 64)
	return err == nil && n <= maxID && n >= -maxID
}
