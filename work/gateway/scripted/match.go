package scripted

import (
	"fmt"
	"slices"
	"strings"
)

func (w when) holds(q *asked) bool {
	switch {
	case len(w.protocols) > 0 && !slices.Contains(w.protocols, q.protocol),
		w.model != nil && !w.model.MatchString(q.model),
		w.system != nil && !w.system.MatchString(q.system),
		w.user != nil && !w.user.MatchString(q.user),
		w.toolOutput != nil && !slices.ContainsFunc(q.outputs, w.toolOutput.MatchString),
		w.stream != nil && *w.stream != q.stream,
		w.tools != nil && *w.tools != q.tools:
		return false
	}
	return true
}

// choose returns the answer to a request: of the first conversation whose
// condition holds, the first alternative of the turn whose condition holds and
// that has not been given as often as it may; else one of otherwise. The turn
// is read from the request and not counted here, so that requests that are
// repeated, or made beside the conversation, do not shift the script.
func (s *Script) choose(q *asked, given func(*answer) int64) (*answer, error) {
	for i := range s.conversations {
		c := &s.conversations[i]
		if !c.when.holds(q) {
			continue
		}
		var alternatives []*answer
		if q.turn <= len(c.turns) {
			alternatives = c.turns[q.turn-1]
		}
		for _, a := range slices.Concat(alternatives, c.otherwise) {
			if a.when.holds(q) && (a.times == 0 || given(a) < a.times) {
				return a, nil
			}
		}
		return nil, fmt.Errorf("the script has no answer for turn %d of conversation %d over %s", q.turn, i, q.protocol)
	}
	return nil, fmt.Errorf("no conversation of the script is meant for this request over %s, turn %d", q.protocol, q.turn)
}

// line is an answer with its captures filled in.
type line struct {
	*answer
	text, reasoning string
	calls           []call
}

// fill takes the captures out of what tools said, the last one first, and puts
// them in where the answer names them.
func (a *answer) fill(q *asked) (*line, error) {
	l := &line{answer: a, text: a.text, reasoning: a.reasoning, calls: slices.Clone(a.calls)}
	for _, c := range a.capture {
		found, ok := c.in(q.outputs)
		if !ok {
			return nil, fmt.Errorf("%s: no tool said anything that %s captures", a.field, c.name)
		}
		mark, quoted := "${"+c.name+"}", encoded(found)
		parts := []*string{&l.text, &l.reasoning}
		for i := range l.calls {
			parts = append(parts, &l.calls[i].arguments)
		}
		for i, part := range parts {
			with := found
			if i >= 2 && !l.calls[i-2].custom {
				with = string(quoted[1 : len(quoted)-1]) // arguments are JSON, and a mark is inside of quotes
			}
			if strings.Count(*part, mark)*len(with) > MaxTextBytes {
				return nil, fmt.Errorf("%s: what %s captures is too long to be put in", a.field, c.name)
			}
			*part = strings.ReplaceAll(*part, mark, with)
		}
	}
	if int64(len(l.text))*a.repeat > MaxTextBytes {
		return nil, fmt.Errorf("%s: with its captures the text has more than %d bytes", a.field, MaxTextBytes)
	}
	l.text = strings.Repeat(l.text, int(a.repeat))
	return l, nil
}

func (c capture) in(outputs []string) (string, bool) {
	for _, text := range slices.Backward(outputs) {
		if m := c.pattern.FindStringSubmatch(text); m != nil {
			return m[1], true
		}
	}
	return "", false
}
