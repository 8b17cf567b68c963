package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"remit/nexus/api"
	"remit/proof/reason"
)

// maxDepth bounds the nesting of a body.
const maxDepth = 64

// decode reads a JSON body strictly into v, a pointer to a generated type: one
// value, valid UTF-8, no key twice, each key known in the same letter case, each
// required key there, no null but where the contract allows it, each enum a word
// of its list. (encoding/json alone takes all of those.) The error names the field.
func decode(contentType string, body []byte, v any) error {
	media, params, err := mime.ParseMediaType(contentType)
	if charset, given := params["charset"]; err != nil || media != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return reason.Errorf(reason.ContentTypeRefused, "the body has the content type %.80q, want application/json", contentType)
	}
	if !utf8.Valid(body) {
		return invalid("", "the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := walk(dec, reflect.TypeOf(v).Elem(), "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("", "something follows the JSON value of the body")
	}
	if err := json.Unmarshal(body, v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return invalid(wrong.Field, "is %s, which does not fit", wrong.Value)
		}
		return invalid("", "the body is not valid JSON: %v", err)
	}
	return checkWords(reflect.ValueOf(v).Elem(), "")
}

// Bounds of texts, in characters: an id, and what people say about what they do.
const (
	maxID     = 128
	maxReason = 1000
)

// reasonOf reads the reason that a request may give.
func reasonOf(body api.ReasonRequest) (string, error) {
	return api.Value(body.Reason), short("reason", body.Reason, maxReason)
}

// short refuses a text with more characters than the contract allows, also
// where the state leaves nothing to do with it.
func short(field string, text *string, most int) error {
	if n := utf8.RuneCountInString(api.Value(text)); n > most {
		return invalid(field, "has %d characters, may have %d", n, most)
	}
	return nil
}

// within refuses a number that was given and is not what the contract allows:
// 0 is not the same as none.
func within(field string, n *int64, low, high int64) error {
	if n != nil && (*n < low || *n > high) {
		return invalid(field, "%d is not %d to %d", *n, low, high)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &reason.Error{Code: reason.RequestInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// walk reads one value and holds it against the type that will take it.
func walk(dec *json.Decoder, t reflect.Type, at string, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return invalid(at, "the body is not valid JSON: %v", plainSyntax(err))
	}
	if depth > maxDepth {
		return invalid(at, "is nested deeper than %d levels", maxDepth)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	free := t == nil // inside a document, whose rules are its own
	if t == rawMessage && tok != json.Delim('{') {
		return invalid(at, "must be an object")
	}
	switch tok {
	case nil:
		if !free {
			return invalid(at, "must not be null")
		}
	case json.Delim('{'):
		return walkObject(dec, t, at, depth)
	case json.Delim('['):
		if !free && t.Kind() != reflect.Slice {
			return invalid(at, "is an array, which does not fit")
		}
		for i := 0; dec.More(); i++ {
			if err := walk(dec, elementOf(t), fmt.Sprintf("%s[%d]", at, i), depth+1); err != nil {
				return err
			}
		}
		_, err := dec.Token()
		return syntax(at, err)
	default:
		if !free && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t.Kind() == reflect.Slice) {
			return invalid(at, "is %s, which does not fit", kindOf(tok))
		}
	}
	return nil
}

func walkObject(dec *json.Decoder, t reflect.Type, at string, depth int) error {
	var fields map[string]reflect.Type
	var required []string
	switch {
	case t == nil || t == rawMessage || t.Kind() == reflect.Map:
	case t.Kind() == reflect.Struct:
		fields, required = fieldsOf(t)
	default:
		return invalid(at, "is an object, which does not fit")
	}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return syntax(at, err)
		}
		key, _ := tok.(string)
		name := join(at, key)
		if seen[key] {
			return invalid(name, "is there twice")
		}
		seen[key] = true
		inside, known := fields[key]
		if fields != nil && !known {
			return invalid(name, "is not known here")
		}
		if fields == nil {
			inside = elementOf(t)
		}
		if err := walk(dec, inside, name, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return syntax(at, err)
	}
	for _, key := range required {
		if !seen[key] {
			return invalid(join(at, key), "is required")
		}
	}
	return nil
}

func syntax(at string, err error) error {
	if err == nil {
		return nil
	}
	return invalid(at, "the body is not valid JSON: %v", plainSyntax(err))
}

func plainSyntax(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// fieldsOf lists the keys of a generated struct. One without omitempty is required.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, required []string) {
	fields = map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
		if !slices.Contains(strings.Split(options, ","), "omitempty") {
			required = append(required, name)
		}
	}
	return fields, required
}

func elementOf(t reflect.Type) reflect.Type {
	if t == nil || t == rawMessage {
		return nil
	}
	return t.Elem()
}

func join(at, key string) string {
	if len(key) > 80 {
		key = key[:80] + "…"
	}
	if at == "" {
		return key
	}
	return at + "." + key
}

func kindOf(tok json.Token) string {
	switch tok.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// checkWords looks for enum values that are not of their list. Generated enums
// know their words.
func checkWords(v reflect.Value, at string) error {
	if word, ok := v.Interface().(interface{ Valid() bool }); ok && v.Kind() == reflect.String {
		if !word.Valid() {
			return invalid(at, "%.40q is not a word of this field", v.String())
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkWords(v.Elem(), at)
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if err := checkWords(field, join(at, name)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if v.Type() == rawMessage {
			return nil
		}
		for i := range v.Len() {
			if err := checkWords(v.Index(i), fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}
