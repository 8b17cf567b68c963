package scripted

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"remit/proof/reason"
)

// Protocol is a wire protocol, by the name that the gateway gives it.
type Protocol string

// The three protocols.
const (
	Chat      Protocol = "chat"      // POST …/chat/completions
	Responses Protocol = "responses" // POST …/responses
	Messages  Protocol = "messages"  // POST …/messages
)

// Usage is a number of tokens by kind, normalised over the protocols: input
// excludes what was cached, and reasoning is a part of the output.
type Usage struct {
	InUncached int64 `json:"in_uncached"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Out        int64 `json:"out"`
	Reasoning  int64 `json:"reasoning"`
}

// defaultUsage is reported where a script states none: a model that answers
// for nothing would look like a broken one.
var defaultUsage = Usage{InUncached: 100, Out: 10}

// Bounds of a script.
const (
	MaxTextBytes = 16 << 20 // of one answer, repeats included
	maxItems     = 1000     // conversations, turns, alternatives or calls
	maxWait      = 10 * time.Minute
	maxTokenSum  = 100_000_000 // of one kind: what the gateway takes for a count
)

// Script is what a model says. It does not change; any number of servers may
// play it.
type Script struct {
	// Name is what the script calls itself, "" if nothing.
	Name string

	conversations []conversation
	answers       int // answers have numbers from 0, for their counters
}

// conversation is a way in which a session with an engine may go.
type conversation struct {
	when      when
	turns     [][]*answer // alternatives, for each turn
	otherwise []*answer   // for every other turn
}

// when is a condition on a request; what is not set holds.
type when struct {
	protocols                       []Protocol
	model, system, user, toolOutput *regexp.Regexp
	stream, tools                   *bool
}

// answer is one reply of the model: a message with the faults that it has on
// its way, or with a status, a refusal.
type answer struct {
	number int
	at     *node
	field  string // of the script, for messages
	when   when
	times  int64 // how often it is given; 0: always

	capture     []capture
	delay, pace time.Duration
	headers     [][2]string

	text, reasoning string
	calls           []call
	repeat          int64
	stop            stop
	model           string // that answers; "" is the one that was asked
	usage           Usage
	silent          bool // reports no usage
	chunks, writes  []int
	shape           shape
	cut             *cut

	status int64 // 0: a message
	body   *string
	fault  problem
}

// capture takes a text out of what the tools said before.
type capture struct {
	name    string
	pattern *regexp.Regexp
}

// call asks for a tool. The arguments are the text of JSON, or not, if the
// script wants it so; a custom tool takes text as it is.
type call struct {
	name      string
	custom    bool
	arguments string
}

// problem is an error in the words of a provider.
type problem struct{ kind, message, code string }

// stop is why the model ended.
type stop string

const (
	stopEnd    stop = "end"
	stopTools  stop = "tools" // the default with calls
	stopLength stop = "length"
	stopFilter stop = "filter"
)

// shape is the form in which an answer travels. Some are odd but right, which
// every reader has to take; the others are wrong.
type shape string

const (
	asAsked       shape = ""         // a stream if one was asked for, else JSON
	asStream      shape = "stream"   // a stream although none was asked for
	asJSON        shape = "json"     // JSON although a stream was asked for
	withCRLF      shape = "crlf"     // right: lines end with CR LF
	withComments  shape = "comments" // right: comment lines between the events
	withoutSpaces shape = "tight"    // right: no space after the colon
	untyped       shape = "untyped"  // a right stream that claims to be text/plain
	halfJSON      shape = "half_json"
	bareLines     shape = "bare"     // without the word data
	unframed      shape = "unframed" // without the empty lines between events
	emptyBody     shape = "empty"
	doneOnly      shape = "done" // only the end marker of the chat protocol
	htmlPage      shape = "html"
)

// readable says that a client which is not itself broken gets what was meant.
func (s shape) readable() bool {
	switch s {
	case asAsked, asStream, asJSON, withCRLF, withComments, withoutSpaces, untyped:
		return true
	}
	return false
}

// cut is where and how an answer breaks off.
type cut struct {
	at    part
	after int64 // characters of the part, or bytes; -1 is half of the part
	how   manner
}

// part is a place in an answer.
type part string

const (
	atStart     part = "start"   // before the status line
	atHeaders   part = "headers" // after them
	atReasoning part = "reasoning"
	atText      part = "text"
	atArguments part = "arguments" // of the first call
	atEnd       part = "end"       // all was said, but not that it was all
	atBytes     part = "bytes"     // so many bytes of the body, wherever that is
)

// manner is how it breaks off.
type manner string

const (
	byClose manner = "close" // the body ends as if it were complete
	byAbort manner = "abort" // the connection breaks
	byHang  manner = "hang"  // nothing more comes until the client goes
	byError manner = "error" // an event says that an error happened
)

// Load reads a script. The error is Problems, or a *reason.Error when the file
// cannot be read.
func Load(path string) (*Script, error) {
	src, err := readFile(path)
	if err != nil {
		e := reason.Errorf(reason.ScriptInvalid, "cannot read: %w", err)
		e.File = path
		return nil, e
	}
	return Parse(path, src)
}

func readFile(path string) ([]byte, error) {
	// A FIFO would block the open: look before.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxScriptBytes+1))
	if err == nil && len(src) > MaxScriptBytes {
		err = fmt.Errorf("more than %d bytes", MaxScriptBytes)
	}
	return src, err
}

// Parse reads a script. The name is used in messages only. The error is always
// Problems: everything that is wrong, in source order.
func Parse(file string, src []byte) (*Script, error) {
	r := &reader{file: file}
	top := r.parse(src)
	if top == nil {
		return nil, r.err()
	}
	s := r.script(top)
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (w when) holds(q *asked) bool {
	switch {
	case len(w.protocols) > 0 && !slices.Contains(w.protocols, q.protocol),
		w.model != nil && !w.model.MatchString(q.model),
		w.system != nil && !w.system.MatchString(q.system),
		w.user != nil && !w.user.MatchString(q.user),
		w.toolOutput != nil && !slices.ContainsFunc(q.outputs, w.toolOutput.MatchString),
		w.stream != nil && *w.stream != q.stream,
		w.tools != nil && *w.tools != q.tools:
		return false
	}
	return true
}

// choose returns the answer to a request: of the first conversation whose
// condition holds, the first alternative of the turn whose condition holds and
// that has not been given as often as it may; else one of otherwise. The turn
// is read from the request and not counted here, so that requests that are
// repeated, or made beside the conversation, do not shift the script.
func (s *Script) choose(q *asked, given func(*answer) int64) (*answer, error) {
	for i := range s.conversations {
		c := &s.conversations[i]
		if !c.when.holds(q) {
			continue
		}
		var alternatives []*answer
		if q.turn <= len(c.turns) {
			alternatives = c.turns[q.turn-1]
		}
		for _, a := range slices.Concat(alternatives, c.otherwise) {
			if a.when.holds(q) && (a.times == 0 || given(a) < a.times) {
				return a, nil
			}
		}
		return nil, fmt.Errorf("the script has no answer for turn %d of conversation %d over %s", q.turn, i, q.protocol)
	}
	return nil, fmt.Errorf("no conversation of the script is meant for this request over %s, turn %d", q.protocol, q.turn)
}

// line is an answer with its captures filled in.
type line struct {
	*answer
	text, reasoning string
	calls           []call
}

// fill takes the captures out of what tools said, the last one first, and puts
// them in where the answer names them.
func (a *answer) fill(q *asked) (*line, error) {
	l := &line{answer: a, text: a.text, reasoning: a.reasoning, calls: slices.Clone(a.calls)}
	for _, c := range a.capture {
		found, ok := c.in(q.outputs)
		if !ok {
			return nil, fmt.Errorf("%s: no tool said anything that %s captures", a.field, c.name)
		}
		mark, quoted := "${"+c.name+"}", encoded(found)
		parts := []*string{&l.text, &l.reasoning}
		for i := range l.calls {
			parts = append(parts, &l.calls[i].arguments)
		}
		for i, part := range parts {
			with := found
			if i >= 2 && !l.calls[i-2].custom {
				with = string(quoted[1 : len(quoted)-1]) // arguments are JSON, and a mark is inside of quotes
			}
			if strings.Count(*part, mark)*len(with) > MaxTextBytes {
				return nil, fmt.Errorf("%s: what %s captures is too long to be put in", a.field, c.name)
			}
			*part = strings.ReplaceAll(*part, mark, with)
		}
	}
	if int64(len(l.text))*a.repeat > MaxTextBytes {
		return nil, fmt.Errorf("%s: with its captures the text has more than %d bytes", a.field, MaxTextBytes)
	}
	l.text = strings.Repeat(l.text, int(a.repeat))
	return l, nil
}

func (c capture) in(outputs []string) (string, bool) {
	for _, text := range slices.Backward(outputs) {
		if m := c.pattern.FindStringSubmatch(text); m != nil {
			return m[1], true
		}
	}
	return "", false
}
