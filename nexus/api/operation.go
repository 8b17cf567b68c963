package api

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"remit/proof/reason"
)

// Operation is one operation of openapi.yaml. Clients call it and the server
// routes it; operations.gen.go lists all.
type Operation struct {
	ID     string // operationId
	Method string
	Path   string // names of parameters in braces
	Scope  string // x-scope, "" without a credential
	Status int    // of a success

	BodyOptional bool
}

// Mutates reports whether a request takes an Idempotency-Key.
func (o Operation) Mutates() bool { return o.Method != http.MethodGet }

// The kinds of operation. P are the parameters without the Idempotency-Key: a
// string for a single one in the path, a struct for others. B is the JSON body
// of the request, R that of the answer. None stands for what there is not.
type (
	// Query reads a value.
	Query[P, R any] struct{ Operation }
	// Mutation changes something and answers with a value.
	Mutation[P, B, R any] struct{ Operation }
	// Ensure is a mutation that answers 200 instead when the thing exists already.
	Ensure[P, B, R any] struct{ Operation }
	// Upload is a mutation whose body is not JSON.
	Upload[P, R any] struct{ Operation }
	// Download reads bytes of a media type.
	Download[P any] struct {
		Operation
		Media string
	}
	// WebSocket opens a connection, see [Listen].
	WebSocket[P any] struct{ Operation }
)

// None is no parameters or no body.
type None struct{}

// Content is the body of an [Upload]. Open is called for each attempt.
type Content struct {
	Open func() (io.ReadCloser, error)
	Size int64 // in bytes
}

// address returns the URL of a request below base, and sets its headers. A
// parameter stays inside its segment of the path: it is escaped, and refused if a
// server or a proxy that unescapes too early would remove it, or others, from the path.
func (o Operation) address(base *url.URL, params any, header http.Header) (*url.URL, error) {
	segments, query := map[string]string{}, url.Values{}
	if v := reflect.ValueOf(params); v.Kind() == reflect.String {
		_, rest, _ := strings.Cut(o.Path, "{")
		name, _, _ := strings.Cut(rest, "}")
		segments[name] = v.String()
	} else {
		for f, value := range v.Fields() {
			if value.Kind() == reflect.Pointer {
				if value.IsNil() {
					continue
				}
				value = value.Elem()
			}
			text := fmt.Sprint(value)
			switch place, name, _ := strings.Cut(f.Tag.Get("in"), ":"); place {
			case "path":
				segments[name] = text
			case "query":
				query.Set(name, text)
			default:
				header.Set(name, text)
			}
		}
	}
	u := *base
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(base.Path, "/"), strings.TrimSuffix(base.EscapedPath(), "/"), query.Encode()
	for part := range strings.SplitSeq(strings.TrimPrefix(o.Path, "/"), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			if part = segments[name]; !staysInPlace(part) {
				e := reason.Errorf(reason.RequestInvalid, "%.80q cannot be part of the address of a request", part)
				e.Field = name
				return nil, e
			}
		}
		u.Path += "/" + part
		u.RawPath += "/" + url.PathEscape(part)
	}
	return &u, nil
}

// staysInPlace reports whether a parameter has neither empty parts nor dots for parts.
func staysInPlace(part string) bool {
	for p := range strings.SplitSeq(strings.ReplaceAll(part, `\`, "/"), "/") {
		if p == "" || p == "." || p == ".." {
			return false
		}
	}
	return true
}
