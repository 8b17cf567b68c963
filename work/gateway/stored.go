package gateway

import (
	"slices"
	"strings"
)

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
