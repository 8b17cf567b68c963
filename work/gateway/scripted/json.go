package scripted

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order: pairs of a name and
// a value.
type object []any

// list is a JSON list, never null.
type list []any

// encoded is the JSON of a value that is known to have one. Nothing in it is
// encoded twice, however deep it lies: a text may have megabytes.
func encoded(v any) []byte {
	var b bytes.Buffer
	encode(&b, v)
	return b.Bytes()
}

func encode(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i := 0; i+1 < len(v); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			encode(b, v[i])
			b.WriteByte(':')
			encode(b, v[i+1])
		}
		b.WriteByte('}')
	case list:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			encode(b, item)
		}
		b.WriteByte(']')
	case json.RawMessage:
		b.Write(v) // of which the caller knows that it is valid
	default:
		enc := json.NewEncoder(b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			panic("scripted: a value without JSON: " + err.Error())
		}
		b.Truncate(b.Len() - 1) // the encoder ends with a new line
	}
}

// json gives a value of a script, keys in the order of the script.
func (n *node) json() any {
	switch n.kind {
	case isTrue, isFalse:
		return n.kind == isTrue
	case isNumber:
		return json.RawMessage(n.text) // was held against the grammar
	case isText:
		return n.text
	case isList:
		all := list{}
		for _, item := range n.items {
			all = append(all, item.json())
		}
		return all
	case isMapping:
		members := object{}
		for _, e := range n.entries {
			members = append(members, e.key, e.value.json())
		}
		return members
	}
	return nil
}
