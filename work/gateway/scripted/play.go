package scripted

import (
	"context"
	"errors"
	"iter"
	"net/http"
)

// player sends one answer, with the faults that it has.
type player struct {
	*reply

	server  *Server
	w       http.ResponseWriter
	flusher *http.ResponseController
	ctx     context.Context // of the one request that this is the answer to
	writes  []int           // sizes of what goes out at once
	turn    int             // of writes
	limit   int64           // bytes of the body before it breaks off; -1: none
}

var errCut = errors.New("the answer breaks off here")

// play sends the answer, or as much of it as there is.
func (p *player) play() {
	if p.server.wait(p.ctx, p.delay) != nil {
		p.broken()
		return
	}
	if p.cut != nil && p.cut.at == atStart {
		p.breakOff()
		return
	}
	for _, h := range p.headers {
		p.w.Header().Add(h[0], h[1])
	}
	streams := p.asked.stream
	switch p.shape {
	case asJSON:
		streams = false
	case asAsked:
	default:
		streams = true
	}
	switch {
	case p.status != 0:
		p.refuse()
	case streams:
		p.stream()
	default:
		p.whole()
	}
}

// stream sends an event stream.
func (p *player) stream() {
	kind := "text/event-stream"
	switch p.shape {
	case untyped:
		kind = "text/plain; charset=utf-8"
	case htmlPage:
		kind = "text/html; charset=utf-8"
	}
	p.begin(http.StatusOK, kind, -1)
	if p.cut != nil && p.cut.at == atHeaders {
		p.breakOff()
		return
	}
	if p.cut != nil && p.cut.at == atBytes {
		p.limit = p.cut.after
	}
	switch err := p.frames(); {
	case errors.Is(err, errCut) || err == nil && p.over:
		p.breakOff()
	case err != nil:
		p.broken()
	}
}

// page is what a proxy in the way says.
const page = "<!doctype html><html><head><title>Welcome</title></head><body><h1>Please sign in to use this network</h1></body></html>\n"

func (p *player) frames() error {
	switch p.shape {
	case emptyBody:
		return p.deliver(nil, Usage{}, completed)
	case doneOnly:
		return p.deliver([]byte("data: [DONE]\n\n"), Usage{}, completed)
	case htmlPage:
		return p.deliver([]byte(page), Usage{}, completed)
	}
	first := true
	for f := range p.events() {
		if !first {
			if err := p.server.wait(p.ctx, p.pace); err != nil {
				return err
			}
		}
		first = false
		var reported Usage
		if f.usage != nil && p.shape.readable() {
			reported = *f.usage
		}
		end := nothing
		if f.last {
			end = completed
		}
		if err := p.deliver(f.encode(p.shape), reported, end); err != nil {
			return err
		}
	}
	return nil
}

// The ways in which an answer that was sent as a whole counts.
func nothing(*Counts) *int64     { return new(int64) }
func completed(c *Counts) *int64 { return &c.Completed }
func refused(c *Counts) *int64   { return &c.Refused }

// deliver counts what a client learns from b, and then sends it: a client that has
// read it finds it counted.
func (p *player) deliver(b []byte, u Usage, as func(*Counts) *int64) error {
	add := func(sign int64) {
		p.server.count(func(c *Counts) {
			c.InUncached += sign * u.InUncached
			c.CacheRead += sign * u.CacheRead
			c.CacheWrite += sign * u.CacheWrite
			c.Out += sign * u.Out
			c.Reasoning += sign * u.Reasoning
			*as(c) += sign
		})
	}
	add(1)
	err := p.send(b)
	if err != nil {
		add(-1)
	}
	return err
}

// events are those of the protocol that was asked in.
func (p *player) events() iter.Seq[frame] {
	switch p.asked.protocol {
	case Responses:
		return p.responsesFrames()
	case Messages:
		return p.messagesFrames()
	}
	return p.chatFrames()
}

// whole sends the answer in one piece of JSON. One that is to break off
// somewhere in it breaks off in the middle.
func (p *player) whole() {
	var body []byte
	switch p.asked.protocol {
	case Responses:
		body = p.responsesWhole()
	case Messages:
		body = p.messagesWhole()
	default:
		body = p.chatWhole()
	}
	var reported Usage
	if !p.silent {
		reported = p.usage
	}
	p.sendBody(http.StatusOK, "application/json", body, reported, completed)
}

// refuse sends an answer that has a status of its own.
func (p *player) refuse() {
	status := int(p.status)
	kind, body := "application/json", errorBody(p.asked.protocol, status, p.fault)
	switch {
	case !bodied(status), status < 400 && p.body == nil && p.fault == problem{}:
		body = nil
	case p.body != nil:
		kind, body = "text/plain; charset=utf-8", []byte(*p.body)
	}
	if given := p.w.Header().Get("Content-Type"); given != "" {
		kind = given
	}
	p.sendBody(status, kind, body, Usage{}, refused)
}

func (p *player) broken() { p.server.count(func(c *Counts) { c.Broken++ }) }

// breakOff ends an answer in the way that the script wants. It does not return
// when the connection is to break.
func (p *player) breakOff() {
	p.broken()
	switch p.cut.how {
	case byHang:
		p.server.hung.Add(1)
		<-p.ctx.Done()
	case byError:
		if p.asked.stream && p.shape != asJSON || p.shape == asStream {
			_, _ = p.w.Write(p.errorFrame().encode(p.shape)) // the client may have left
			return
		}
		panic(http.ErrAbortHandler)
	case byAbort:
		panic(http.ErrAbortHandler)
	}
}
