package api

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"remit/proof/reason"
)

const (
	jsonType    = "application/json"
	wrongAnswer = "which is no answer to that request"
	// strangerHint goes with every answer that is not a nexus's.
	strangerHint = "something else than a nexus of this version may be listening there"
)

// mediaOf is the media type of a response without its parameters.
func mediaOf(resp *http.Response) string {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media
}

// isAnswer holds the status and the media type of a success against the contract.
func isAnswer(resp *http.Response, media string, statuses ...int) bool {
	return slices.Contains(statuses, resp.StatusCode) && mediaOf(resp) == media
}

// hide takes the credential out of a text of the other side: a proxy may repeat
// what it was sent in the page that it answers with.
func (c *Client) hide(text string) string {
	if c.token == "" {
		return text
	}
	return strings.ReplaceAll(text, c.token, "[credential]")
}

func (c *Client) statusOf(resp *http.Response) *StatusError {
	return &StatusError{Status: resp.StatusCode, RequestID: c.hide(resp.Header.Get(HeaderRequestID))}
}

// notOurs is the error of an answer that is not of the contract; what says why.
func (c *Client) notOurs(resp *http.Response, what string) error {
	media := resp.Header.Get("Content-Type")
	if media == "" {
		media = "no content type"
	}
	if what != "" {
		what = ", " + what
	}
	return &reason.Error{Code: reason.StoreUnavailable, Hint: strangerHint, Err: c.statusOf(resp),
		Message: c.hide(fmt.Sprintf("unexpected answer from %s %s: status %d, %.100s%s",
			resp.Request.Method, resp.Request.URL.Redacted(), resp.StatusCode, media, what))}
}

// decode reads a JSON body into value, a pointer. It says why the body is not a
// whole value of the type, "" if it is.
func decode(body []byte, value any) string {
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Sprintf("which cannot be read: %.200s", err)
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return "which cannot be read"
	}
	if path := lacking(reflect.TypeOf(value).Elem(), v, ""); path != "" {
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
