package scripted

import "net/http"

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
