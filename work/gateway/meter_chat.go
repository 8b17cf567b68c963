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
