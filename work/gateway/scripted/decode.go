package scripted

import (
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
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

// answer reads one answer and holds its parts against each other.
func (r *reader) answer(field string, n *node, d defaults) *answer {
	a := &answer{at: n, field: field, repeat: 1, usage: d.usage, chunks: d.chunks, writes: d.writes}
	at := map[string]*node{} // the keys that stand there
	var retryAfter int64
	keys := []key{
		{"when", r.when(&a.when)},
		{"times", r.whole(&a.times, 1, 1<<30)},
		{"capture", r.captures(&a.capture)},
		{"delay", r.duration(&a.delay)},
		{"pace", r.duration(&a.pace)},
		{"headers", r.headers(&a.headers)},
		{"text", r.text(&a.text)},
		{"reasoning", r.text(&a.reasoning)},
		{"calls", r.calls(&a.calls)},
		{"repeat", r.whole(&a.repeat, 1, MaxTextBytes)},
		{"stop", oneOf(r, &a.stop, stopEnd, stopTools, stopLength, stopFilter)},
		{"model", r.text(&a.model)},
		{"usage", r.usage(&a.usage, &a.silent)},
		{"chunks", r.sizes(&a.chunks)},
		{"writes", r.sizes(&a.writes)},
		{"shape", oneOf(r, &a.shape, asStream, asJSON, withCRLF, withComments, withoutSpaces, untyped, halfJSON, bareLines, unframed,
			emptyBody, doneOnly, htmlPage)},
		{"break", r.cut(&a.cut)},
		{"status", r.whole(&a.status, 200, 599)},
		{"body", func(field string, n *node) {
			a.body = new(string)
			r.text(a.body)(field, n)
		}},
		{"error", r.problem(&a.fault)},
		{"retry_after", r.whole(&retryAfter, 0, 1<<20)},
	}
	for i, k := range keys {
		read := k.read
		keys[i].read = func(field string, n *node) {
			at[k.name] = n
			read(field, n)
		}
	}
	known := len(r.problems)
	if !r.mapping(field, n, keys) || len(r.problems) > known {
		return a // what does not fit together may follow from that
	}
	if at["retry_after"] != nil {
		a.headers = append(a.headers, [2]string{"Retry-After", strconv.FormatInt(retryAfter, 10)})
	}
	r.fits(field, n, a, at)
	return a
}

// ofMessages are the keys that say something about a message, ofRefusals
// those about an answer with a status.
var (
	ofMessages = []string{"text", "reasoning", "calls", "repeat", "stop", "model", "usage", "chunks", "shape", "pace"}
	ofRefusals = []string{"body", "error", "retry_after"}
)

// fits refuses what contradicts itself, and what says nothing.
func (r *reader) fits(field string, n *node, a *answer, at map[string]*node) {
	if at["status"] != nil {
		for _, name := range ofMessages {
			if at[name] != nil {
				r.add(at[name], joined(field, name), "", "status and %s do not go together", name)
			}
		}
		if at["body"] != nil && at["error"] != nil {
			r.add(at["error"], joined(field, "error"), "", "body and error do not go together: the error is the body")
		}
		if a.cut != nil && !slices.Contains([]part{atStart, atHeaders, atBytes}, a.cut.at) {
			r.add(at["break"], joined(field, "break.at"), "", "an answer with a status has no %s", a.cut.at)
		}
		return
	}
	for _, name := range ofRefusals {
		if at[name] != nil {
			r.add(at[name], joined(field, name), "add status: 429, for example", "%s needs a status", name)
		}
	}
	says := at["text"] != nil || at["reasoning"] != nil || at["calls"] != nil
	without := a.shape == emptyBody || a.shape == doneOnly || a.shape == htmlPage
	switch {
	case !says && !without && (a.cut == nil || a.cut.at != atStart && a.cut.at != atHeaders):
		r.add(n, field, "give it text, reasoning, calls or a status", "the answer says nothing")
	case without && (says || a.cut != nil):
		r.add(at["shape"], joined(field, "shape"), "", "an answer of shape %s says nothing, and cannot break off", a.shape)
	}
	if int64(len(a.text))*a.repeat > MaxTextBytes {
		r.add(n, joined(field, "repeat"), "", "the text has %d bytes, at most %d are possible", int64(len(a.text))*a.repeat, MaxTextBytes)
	}
	if c := a.cut; c != nil {
		missing := c.at == atText && a.text == "" || c.at == atReasoning && a.reasoning == "" || c.at == atArguments && len(a.calls) == 0
		if missing {
			r.add(at["break"], joined(field, "break.at"), "", "the answer has no %s to break off in", c.at)
		}
	}
}

func (r *reader) calls(to *[]call) func(string, *node) {
	return func(field string, n *node) {
		r.list(field, n, maxItems, func(field string, n *node) {
			c := call{arguments: "{}"}
			var ways []string // in which the arguments are given
			way := func(read func(string, *node)) func(string, *node) {
				return func(field string, n *node) {
					ways = append(ways, field)
					read(field, n)
				}
			}
			ok := r.mapping(field, n, []key{
				{"name", r.text(&c.name)},
				{"arguments", way(func(field string, n *node) {
					if n.kind != isMapping {
						r.wrong(field, n, "a mapping")
						return
					}
					c.arguments = string(encoded(n.json()))
				})},
				{"raw", way(r.text(&c.arguments))},
				{"input", way(func(field string, n *node) {
					c.custom = true
					r.text(&c.arguments)(field, n)
				})},
			})
			switch {
			case ok && c.name == "":
				r.add(n, joined(field, "name"), "", "a call needs the name of a tool")
			case len(ways) > 1:
				r.add(n, field, "arguments is a mapping, raw is text in its place, input is for a tool that takes text",
					"%s and %s do not go together", ways[0], ways[1])
			}
			*to = append(*to, c)
		})
	}
}

func (r *reader) cut(to **cut) func(string, *node) {
	return func(field string, n *node) {
		c := &cut{after: -1}
		ok := r.mapping(field, n, []key{
			{"at", oneOf(r, &c.at, atStart, atHeaders, atReasoning, atText, atArguments, atEnd, atBytes)},
			{"after", r.whole(&c.after, 0, 1<<40)},
			{"how", oneOf(r, &c.how, byClose, byAbort, byHang, byError)},
		})
		if !ok {
			return
		}
		*to = c
		counted := c.at == atBytes || c.at == atText || c.at == atReasoning || c.at == atArguments
		switch {
		case c.at == "" || c.how == "":
			if len(n.entries) == 0 || !r.knownAt(field) {
				r.add(n, field, "for example {at: text, how: abort}", "a break needs at and how")
			}
		case c.after >= 0 && !counted:
			r.add(n, joined(field, "after"), "", "%s is a point: nothing comes after so many of it", c.at)
		case c.after < 0 && c.at == atBytes:
			r.add(n, joined(field, "after"), "", "bytes needs after")
		case c.at == atStart && (c.how == byClose || c.how == byError):
			r.add(n, joined(field, "how"), "abort, hang, or a status", "an answer that has not begun cannot end with %s", c.how)
		case c.at == atBytes && c.how == byError:
			r.add(n, joined(field, "how"), "close, abort or hang", "an event cannot begin in the middle of another")
		}
	}
}

// knownAt reports whether something below the field is wrong already.
func (r *reader) knownAt(field string) bool {
	return slices.ContainsFunc(r.problems, func(p *reason.Error) bool { return strings.HasPrefix(p.Field, field+".") })
}

func (r *reader) problem(to *problem) func(string, *node) {
	return func(field string, n *node) {
		r.mapping(field, n, []key{
			{"type", r.text(&to.kind)},
			{"message", r.text(&to.message)},
			{"code", r.text(&to.code)},
		})
	}
}
