package gateway

import (
	"encoding/json"
	"fmt"
)

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
