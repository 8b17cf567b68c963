package gateway

import (
	"bytes"
	"slices"
	"strings"
)

// references looks through a part of a body for what the provider would fetch.
//
// Every string is looked at, below whatever name, for the names under which
// servers take addresses have no end: image_url, document_url, video, images,
// input_audio.data, … A string may begin like an address only where it is text
// (see plainText). Below a name that stands for content, it has to be the
// content itself: a data: URL, or base64 from its first byte to its last.
type references struct {
	protocol Protocol
	options  bool // not a conversation: a member may not even name something else
	tool     bool // schemas stand in it
	stored   bool // it may name what is stored at the provider
}

// maxNesting is how deep objects and lists lie in each other.
const maxNesting = 24

// value looks at a value below a name.
func (r references) value(name string, v []byte, depth int) (bad *refusal) {
	if depth > maxNesting {
		return invalid("the content is nested too deeply")
	}
	switch kind(v) {
	case '"':
		return r.str(name, v)
	case '[':
		elements(v, func(part []byte) bool {
			bad = r.value(name, part, depth+1)
			return bad == nil
		})
		return bad
	case '{':
		list, bad := plainMembers(v)
		if bad != nil {
			return bad
		}
		sort, err := text(find(list, "type"))
		if err != nil {
			sort = ""
		}
		for _, m := range list {
			if bad := r.member(m, sort, depth+1); bad != nil {
				return bad
			}
		}
	}
	return nil
}

// member looks at a member of an object, whose type decides what two of the
// names mean.
func (r references) member(m member, sort string, depth int) *refusal {
	switch {
	case r.options && !empty(m.value) && slices.ContainsFunc(elsewhere,
		func(part string) bool { return strings.Contains(folded(m.name), part) }):
		return hosted("an option has %q, which could name something else than the admitted model", clip(m.name))
	case (r.options || r.tool) && schemas[m.name]:
		return screenSchema(m.value, 0)
	case !r.options && opaque[m.name], m.name == "input" && sort == "tool_use":
		return nil
	case !r.stored && stored(m, sort):
		return storedThere(m.name)
	case m.name == "tools" && !r.options: // found by a search, or added on the way
		return screenTools(r.protocol, m.value, 1)
	case kind(m.value) == '"' && (m.name == "data" && sort == "text" || m.name == "source" && sort == "search_result"):
		return nil
	case r.tool && m.name == "name":
		if called, err := text(m.value); err == nil && strings.HasPrefix(called, "$") {
			return hosted("a tool with the name %q would run at the provider", clip(called))
		}
	}
	return r.value(m.name, m.value, depth)
}

func (r references) str(name string, v []byte) *refusal {
	if plainText[name] {
		return nil
	}
	s, err := text(v)
	if err != nil {
		return invalid("a string cannot be read")
	}
	if isContent(name) && !inline(s) || address(s) {
		return hosted("%q would make the provider fetch from another host: send the content itself", clip(name))
	}
	return nil
}

// isContent reports whether a name stands for content or its address.
func isContent(name string) bool {
	name = folded(name)
	switch strings.TrimSuffix(name, "s") {
	case "image", "video", "audio", "document", "pdf", "filedata":
		return true
	}
	for _, end := range []string{"url", "urls", "uri", "uris", "href"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// base64Letters are those of both alphabets.
const base64Letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/-_"

// inline reports whether a string is content and no reference. A path is made
// of letters of base64 as well: what begins with a slash is content only as a
// JPEG begins.
func inline(s string) bool {
	if s == "" || strings.HasPrefix(s, "data:") {
		return true
	}
	if s[0] == '/' && !strings.HasPrefix(s, "/9j/") {
		return false
	}
	return strings.Trim(strings.TrimRight(s, "="), base64Letters) == ""
}

// address reports whether a provider could take a string for an address: behind
// whatever is no letter, as clients leave out blanks and control characters, it
// has a scheme other than data, or begins with two slashes.
func address(s string) bool {
	at := strings.IndexFunc(s, func(c rune) bool { return letter(c) || '0' <= c && c <= '9' || c == '/' || c == '\\' })
	if at < 0 {
		return false
	}
	s = s[at:]
	if s[0] == '/' || s[0] == '\\' {
		rest := strings.TrimLeft(s[1:], "\t\r\n")
		return rest != "" && (rest[0] == '/' || rest[0] == '\\')
	}
	if !letter(rune(s[0])) || strings.HasPrefix(s, "data:") {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c == ':':
			return true
		case letter(rune(c)), '0' <= c && c <= '9', c == '+', c == '-', c == '.', c <= ' ' && c != ' ':
			// Of a scheme, or left out within one.
		default:
			return false
		}
	}
	return false
}

func letter(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// maxSchemaNesting is how deep a schema is followed.
const maxSchemaNesting = 32

// screenSchema refuses a schema that a validator would have to fetch a part of.
// Nothing else in one is an address.
func screenSchema(v []byte, depth int) (bad *refusal) {
	if depth == 0 && !bytes.Contains(v, []byte(`ef"`)) && !bytes.Contains(v, []byte(`\u00`)) {
		return nil // none of the names below stands in it
	}
	if depth > maxSchemaNesting {
		return invalid("a schema is nested too deeply")
	}
	switch kind(v) {
	case '[':
		elements(v, func(part []byte) bool {
			bad = screenSchema(part, depth+1)
			return bad == nil
		})
	case '{':
		list, err := members(v)
		if err != nil {
			return invalid("a schema cannot be read: %v", err)
		}
		for _, m := range list {
			if strings.HasPrefix(m.name, "$") && strings.HasSuffix(strings.ToLower(m.name), "ref") && kind(m.value) == '"' {
				if to, err := text(m.value); err != nil || address(to) {
					return hosted("a schema with a %s elsewhere would be fetched", clip(m.name))
				}
			}
			if bad := screenSchema(m.value, depth+1); bad != nil {
				return bad
			}
		}
	}
	return bad
}
