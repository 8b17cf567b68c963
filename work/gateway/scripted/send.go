package scripted

import (
	"errors"
	"net/http"
	"strconv"
)

// sendBody sends a body that is known as a whole, or the part of it after which
// it breaks off.
func (p *player) sendBody(status int, kind string, body []byte, reported Usage, as func(*Counts) *int64) {
	length := len(body)
	if len(p.writes) > 0 || p.cut != nil {
		length = -1
	}
	p.begin(status, kind, length)
	if p.cut != nil {
		switch p.cut.at {
		case atHeaders:
			p.limit = 0
		case atBytes:
			p.limit = p.cut.after
		case atEnd:
			p.limit = int64(len(body)) - 1
		default:
			p.limit = int64(len(body)) / 2
		}
	}
	switch err := p.deliver(body, reported, as); {
	case errors.Is(err, errCut):
		p.breakOff()
	case err != nil:
		p.broken()
	}
}

// begin sends the head. With a length unknown it goes out at once.
func (p *player) begin(status int, kind string, length int) {
	h := p.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	if length >= 0 && bodied(status) {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	p.w.WriteHeader(status)
	if length < 0 {
		_ = p.flusher.Flush() // a client that left is noticed by the next write
	}
}

// bodied says that an answer with this status may have a body.
func bodied(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// send writes a part of the body in pieces of the sizes that the script wants,
// up to where the body breaks off.
func (p *player) send(b []byte) error {
	cut := p.limit >= 0 && int64(len(b)) >= p.limit
	if cut {
		b = b[:p.limit]
	}
	if p.limit >= 0 {
		p.limit -= int64(len(b))
	}
	for len(b) > 0 {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		size := len(b)
		if len(p.writes) > 0 {
			size = min(size, p.writes[p.turn%len(p.writes)])
			p.turn++
		}
		if _, err := p.w.Write(b[:size]); err != nil {
			return err
		}
		if err := p.flusher.Flush(); err != nil {
			return err
		}
		b = b[size:]
	}
	if cut {
		return errCut
	}
	return nil
}
