package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/session"
)

// The engine's raw output, kept whole.
const (
	stdoutFile = evidence.BackendDir + "/stdout.log"
	stderrFile = evidence.BackendDir + "/stderr.log"
)

const (
	maxLine        = 64 << 10 // a longer line of output is cut for progress; the raw file has it all
	maxEvent       = 16 << 20 // the same for a protocol: agents put whole files into one event
	maxKept        = 1 << 20  // a longer line's memory is given back
	maxSideEffects = 1000     // of one tool call, so that a receipt stays readable
	maxSummary     = 2000     // bytes of the agent's own words in the evidence
)

// streams are the engine's two outputs on their way to files, digests, the
// progress view and the engine's protocol.
type streams struct {
	stdout, stderr *stream
	protocol       engine.Protocol
	calls          *calls
}

// openStreams opens the raw files, and only then takes the first event: a call
// that is open here has an end. An engine without a protocol is one tool call,
// from its start to its end.
func (r *run) openStreams(inv *engine.Invocation, argv []string) (*streams, error) {
	out := &streams{calls: &calls{r: r, open: map[string]time.Time{}}}
	if err := os.MkdirAll(filepath.Join(r.session.Dir, evidence.BackendDir), 0o700); err != nil {
		return nil, writeFailure(evidence.BackendDir, err)
	}
	var err error
	if out.stdout, err = newStream(r.session, stdoutFile, r.output); err != nil {
		return nil, err
	}
	if out.stderr, err = newStream(r.session, stderrFile, r.output); err != nil {
		// The first error is the one to tell.
		_ = out.stdout.close()
		_ = os.Remove(out.stdout.file.Name())
		return nil, err
	}
	if inv.Protocol != nil {
		out.protocol = inv.Protocol(out.calls.event)
		out.stdout.on, out.stdout.limit = out.protocol.Line, maxEvent
		return out, nil
	}
	params, err := json.Marshal(map[string]any{"argv": argv})
	if err != nil {
		return nil, err
	}
	out.calls.event(engine.Event{Kind: engine.ToolCall, ID: wholeCommand, Tool: "command", Params: params})
	return out, nil
}

// wholeCommand is the id of the tool call that is the whole process.
const wholeCommand = "call_1"

// finish closes the streams, ends what is open and records the raw files. What
// a full disk left of them is recorded too, and the failure reported.
func (s *streams) finish(r *run, f evidence.EngineFinished) (engine.End, error) {
	errs := []error{s.stdout.close(), s.stderr.close()}
	end := engine.End{Complete: true}
	if s.protocol != nil {
		end = s.protocol.End()
		end.Summary = evidence.CutText(end.Summary, maxSummary)
	} else {
		ok := f.ExitCode != nil && *f.ExitCode == 0
		s.calls.result(engine.Event{ID: wholeCommand, Exit: f.ExitCode, OK: ok, Paths: r.paths}, s.stdout.digest())
	}
	s.calls.abandon()
	for i, name := range []string{stdoutFile, stderrFile} {
		if errs[i] != nil {
			errs[i] = writeFailure(name, errs[i])
		}
		errs[i] = errors.Join(errs[i], r.recordArtifact(name))
	}
	return end, errors.Join(errs...)
}

// output passes a line to the progress view.
func (r *run) output(line []byte) {
	if r.progress != nil {
		r.progress.Output(strings.ToValidUTF8(string(line), "\uFFFD"))
	}
}

// calls journals the events of an agent.
type calls struct {
	r    *run
	open map[string]time.Time
	bad  int
}

// event journals one normalized event. A call whose id is already open, or a
// result without a call, is the agent's mistake and stays in the raw output.
func (c *calls) event(e engine.Event) {
	switch e.Kind {
	case engine.ToolCall:
		if _, twice := c.open[e.ID]; twice || len(e.Params) == 0 {
			c.bad++
			return
		}
		if err := c.r.toolCalled(e.ID, e.Tool, e.Params); err != nil {
			c.bad++
			return
		}
		c.open[e.ID] = c.r.clock()
	case engine.ToolResult:
		c.result(e, canon.Digest([]byte(e.Output)))
	case engine.Message:
		c.r.note(evidence.StepMessage, "message", "completed", nil, evidence.Message{Role: "agent", Text: evidence.CutText(e.Text, maxSummary)})
		c.r.output([]byte(e.Text))
	case engine.Usage:
		if c.r.Model != nil {
			return // the gateway has counted
		}
		c.r.note(evidence.StepUsage, "usage", "completed", nil, e.Usage)
	}
}

func (c *calls) result(e engine.Event, outputHash string) {
	began, known := c.open[e.ID]
	if !known {
		c.bad++
		return
	}
	delete(c.open, e.ID)
	c.r.toolReturned(e.ID, began, evidence.ToolReturned{ID: e.ID, OutputHash: outputHash, ExitCode: e.Exit, OK: e.OK,
		LatencyMS: c.r.clock().Sub(began).Milliseconds(), SideEffects: sideEffects(e.Paths[:min(len(e.Paths), maxSideEffects)])})
}

// abandon closes the calls that the agent never answered.
func (c *calls) abandon() {
	for id, began := range c.open {
		c.r.toolReturned(id, began, evidence.ToolReturned{ID: id, OutputHash: canon.Digest(nil),
			LatencyMS: c.r.clock().Sub(began).Milliseconds()})
	}
	clear(c.open)
}

// stream writes one output to a file, hashes it and cuts it into lines.
type stream struct {
	file *os.File
	sum  hash.Hash
	size int64
	line []byte
	on   func([]byte)
	beat func() // called for everything that arrives
	// limit is where a line is cut.
	limit int
	err   error
	last  []string // the last lines that are not empty, at most lastLines, each cut
}

const (
	lastLines = 3   // of what an engine printed, in the message of its failure
	lastWidth = 300 // bytes of each
)

// remember keeps a line as one of the last.
func (s *stream) remember(line []byte) {
	if text := strings.TrimSpace(string(line[:min(len(line), lastWidth)])); text != "" {
		s.last = append(s.last[max(0, len(s.last)-lastLines+1):], text)
	}
}

// quoteLast adds what an engine printed last to the message of its failure. They
// are its own words, so they are quoted, and no secret among them is repeated:
// the scan of the raw output reports that.
func (r *run) quoteLast(blockers []evidence.Blocker, stderr *stream) {
	if len(blockers) == 0 || blockers[0].Code != reason.EngineFailed || len(stderr.last) == 0 {
		return
	}
	quoted := make([]string, len(stderr.last))
	for i, line := range stderr.last {
		quoted[i] = strconv.Quote(strings.ToValidUTF8(r.secrets.Redact(line), "\uFFFD"))
	}
	blockers[0].Message += "; it printed last: " + strings.Join(quoted, ", ")
}

func newStream(s session.Session, name string, on func([]byte)) (*stream, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, filepath.FromSlash(name)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, writeFailure(name, err)
	}
	return &stream{file: f, sum: sha256.New(), on: on, limit: maxLine}, nil
}

// Write never fails: a full disk must not end the process in a way that looks
// like its own failure. The error is returned when the stream is closed.
func (s *stream) Write(p []byte) (int, error) {
	s.sum.Write(p)
	s.size += int64(len(p))
	if s.beat != nil {
		s.beat()
	}
	if s.err == nil {
		_, s.err = s.file.Write(p)
	}
	for rest := p; len(rest) > 0; {
		head, tail, found := bytes.Cut(rest, []byte("\n"))
		if room := s.limit - len(s.line); room > 0 {
			s.line = append(s.line, head[:min(len(head), room)]...)
		}
		if found {
			s.remember(s.line)
			s.on(s.line)
			if s.line = s.line[:0]; cap(s.line) > maxKept {
				s.line = nil
			}
		}
		rest = tail
	}
	return len(p), nil
}

func (s *stream) close() error {
	if len(s.line) > 0 {
		s.remember(s.line)
		s.on(s.line)
	}
	err := s.err
	if closeErr := s.file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (s *stream) digest() string { return canon.DigestSum(s.sum) }
