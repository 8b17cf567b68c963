package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// chatUsage is the usage of the chat protocol. prompt_tokens includes what was
// cached.
type chatUsage struct {
	Prompt     *count `json:"prompt_tokens"`
	Completion count  `json:"completion_tokens"`
	In         struct {
		Read  count `json:"cached_tokens"`
		Write count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	Out struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (m *meter) chatUsed(raw json.RawMessage) {
	var u chatUsage
	if !given(raw) || json.Unmarshal(raw, &u) != nil || u.Prompt == nil {
		return
	}
	m.usage = split(*u.Prompt, u.In.Read, u.In.Write)
	m.usage.Out = u.Completion.n
	m.usage.Reasoning = min(u.Out.Reasoning.n, u.Completion.n)
	m.metered, m.strange = true, odd(*u.Prompt, u.Completion, u.In.Read, u.In.Write, u.Out.Reasoning)
}

// chatEvent follows chunks up to [DONE]. A [DONE] without a finish_reason ends
// nothing: some engines take it for a success with no content.
func (m *meter) chatEvent(e event) (step, error) {
	if string(bytes.TrimSpace(e.data)) == "[DONE]" {
		if !m.concluded {
			return hide, fmt.Errorf("%w: it ends without a finish_reason", errMalformed)
		}
		return last, nil
	}
	var chunk struct {
		Model   string          `json:"model"`
		Error   json.RawMessage `json:"error"`
		Usage   json.RawMessage `json:"usage"`
		Choices *[]struct {
			Finish *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := decode(e.data, &chunk); err != nil {
		return hide, err
	}
	if given(chunk.Error) {
		m.failed = failure(chunk.Error)
		return fatal, nil
	}
	if chunk.Choices == nil && !given(chunk.Usage) {
		return hide, fmt.Errorf("%w: a chunk has neither choices nor usage", errMalformed)
	}
	m.began = true
	m.named(chunk.Model)
	m.chatUsed(chunk.Usage)
	if chunk.Choices == nil || len(*chunk.Choices) == 0 {
		if m.hideUsage && given(chunk.Usage) {
			return hide, nil
		}
		return pass, nil
	}
	m.saw(e.data)
	for _, c := range *chunk.Choices {
		if c.Finish != nil && *c.Finish != "" {
			m.concluded, m.stop = true, stopOf(*c.Finish)
		}
	}
	return pass, nil
}

func (m *meter) chatWhole(body []byte) error {
	var answer struct {
		Model   string          `json:"model"`
		Usage   json.RawMessage `json:"usage"`
		Choices []struct {
			Message json.RawMessage `json:"message"`
			Finish  string          `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := decode(body, &answer); err != nil {
		return err
	}
	if len(answer.Choices) == 0 || !given(answer.Choices[0].Message) {
		return fmt.Errorf("%w: it has no choice with a message", errMalformed)
	}
	m.named(answer.Model)
	m.chatUsed(answer.Usage)
	m.stop = stopOf(answer.Choices[0].Finish)
	m.saw(fmt.Appendf(nil, `{"choices":[{"delta":%s}]}`, answer.Choices[0].Message))
	return nil
}

// messagesUsage is the usage of the messages protocol. input_tokens excludes
// what was cached. It comes at the start, and again, as far as it has grown,
// at the end.
type messagesUsage struct {
	Input   count `json:"input_tokens"`
	Read    count `json:"cache_read_input_tokens"`
	Write   count `json:"cache_creation_input_tokens"`
	Output  count `json:"output_tokens"`
	Created struct {
		Hour count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Details struct {
		Thinking count `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (m *meter) messagesUsed(raw json.RawMessage) bool {
	var u messagesUsage
	if !given(raw) || json.Unmarshal(raw, &u) != nil {
		return false
	}
	now := &m.usage
	now.InUncached = max(now.InUncached, u.Input.n)
	now.CacheRead = max(now.CacheRead, u.Read.n)
	now.CacheWrite = max(now.CacheWrite, u.Write.n)
	now.CacheWriteHour = min(max(now.CacheWriteHour, u.Created.Hour.n), now.CacheWrite)
	now.Out = max(now.Out, u.Output.n)
	now.Reasoning = min(max(now.Reasoning, u.Details.Thinking.n), now.Out)
	m.strange = m.strange || odd(u.Input, u.Read, u.Write, u.Output, u.Created.Hour, u.Details.Thinking)
	return true
}

// messagesEvent follows a message from message_start to message_stop.
func (m *meter) messagesEvent(e event) (step, error) {
	var body struct {
		Type    string          `json:"type"`
		Usage   json.RawMessage `json:"usage"`
		Error   json.RawMessage `json:"error"`
		Message *struct {
			Model string          `json:"model"`
			Usage json.RawMessage `json:"usage"`
		} `json:"message"`
		Delta struct {
			Stop *string `json:"stop_reason"`
		} `json:"delta"`
	}
	if err := decode(e.data, &body); err != nil {
		return hide, err
	}
	switch body.Type {
	case "":
		return hide, fmt.Errorf("%w: an event has no type", errMalformed)
	case "error":
		m.failed = failure(body.Error)
		return fatal, nil
	case "message_start":
		if body.Message == nil {
			return hide, fmt.Errorf("%w: message_start has no message", errMalformed)
		}
		m.began = true
		m.named(body.Message.Model)
		m.messagesUsed(body.Message.Usage)
	case "message_delta":
		if body.Delta.Stop != nil {
			m.concluded, m.stop = true, stopOf(*body.Delta.Stop)
		}
		m.metered = m.messagesUsed(body.Usage) || m.metered
	case "message_stop":
		if !m.began || !m.concluded {
			return hide, fmt.Errorf("%w: it ends without a stop_reason", errMalformed)
		}
		return last, nil
	default:
		m.saw(e.data)
	}
	return pass, nil
}

func (m *meter) messagesWhole(body []byte) error {
	var answer struct {
		Type    string            `json:"type"`
		Model   string            `json:"model"`
		Usage   json.RawMessage   `json:"usage"`
		Content []json.RawMessage `json:"content"`
		Stop    string            `json:"stop_reason"`
	}
	if err := decode(body, &answer); err != nil {
		return err
	}
	if answer.Type != "message" || answer.Content == nil {
		return fmt.Errorf("%w: it is no message with a content", errMalformed)
	}
	m.named(answer.Model)
	m.metered = m.messagesUsed(answer.Usage)
	m.stop = stopOf(answer.Stop)
	for _, block := range answer.Content {
		m.saw(fmt.Appendf(nil, `{"type":"content_block_start","content_block":%s}`, block))
	}
	return nil
}

// responsesUsage is the usage of the responses protocol. input_tokens includes
// what was cached.
type responsesUsage struct {
	Input  *count `json:"input_tokens"`
	Output count  `json:"output_tokens"`
	In     struct {
		Read  count `json:"cached_tokens"`
		Write count `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Out struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (m *meter) responsesUsed(raw json.RawMessage) {
	var u responsesUsage
	if !given(raw) || json.Unmarshal(raw, &u) != nil || u.Input == nil {
		return
	}
	m.usage = split(*u.Input, u.In.Read, u.In.Write)
	m.usage.Out = u.Output.n
	m.usage.Reasoning = min(u.Out.Reasoning.n, u.Output.n)
	m.metered, m.strange = true, odd(*u.Input, u.Output, u.In.Read, u.In.Write, u.Out.Reasoning)
}

// incomplete says why a response is.
type incomplete struct {
	Reason string `json:"reason"`
}

// responsesEvent follows a response up to the event that closes it.
func (m *meter) responsesEvent(e event) (step, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := decode(e.data, &head); err != nil {
		return hide, err
	}
	switch head.Type {
	case "":
		return hide, fmt.Errorf("%w: an event has no type", errMalformed)
	case "error":
		m.failed = failure(e.data)
		return fatal, nil
	case "response.created", "response.in_progress", "response.completed", "response.failed", "response.incomplete":
	default:
		m.saw(e.data)
		return pass, nil
	}
	var body struct {
		Response *struct {
			Model string          `json:"model"`
			Usage json.RawMessage `json:"usage"`
			Error json.RawMessage `json:"error"`
			Why   incomplete      `json:"incomplete_details"`
		} `json:"response"`
	}
	if err := decode(e.data, &body); err != nil {
		return hide, err
	}
	if body.Response == nil {
		return hide, fmt.Errorf("%w: %s has no response", errMalformed, head.Type)
	}
	m.began = true
	m.named(body.Response.Model)
	m.responsesUsed(body.Response.Usage)
	switch head.Type {
	case "response.created", "response.in_progress":
		return pass, nil
	case "response.failed":
		m.failed = failure(body.Response.Error)
	}
	m.concluded, m.stop = true, stopOf(body.Response.Why.Reason)
	return last, nil
}

func (m *meter) responsesWhole(body []byte) error {
	var answer struct {
		Model  string            `json:"model"`
		Status string            `json:"status"`
		Usage  json.RawMessage   `json:"usage"`
		Error  json.RawMessage   `json:"error"`
		Output []json.RawMessage `json:"output"`
		Why    incomplete        `json:"incomplete_details"`
	}
	if err := decode(body, &answer); err != nil {
		return err
	}
	if answer.Output == nil {
		return fmt.Errorf("%w: it has no output", errMalformed)
	}
	m.named(answer.Model)
	m.responsesUsed(answer.Usage)
	m.stop = stopOf(answer.Why.Reason)
	for _, item := range answer.Output {
		m.saw(fmt.Appendf(nil, `{"type":"response.output_item.done","item":%s}`, item))
	}
	if answer.Status == "failed" {
		m.failed = failure(answer.Error)
	}
	return nil
}
