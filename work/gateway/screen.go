package gateway

import (
	"net/http"
	"strings"

	"remit/proof/reason"
)

// A provider does more than to let a model answer: it searches the web, fetches
// images and documents by URL, calls remote tools, runs code, asks other models.
// Each is a way out of the sandbox, and each is refused. Which names and tools
// are harmless is listed; a tool that is not in the list is not.

// refusedNames are the top-level names behind which another model, another
// host or an answer without this connection may stand.
var refusedNames = map[string]bool{
	"models": true, "fallbacks": true, "route": true, "provider": true, "plugins": true, // other models and providers
	"mcp_servers": true, "web_search_options": true, "search_parameters": true, "container": true, // other hosts, code
	"background": true, "conversation": true, "prompt": true, // state at the provider, templates with a model in them
}

// ownTools are the types of tools that the engine runs itself. An empty type
// is a function in the messages protocol. A trailing star stands for a date.
var ownTools = map[Protocol][]string{
	Chat:      {"function", "custom"},
	Responses: {"function", "custom", "local_shell", "apply_patch", "namespace", "tool_search", "computer", "computer_use_preview"},
	Messages:  {"", "custom", "bash_*", "text_editor_*", "computer_*", "memory_*", "tool_search_tool_*"},
}

func hosted(format string, args ...any) *refusal {
	return refuse(reason.HostedToolRefused, statusRefused, format, args...)
}

// screen refuses a body that would make the provider act.
func (q *request) screen(p Protocol) *refusal {
	for _, m := range q.members {
		if refusedNames[m.name] && !empty(m.value) {
			return hosted("%q lets the provider use another model, another host or state of its own", m.name)
		}
	}
	if bad := screenTools(p, q.member("tools"), 0); bad != nil {
		return bad
	}
	for _, name := range []string{"messages", "input", "system"} {
		if bad := screenParts(p, q.member(name), 0); bad != nil {
			return bad
		}
	}
	return nil
}

// maxNesting is how deep tools lie in tools, and parts in parts.
const maxNesting = 8

// screenTools looks at a list of tools.
func screenTools(p Protocol, list []byte, depth int) (bad *refusal) {
	if kind(list) == 'n' {
		return nil
	}
	if kind(list) != '[' || depth > maxNesting {
		return invalid("tools is not a list of tools")
	}
	elements(list, func(tool []byte) bool {
		bad = screenTool(p, tool, depth)
		return bad == nil
	})
	return bad
}

func screenTool(p Protocol, tool []byte, depth int) *refusal {
	if kind(tool) != '{' {
		return invalid("a tool is not an object")
	}
	parts, bad := watched(tool, "type", "tools", "server_url", "connector_id", "url")
	if bad != nil {
		return bad
	}
	name := ""
	if v, ok := parts["type"]; ok && kind(v) != 'n' {
		var err error
		if name, err = text(v); err != nil {
			return invalid("the type of a tool is not a string")
		}
	}
	own := false
	for _, t := range ownTools[p] {
		prefix, dated := strings.CutSuffix(t, "*")
		own = own || name == t || dated && strings.HasPrefix(name, prefix)
	}
	if !own {
		return hosted("a tool of the type %q would run at the provider", clip(name))
	}
	for _, way := range []string{"server_url", "connector_id", "url"} {
		if v, ok := parts[way]; ok && !empty(v) {
			return hosted("a tool with %q would reach another host", way)
		}
	}
	if nested, ok := parts["tools"]; ok {
		return screenTools(p, nested, depth+1)
	}
	return nil
}

// screenParts looks at messages, at the parts of their content, and at the
// parts inside those, for what the provider would fetch.
func screenParts(p Protocol, v []byte, depth int) (bad *refusal) {
	if depth > maxNesting {
		return invalid("the content is nested too deeply")
	}
	switch kind(v) {
	case '[':
		elements(v, func(part []byte) bool {
			bad = screenParts(p, part, depth+1)
			return bad == nil
		})
		return bad
	case '{':
		return screenPart(p, v, depth)
	}
	return nil
}

func screenPart(p Protocol, part []byte, depth int) *refusal {
	parts, bad := watched(part, "image_url", "video_url", "audio_url", "file_url", "file_data", "file", "source", "content", "output", "tools")
	if bad != nil {
		return bad
	}
	for _, name := range []string{"image_url", "video_url", "audio_url", "file_url", "file_data"} {
		if v, ok := parts[name]; ok {
			if bad := inline(name, v); bad != nil {
				return bad
			}
		}
	}
	if v, ok := parts["source"]; ok && kind(v) == '{' {
		if bad := inline("source", v); bad != nil {
			return bad
		}
	}
	for _, name := range []string{"content", "output", "source", "file"} {
		if v, ok := parts[name]; ok {
			if bad := screenParts(p, v, depth+1); bad != nil {
				return bad
			}
		}
	}
	if v, ok := parts["tools"]; ok { // found by a search, or added on the way
		return screenTools(p, v, depth+1)
	}
	return nil
}

// inline refuses a reference that is not the content itself: a URL as a string,
// or as the "url" of an object. What has no scheme is no URL to a provider.
func inline(name string, v []byte) *refusal {
	switch kind(v) {
	case '"':
		// Plain base64 has no colon in it, and a URL has one after its scheme.
		url, err := text(v)
		if head := url[:min(len(url), 64)]; err != nil || strings.Contains(head, ":") && !strings.HasPrefix(head, "data:") {
			return hosted("%q would make the provider fetch from another host: send the content itself", name)
		}
	case '{':
		parts, bad := watched(v, "url")
		if bad != nil {
			return bad
		}
		if u, ok := parts["url"]; ok && kind(u) != 'n' {
			return inline(name, u)
		}
	case 'n':
	default:
		return invalid("%q is neither a string nor an object", name)
	}
	return nil
}

// watched are the members of an object that are looked at. A name that is one
// of them but for its case, or stands there twice, is refused.
func watched(object []byte, names ...string) (map[string][]byte, *refusal) {
	list, err := members(object)
	if err != nil {
		return nil, invalid("an object cannot be read: %v", err)
	}
	found := map[string][]byte{}
	for _, m := range list {
		for _, name := range names {
			if m.name != name && !strings.EqualFold(m.name, name) {
				continue
			}
			if _, twice := found[name]; twice || m.name != name {
				return nil, refuse(reason.RequestInvalid, http.StatusBadRequest, "an object has %q twice, or in another case", name)
			}
			found[name] = m.value
		}
	}
	return found, nil
}

// clip keeps a foreign word short.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
