package gateway

import (
	"encoding/json"
	"fmt"
)

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
