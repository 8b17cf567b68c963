package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"remit/proof/reason"
)

// Whatever listens at a URL can answer with 200: a proxy's login page, another
// service, a nexus of another version. So a success counts only if the contract
// has it: with the status, the media type and the members that it promises.
// Callers then find the JSON200 (or 201) of an answer that came without an error.

// form is what the contract says of one answer. The table of all is in
// answers.gen.go.
type form struct {
	media string       // "" is no body
	value reflect.Type // of a JSON body, else nil
}

func jsonOf[T any]() form { return form{media: "application/json", value: reflect.TypeFor[T]()} }

// maxAnswer bounds a JSON answer, in bytes: a page of the largest items.
const maxAnswer = 64 << 20

// strangerHint goes with every answer that is not a nexus's.
const strangerHint = "something else than a nexus of this version may be listening there"

// operations finds the entry of the table for a request.
var operations = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern := range answers {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	return mux
})

// accept returns an answer that the contract has. The body of a JSON answer is
// in memory then. It closes what it refuses.
func (d *doer) accept(resp *http.Response) (*http.Response, error) {
	req := resp.Request.Clone(resp.Request.Context())
	req.URL.Path, req.URL.RawPath = "/"+strings.TrimLeft(strings.TrimPrefix(req.URL.Path, strings.TrimSuffix(d.base, "/")), "/"), ""
	_, pattern := operations().Handler(req)
	want, known := answers[pattern][resp.StatusCode]
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var what string
	switch {
	case !known || want.media != "" && media != want.media:
		what = "which is no answer to that request"
	case want.value == nil:
		return resp, nil
	default:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err != nil {
			_ = resp.Body.Close() // it is broken already
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		if len(body) > maxAnswer {
			what = fmt.Sprintf("of more than %d bytes", maxAnswer)
			break
		}
		if what = misfit(want.value, body); what == "" {
			_ = resp.Body.Close() // all of it is here
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, nil
		}
	}
	_ = resp.Body.Close() // nobody reads on
	return nil, &reason.Error{Code: reason.StoreUnavailable, Message: unexpected(resp, what), Hint: strangerHint,
		Err: &StatusError{Status: resp.StatusCode, RequestID: resp.Header.Get(HeaderRequestID)}}
}

// unexpected describes an answer that is not of the contract.
func unexpected(resp *http.Response, what string) string {
	media := resp.Header.Get("Content-Type")
	if media == "" {
		media = "no content type"
	}
	if what != "" {
		what = ", " + what
	}
	return fmt.Sprintf("unexpected answer from %s %s: status %d, %.100s%s", resp.Request.Method, resp.Request.URL.Redacted(), resp.StatusCode, media, what)
}

// misfit says why a JSON body is not a whole value of the type, "" if it is.
func misfit(t reflect.Type, body []byte) string {
	if err := json.Unmarshal(body, reflect.New(t).Interface()); err != nil {
		return fmt.Sprintf("which cannot be read: %.200s", err)
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "which cannot be read"
	}
	if path := lacking(t, v, ""); path != "" {
		return fmt.Sprintf("which lacks %q", path)
	}
	return ""
}

// lacking returns the path of a member that the type demands and v does not
// have, "" if it has all. Optional members are those with omitempty.
func lacking(t reflect.Type, v any, path string) string {
	switch t.Kind() {
	case reflect.Pointer:
		if v != nil {
			return lacking(t.Elem(), v, path)
		}
	case reflect.Slice:
		list, _ := v.([]any)
		for i, item := range list {
			if t.Elem().Kind() == reflect.Uint8 {
				break // any JSON: it is not ours to judge
			}
			if missing := lacking(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i)); missing != "" {
				return missing
			}
		}
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			if path == "" {
				return "{}"
			}
			return path
		}
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "" || name == "-" {
				continue
			}
			member, there := object[name]
			if !there && !strings.Contains(options, "omitempty") {
				return strings.TrimPrefix(path+"."+name, ".")
			}
			if member != nil {
				if missing := lacking(f.Type, member, strings.TrimPrefix(path+"."+name, ".")); missing != "" {
					return missing
				}
			}
		}
	}
	return ""
}
