package gateway

import "strings"

// maxSystem is how much of a system text is read to know an agent by.
const maxSystem = 4 << 10

// agentOf is which of an engine's agents a request is from, by what its model is
// given first; "" if the engine has one only.
func (g *Gateway) agentOf(p Protocol, q *request) string {
	if g.agentIn == nil {
		return ""
	}
	system := q.system(p)
	if len(system) > maxSystem {
		system = strings.ToValidUTF8(system[:maxSystem], "")
	}
	return g.agentIn(system)
}

// system is the beginning of what the model gets before the conversation.
func (q *request) system(p Protocol) (out string) {
	switch p {
	case Responses:
		return spoken(q.member("instructions"))
	case Messages:
		return spoken(q.member("system"))
	}
	if list := q.member("messages"); kind(list) == '[' {
		elements(list, func(first []byte) bool {
			if kind(first) == '{' {
				if parts, err := members(first); err == nil {
					if role, err := text(find(parts, "role")); err == nil && (role == "system" || role == "developer") {
						out = spoken(find(parts, "content"))
					}
				}
			}
			return false
		})
	}
	return out
}

// spoken is a text, or the first text of a list of parts.
func spoken(v []byte) (out string) {
	switch kind(v) {
	case '"':
		out, _ = text(v) // what cannot be read says nothing
	case '[':
		elements(v, func(part []byte) bool {
			if kind(part) == '{' {
				if list, err := members(part); err == nil {
					out, _ = text(find(list, "text")) // as above
				}
			}
			return out == ""
		})
	}
	return out
}
