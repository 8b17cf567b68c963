package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxMembers is how many members an object, or entries a list, of an index may
// have. A reader that believed their number would need many times the memory of the
// text.
const maxMembers = 100_000

var (
	errNoObject = errors.New("no JSON object")
	errNoList   = errors.New("no JSON list")
	errMembers  = errors.New("more members than an index has")
)

// object reads one JSON object, of which only some members matter. A member that
// stands there twice counts as the last, and is written once.
func object(b []byte) (map[string]json.RawMessage, error) {
	m := map[string]json.RawMessage{}
	err := members(b, '{', errNoObject, func(d *json.Decoder) error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errNoObject
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		m[name] = value
		return nil
	})
	return m, err
}

// list gives each entry of one JSON list.
func list(b []byte, entry func(json.RawMessage) error) error {
	return members(b, '[', errNoList, func(d *json.Decoder) error {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		return entry(value)
	})
}

// members reads what is between the delimiters of a document that has nothing
// behind them.
func members(b []byte, open json.Delim, none error, one func(*json.Decoder) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != open {
		return none
	}
	for n := 0; d.More(); n++ {
		if n == maxMembers {
			return errMembers
		}
		if err := one(d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return none
	}
	return nil
}

// textOf is a JSON string, "" for anything else.
func textOf(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s
}

// jsonOf writes values that were read from JSON, or strings.
func jsonOf(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("registry: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
