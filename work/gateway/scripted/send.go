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

// kinds are the types that providers give to their errors.
var kinds = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

// filled puts in what a script leaves out.
func (e problem) filled(status int) problem {
	if e.kind == "" {
		if e.kind = kinds[status]; e.kind == "" {
			e.kind = "api_error"
		}
	}
	if e.message == "" {
		if e.message = http.StatusText(status); e.message == "" {
			e.message = "the scripted model refuses"
		}
	}
	return e
}

// errorBody is an error in the form of a protocol.
func errorBody(p Protocol, status int, e problem) []byte {
	e = e.filled(status)
	if p == Messages {
		return encoded(object{"type", "error", "error", object{"type", e.kind, "message", e.message}})
	}
	var code any
	if e.code != "" {
		code = e.code
	}
	return encoded(object{"error", object{"message", e.message, "type", e.kind, "param", nil, "code", code}})
}

// errorFrame is an error in the middle of a stream.
func (a *reply) errorFrame() frame {
	e := problem{kind: "server_error", message: "the scripted model broke off", code: "server_error"}
	switch a.asked.protocol {
	case Messages:
		e.kind = "api_error"
		return frame{event: "error", data: errorBody(Messages, 0, e)}
	case Responses:
		return a.responsesEvent("error", "code", e.code, "message", e.message, "param", nil)
	}
	return frame{data: errorBody(Chat, 0, e)}
}

func writeError(w http.ResponseWriter, p Protocol, status int, e problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorBody(p, status, e)) // the client may have left
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded(v)) // the client may have left
}
