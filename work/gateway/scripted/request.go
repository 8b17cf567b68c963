package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// asked is what a script may know of a request.
type asked struct {
	protocol Protocol
	model    string
	stream   bool
	usage    bool // chat: a stream is to report it
	tools    bool // the engine offers some
	system   string
	user     string   // everything that the user said
	outputs  []string // of tools, in the order of the request
	turn     int      // which turn of the model this is to be, from 1
}

// understand reads the body of a request. It takes more than it needs to: what
// a model must be given is the gateway's business and the provider's.
func understand(p Protocol, body []byte) (*asked, error) {
	var head struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("the body is not the JSON of a request: %w", err)
	}
	if head.Model == "" {
		return nil, fmt.Errorf("the request names no model")
	}
	a := &asked{protocol: p, model: head.Model, stream: head.Stream, tools: len(head.Tools) > 0, usage: true}
	var err error
	switch p {
	case Chat:
		err = a.chat(body)
	case Responses:
		err = a.responses(body)
	case Messages:
		err = a.messages(body)
	}
	return a, err
}

// said is a part of a conversation, whatever the protocol calls it.
type said struct {
	Type    string  `json:"type"`
	Role    string  `json:"role"`
	Content content `json:"content"`
	Output  content `json:"output"`
}

// add takes in the parts in order. What the model said between two others
// is one turn, in however many parts.
func (a *asked) add(all []said) {
	var system, user []string
	turns, before := 0, false
	for _, s := range all {
		// In responses a call of a tool has no role, but a type; in the others
		// it is inside of the model's message.
		model := s.Role == "assistant" || strings.HasSuffix(s.Type, "_call") || s.Type == "reasoning"
		if model && !before {
			turns++
		}
		before = model
		switch {
		case s.Role == "tool":
			a.outputs = append(a.outputs, s.Content.text)
		case strings.HasSuffix(s.Type, "_call_output"):
			a.outputs = append(a.outputs, s.Output.text)
		case s.Role == "system", s.Role == "developer":
			system = append(system, s.Content.text)
		case s.Role == "user":
			a.outputs = append(a.outputs, s.Content.outputs...)
			if s.Content.text != "" {
				user = append(user, s.Content.text)
			}
		}
	}
	a.turn = turns + 1
	if a.system != "" {
		system = append([]string{a.system}, system...)
	}
	a.system, a.user = strings.Join(system, "\n"), strings.Join(user, "\n")
}

func (a *asked) chat(body []byte) error {
	var r struct {
		Messages []said `json:"messages"`
		Options  struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("messages cannot be read: %w", err)
	}
	a.usage = r.Options.Usage || !a.stream
	a.add(r.Messages)
	return nil
}

func (a *asked) responses(body []byte) error {
	var r struct {
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("instructions cannot be read: %w", err)
	}
	a.system = r.Instructions
	var text string
	if json.Unmarshal(r.Input, &text) == nil {
		a.add([]said{{Role: "user", Content: content{text: text}}})
		return nil
	}
	var items []said
	if err := json.Unmarshal(r.Input, &items); err != nil {
		return fmt.Errorf("input cannot be read: %w", err)
	}
	a.add(items)
	return nil
}

func (a *asked) messages(body []byte) error {
	var r struct {
		System   content `json:"system"`
		Messages []said  `json:"messages"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("messages cannot be read: %w", err)
	}
	a.system = r.System.text
	a.add(r.Messages)
	return nil
}

// content is a text, or a list of parts: texts, and in the messages protocol
// what tools gave back.
type content struct {
	text    string
	outputs []string
}

// UnmarshalJSON takes either form; parts of other kinds, images for example,
// say nothing to a script.
func (c *content) UnmarshalJSON(raw []byte) error { return c.read(raw, true) }

func (c *content) read(raw []byte, outer bool) error {
	if json.Unmarshal(raw, &c.text) == nil {
		return nil
	}
	var parts []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	var texts []string
	for _, p := range parts {
		switch {
		case p.Type == "tool_result":
			var inner content
			if !outer || len(p.Content) == 0 {
				continue // a result in a result is left out: no tool makes one
			}
			if err := inner.read(p.Content, false); err != nil {
				return err
			}
			c.outputs = append(c.outputs, inner.text)
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	c.text = strings.Join(texts, "\n")
	return nil
}
