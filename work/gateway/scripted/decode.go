package scripted

import (
	"slices"
	"strings"

	"remit/proof/form"
)

// defaults are what the top of a script states for all of its answers.
type defaults struct {
	usage          Usage
	chunks, writes []int
}

// script reads the top of a script.
func (r *reader) script(top *node) *Script {
	s, d := &Script{}, defaults{usage: defaultUsage}
	var turns, otherwise, several *node
	later := func(to **node) func(string, *node) { return func(_ string, n *node) { *to = n } }
	if !r.mapping("", top, []key{
		{"name", r.text(&s.Name)},
		{"usage", r.usage(&d.usage, nil)},
		{"chunks", r.sizes(&d.chunks)},
		{"writes", r.sizes(&d.writes)},
		{"turns", later(&turns)},
		{"otherwise", later(&otherwise)},
		{"conversations", later(&several)},
	}) {
		return nil
	}
	// The defaults are known now, wherever they stand.
	switch alone := turns != nil || otherwise != nil; {
	case alone && several != nil:
		r.add(several, "conversations", "turns of their own belong into one of the conversations",
			"conversations do not go together with turns or otherwise")
	case alone:
		s.conversations = make([]conversation, 1)
		for _, k := range r.conversationKeys(s, &s.conversations[0], d) {
			if n := map[string]*node{"turns": turns, "otherwise": otherwise}[k.name]; n != nil {
				k.read(k.name, n)
			}
		}
	case several != nil:
		r.list("conversations", several, maxItems, func(field string, n *node) {
			var c conversation
			if r.mapping(field, n, r.conversationKeys(s, &c, d)) && c.turns == nil && c.otherwise == nil {
				r.add(n, field, "", "a conversation needs turns or otherwise")
			}
			s.conversations = append(s.conversations, c)
		})
	default:
		r.add(top, "", "write turns: and a list of answers", "a script needs turns, otherwise or conversations")
	}
	return s
}

func (r *reader) conversationKeys(s *Script, c *conversation, d defaults) []key {
	return []key{
		{"when", r.when(&c.when)},
		{"turns", func(field string, n *node) {
			r.list(field, n, maxItems, func(field string, n *node) {
				c.turns = append(c.turns, r.alternatives(s, field, n, d))
			})
		}},
		{"otherwise", func(field string, n *node) { c.otherwise = r.alternatives(s, field, n, d) }},
	}
}

// alternatives reads one answer, or with any a list of them.
func (r *reader) alternatives(s *Script, field string, n *node, d defaults) (all []*answer) {
	one := func(field string, n *node) {
		a := r.answer(field, n, d)
		a.number = s.answers
		s.answers++
		all = append(all, a)
	}
	if n.kind == isMapping && len(n.entries) == 1 && n.entries[0].key == "any" {
		r.list(joined(field, "any"), n.entries[0].value, maxItems, one)
	} else {
		one(field, n)
	}
	return all
}

func (r *reader) when(w *when) func(string, *node) {
	return func(field string, n *node) {
		r.mapping(field, n, []key{
			{"protocol", r.protocols(&w.protocols)},
			{"model", r.pattern(&w.model, -1)},
			{"system", r.pattern(&w.system, -1)},
			{"user", r.pattern(&w.user, -1)},
			{"tool_output", r.pattern(&w.toolOutput, -1)},
			{"stream", r.boolean(&w.stream)},
			{"tools", r.boolean(&w.tools)},
		})
	}
}

func (r *reader) protocols(to *[]Protocol) func(string, *node) {
	one := func(field string, n *node) {
		var p Protocol
		oneOf(r, &p, Chat, Responses, Messages)(field, n)
		*to = append(*to, p)
	}
	return func(field string, n *node) {
		if n.kind == isList {
			r.list(field, n, 3, one)
		} else {
			one(field, n)
		}
	}
}

// usage reads numbers of tokens; silent is set by the word none, where that is
// allowed.
func (r *reader) usage(to *Usage, silent *bool) func(string, *node) {
	return func(field string, n *node) {
		if silent != nil && n.kind == isText && n.text == "none" {
			*silent = true
			return
		}
		*to = Usage{}
		ok := r.mapping(field, n, []key{
			{"in", r.whole(&to.InUncached, 0, maxTokenSum)},
			{"cache_read", r.whole(&to.CacheRead, 0, maxTokenSum)},
			{"cache_write", r.whole(&to.CacheWrite, 0, maxTokenSum)},
			{"out", r.whole(&to.Out, 0, maxTokenSum)},
			{"reasoning", r.whole(&to.Reasoning, 0, maxTokenSum)},
		})
		if ok && to.Reasoning > to.Out {
			r.add(n, joined(field, "reasoning"), "", "reasoning is a part of out: %d of %d", to.Reasoning, to.Out)
		}
	}
}

// captureName is how a capture may be called.
var captureName = form.Lazy(`^[a-z][a-z0-9_]{0,31}$`)

func (r *reader) captures(to *[]capture) func(string, *node) {
	return func(field string, n *node) {
		if n.kind != isMapping || len(n.entries) > maxItems {
			r.wrong(field, n, "a mapping of names to regular expressions")
			return
		}
		for _, e := range n.entries {
			child := joined(field, e.key)
			c := capture{name: e.key}
			if !captureName().MatchString(e.key) {
				r.add(e.at, child, "", "%q is no name: lower case letters, digits and _", e.key)
			} else if slices.ContainsFunc(*to, func(c capture) bool { return c.name == e.key }) {
				r.add(e.at, child, "remove one of the two", "%q is captured twice", e.key)
			}
			r.pattern(&c.pattern, 1)(child, e.value)
			*to = append(*to, c)
		}
	}
}

// headerName and headerValue are what HTTP lets through.
var (
	headerName  = form.Lazy("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")
	headerValue = form.Lazy(`^[\x20-\x7e]{0,1000}$`)
	framing     = []string{"content-length", "transfer-encoding", "connection", "trailer", "upgrade", "keep-alive"}
)

func (r *reader) headers(to *[][2]string) func(string, *node) {
	return func(field string, n *node) {
		if n.kind != isMapping || len(n.entries) > 64 {
			r.wrong(field, n, "a mapping of header names to values")
			return
		}
		for _, e := range n.entries {
			child := joined(field, e.key)
			value := e.value.text
			switch {
			case !headerName().MatchString(e.key):
				r.add(e.at, child, "", "%q is no name of a header", e.key)
			case slices.Contains(framing, strings.ToLower(e.key)):
				r.add(e.at, child, "", "%s is about how the bytes travel, which the server decides", e.key)
			case e.value.kind != isText && e.value.kind != isNumber || !headerValue().MatchString(value):
				r.add(e.value, child, "", "expected printable ASCII")
			}
			*to = append(*to, [2]string{e.key, value})
		}
	}
}
