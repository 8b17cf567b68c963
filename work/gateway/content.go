package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
)

// content is what a streamed answer says, as far as a probe wants to know.
type content struct {
	text    bool
	thought bool
	calls   map[string]*strings.Builder // arguments of tool calls, by their place
}

// something reports whether the answer is of use to an engine.
func (c *content) something() bool { return c.text || len(c.calls) > 0 }

// broken reports whether a tool call could not be carried out.
func (c *content) broken() bool {
	for _, args := range c.calls {
		text := strings.TrimSpace(args.String())
		if text != "" && (!json.Valid([]byte(text)) || text[0] != '{') { // a call without arguments may state none
			return true
		}
	}
	return false
}

// said is a text, or whatever else a provider puts in its place.
type said string

// UnmarshalJSON never fails.
func (s *said) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*string)(s)) != nil && !empty(b) {
		*s = "…"
	}
	return nil
}

func (c *content) say(text string) { c.text = c.text || strings.TrimSpace(text) != "" }

func (c *content) call(place, args string) {
	if c.calls[place] == nil {
		c.calls[place] = &strings.Builder{}
	}
	c.calls[place].WriteString(args)
}

// take reads one event that the meter has accepted; what it does not know, it
// passes over.
func (c *content) take(p Protocol, data []byte) {
	switch p {
	case Chat:
		c.takeChat(data)
	case Responses:
		c.takeResponses(data)
	default:
		c.takeMessages(data)
	}
}

func (c *content) takeChat(data []byte) {
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content   said   `json:"content"`
				Refusal   string `json:"refusal"`
				Reasoning string `json:"reasoning"`
				Thinking  string `json:"reasoning_content"`
				Calls     []struct {
					Index    int `json:"index"`
					Function struct {
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &chunk) != nil {
		return
	}
	for _, choice := range chunk.Choices {
		c.say(string(choice.Delta.Content) + choice.Delta.Refusal)
		c.thought = c.thought || choice.Delta.Reasoning != "" || choice.Delta.Thinking != ""
		for _, call := range choice.Delta.Calls {
			c.call(fmt.Sprint(call.Index), call.Function.Arguments)
		}
	}
}

func (c *content) takeResponses(data []byte) {
	var e struct {
		Type string `json:"type"`
		Item struct {
			Type      string `json:"type"`
			ID        string `json:"id"`
			CallID    string `json:"call_id"`
			Arguments string `json:"arguments"`
			Content   []struct {
				Text    string `json:"text"`
				Refusal string `json:"refusal"`
			} `json:"content"`
		} `json:"item"`
	}
	// The item at its end is whole, and the one thing that every client reads.
	if json.Unmarshal(data, &e) != nil || e.Type != "response.output_item.done" {
		return
	}
	switch e.Item.Type {
	case "reasoning":
		c.thought = true
	case "function_call":
		c.call(e.Item.ID+" "+e.Item.CallID, e.Item.Arguments)
	case "message":
		for _, part := range e.Item.Content {
			c.say(part.Text + part.Refusal)
		}
	default: // custom_tool_call, local_shell_call, …
		c.text = c.text || strings.HasSuffix(e.Item.Type, "_call")
	}
}

func (c *content) takeMessages(data []byte) {
	var e struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content_block"`
		Delta struct {
			Type string `json:"type"`
			Text string `json:"text"`
			JSON string `json:"partial_json"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &e) != nil {
		return
	}
	place := fmt.Sprint(e.Index)
	switch {
	case e.Type == "content_block_start" && e.Block.Type == "tool_use":
		c.call(place, "")
	case e.Type == "content_block_start" && e.Block.Type == "text":
		c.say(e.Block.Text)
	case e.Type == "content_block_start" && strings.Contains(e.Block.Type, "thinking"):
		c.thought = true
	case e.Delta.Type == "text_delta":
		c.say(e.Delta.Text)
	case e.Delta.Type == "input_json_delta":
		c.call(place, e.Delta.JSON)
	}
}

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
