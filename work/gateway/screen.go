package gateway

import (
	"net/http"
	"slices"
	"strings"

	"remit/proof/reason"
)

// A provider does more than to let a model answer: it searches the web, fetches
// images and documents by URL, calls remote tools, runs code, asks other models.
// Each is a way out of the sandbox, and each is refused. Which names and tools
// are harmless is listed; what is not in the lists is not.

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
		if bad := q.screenState(p, m); bad != nil {
			return bad
		}
		switch {
		case !q.goes(p, m.name):
			if !left[m.name] && !empty(m.value) {
				return hosted("%q is no field of the %s protocol that may go to the provider: it could name another model, another host or state over there", clip(m.name), p)
			}
		case m.name == "model", m.name == "prompt_cache_key": // compared, and replaced
		case m.name == "tools":
			if bad := screenTools(p, m.value, 0); bad != nil {
				return bad
			}
		default:
			look := references{protocol: p, options: !conversation[m.name], stored: q.stored}
			if bad := look.value(m.name, m.value, 0); bad != nil {
				return bad
			}
		}
	}
	return nil
}

// maxToolNesting is how deep tools lie in tools.
const maxToolNesting = 8

// screenTools looks at a list of tools.
func screenTools(p Protocol, list []byte, depth int) (bad *refusal) {
	if kind(list) == 'n' {
		return nil
	}
	if kind(list) != '[' || depth > maxToolNesting {
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
	list, bad := plainMembers(tool)
	if bad != nil {
		return bad
	}
	name := ""
	if v := find(list, "type"); kind(v) != 'n' {
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
		if !empty(find(list, way)) {
			return hosted("a tool with %q would reach another host", way)
		}
	}
	if called, err := text(find(list, "name")); err == nil && strings.HasPrefix(called, "$") {
		return hosted("a tool with the name %q would run at the provider", clip(called))
	}
	look := references{protocol: p, tool: true}
	for _, m := range list {
		if m.name == "tools" {
			bad = screenTools(p, m.value, depth+1)
		} else {
			bad = look.member(m, name, 1)
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// find is the value of a name in a list without doubles, null if there is none.
func find(list []member, name string) []byte {
	for _, m := range list {
		if m.name == name {
			return m.value
		}
	}
	return []byte("null")
}

// plainMembers are the members of an object. One name that stands there twice,
// or twice but for its case and its underscores, is refused: of two, readers
// take different ones.
func plainMembers(object []byte) ([]member, *refusal) {
	list, err := members(object)
	if err != nil {
		return nil, invalid("an object cannot be read: %v", err)
	}
	twice := func(name string) *refusal {
		return refuse(reason.RequestInvalid, http.StatusBadRequest, "an object has %q twice, or in two spellings", clip(name))
	}
	if len(list) <= 12 {
		for i, m := range list {
			for _, other := range list[:i] {
				if other.name == m.name || folded(other.name) == folded(m.name) {
					return nil, twice(m.name)
				}
			}
		}
		return list, nil
	}
	seen := make(map[string]bool, len(list))
	for _, m := range list {
		if seen[folded(m.name)] {
			return nil, twice(m.name)
		}
		seen[folded(m.name)] = true
	}
	return list, nil
}

// folded is a name as the most lenient reader sees it.
func folded(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', ' ':
			return -1
		case '\u017F': // it folds into an s, as the next into a k
			return 's'
		case '\u212A':
			return 'k'
		}
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// clip keeps a foreign word short.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}

// What an operator has stored at a provider (files, containers, vector stores,
// earlier responses, conversations) lies under the same key that an agent's
// requests are sent with. A request that names such a thing reads it, and one
// with "store" leaves something there. Both are refused like an address, unless
// the user allows it: a policy of the repository cannot, since it is not the
// repository's key.

// stateful are fields that only name stored things; they go on where that is
// allowed.
var stateful = map[Protocol]map[string]bool{
	Responses: with(nil, "conversation"),
	Messages:  with(nil, "container"),
}

// goes reports whether a field of a body is one that may go to the provider.
func (q *request) goes(p Protocol, name string) bool {
	return fields[p][name] || q.stored && stateful[p][name]
}

func storedThere(name string) *refusal {
	return hosted("%q refers to what is stored at the provider under the gateway's key: send the content itself (--stored-state allows it)", clip(name))
}

// screenState refuses a field that reads or keeps something over there.
func (q *request) screenState(p Protocol, m member) *refusal {
	switch {
	case m.name == "store" && !slices.Contains([]string{"false", "null"}, string(m.value)) && (!q.stored || string(m.value) != "true"):
		return hosted("\"store\" would keep the conversation at the provider under the gateway's key (--stored-state allows it)")
	case m.name == "container" && kind(m.value) != '"' && !empty(m.value):
		return hosted("a container that is described would run code at the provider")
	case q.stored:
	case m.name == "previous_response_id" && !empty(m.value):
		return storedThere(m.name)
	case m.name == "input" && p == Responses && kind(m.value) == '[':
		bad := (*refusal)(nil)
		elements(m.value, func(item []byte) bool {
			if kind(item) == '{' {
				// An item that is nothing but a name is that of a stored one.
				if list, err := members(item); err == nil && empty(find(list, "type")) && empty(find(list, "role")) && !empty(find(list, "id")) {
					bad = storedThere("id")
				}
			}
			return bad == nil
		})
		return bad
	}
	return nil
}

// storedNames end the names, folded, below which providers take the name of
// something stored.
var storedNames = []string{"fileid", "fileids", "storeid", "storeids", "containerid", "containerids", "uploadid", "uploadids",
	"assetid", "assetids",
	"cachedcontent", "responseid", "conversationid", "threadid"}

// stored reports whether a member of a conversation names something stored.
func stored(m member, sort string) bool {
	name := folded(m.name)
	said, err := text(m.value)
	switch {
	case empty(m.value), err == nil && strings.HasPrefix(said, "data:"):
		return false
	case m.name == "type":
		return sort == "item_reference" || sort == "container_upload"
	case name == "file":
		return err == nil
	case name == "audio":
		if kind(m.value) != '{' {
			return false
		}
		list, err := members(m.value)
		return err == nil && !empty(find(list, "id"))
	}
	return slices.ContainsFunc(storedNames, func(end string) bool { return strings.HasSuffix(name, end) })
}
