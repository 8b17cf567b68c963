package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf8"
)

// frame is one event of a stream. Each protocol makes them as an iterator, so
// that an answer of any size is never in memory as a whole.
type frame struct {
	event string // the name of the event; chat has none
	data  []byte
	usage *Usage // what a client that reads this learns of the usage, besides what it knew
	last  bool   // says that this was all
}

// defaultPiece is how many characters go into one event by default.
const defaultPiece = 48

// reply is an answer on its way to one request.
type reply struct {
	*line
	asked *asked
	id    string // of this response
	seq   int    // of events, where they are numbered
	over  bool   // it broke off; no frame may follow
}

// pieces cuts a part of the answer into what goes into one event each, up to
// the place where the answer breaks off. An empty part has no pieces.
func (a *reply) pieces(p part, text string) iter.Seq[string] {
	limit := -1 // in characters
	if a.cut != nil && a.cut.at == p {
		limit = int(a.cut.after)
		if limit < 0 {
			limit = utf8.RuneCountInString(text) / 2
		}
	}
	return func(yield func(string) bool) {
		rest, sent := text, 0
		for i := 0; rest != ""; i++ {
			size := defaultPiece
			if len(a.chunks) > 0 {
				size = a.chunks[i%len(a.chunks)]
			}
			if limit >= 0 {
				size = min(size, limit-sent)
			}
			if size == 0 {
				break
			}
			n, end := 0, 0
			for n < size && end < len(rest) {
				_, width := utf8.DecodeRuneInString(rest[end:])
				end += width
				n++
			}
			sent += n
			if !yield(rest[:end]) {
				return
			}
			rest = rest[end:]
		}
		a.over = a.over || limit >= 0
	}
}

// ends reports whether the answer breaks off at a point, and if so ends it.
func (a *reply) ends(p part) bool {
	if a.cut != nil && a.cut.at == p {
		a.over = true
	}
	return a.over
}

// callID names the call i of this turn; whatever the conversation, each of its
// calls has another name.
func (a *reply) callID(prefix string, i int) string {
	return fmt.Sprintf("%s_%d_%d", prefix, a.asked.turn, i+1)
}

// answering is the name of the model that answers.
func (a *reply) answering() string {
	if a.model != "" {
		return a.model
	}
	return a.asked.model
}

// stopped is why the model ended, in words of the protocol.
func (a *reply) stopped(end, tools, length, filter string) string {
	switch {
	case a.stop == stopLength:
		return length
	case a.stop == stopFilter:
		return filter
	case a.stop == stopTools, a.stop == "" && len(a.calls) > 0:
		return tools
	}
	return end
}

// encode gives the bytes of an event in the shape of the answer.
func (f frame) encode(s shape) []byte {
	var b bytes.Buffer
	data, newline, space := f.data, "\n", " "
	switch s {
	case withCRLF:
		newline = "\r\n"
	case withoutSpaces:
		space = ""
	case withComments:
		b.WriteString(": scripted\n\n")
	case halfJSON:
		data = data[:len(data)/2]
		for len(data) > 0 && !utf8.Valid(data) {
			data = data[:len(data)-1]
		}
	case bareLines:
		b.Write(data)
		b.WriteString("\n\n")
		return b.Bytes()
	}
	if f.event != "" {
		b.WriteString("event:" + space + f.event + newline)
	}
	b.WriteString("data:" + space)
	b.Write(data)
	b.WriteString(newline)
	if s != unframed {
		b.WriteString(newline)
	}
	return b.Bytes()
}

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
