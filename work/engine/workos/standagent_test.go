package workos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// standAgent is one agent of the stand-in: a loop of calls of the model.
type standAgent struct {
	*stand
	phase, role, url, model string
}

// work returns all that the model said; every failure is silence.
func (a *standAgent) work() string {
	messages := []any{
		map[string]any{"role": "system", "content": "# " + strings.ToUpper(a.role[:1]) + a.role[1:] + "\n\nEnd with AGENT_RESULT."},
		map[string]any{"role": "user", "content": "Task file: " + a.task + ".md"},
	}
	var said strings.Builder
	for {
		text, calls, err := a.ask(messages)
		for tries := 1; errors.Is(err, errCalls) && tries < 3; tries++ {
			text, calls, err = a.ask(messages)
		}
		if err != nil {
			return said.String()
		}
		said.WriteString(text)
		if len(calls) == 0 {
			return said.String()
		}
		var list []any
		for _, c := range calls {
			list = append(list, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": text, "tool_calls": list})
		for _, c := range calls {
			messages = append(messages, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": a.use(c)})
		}
	}
}

type standCall struct{ ID, Name, Arguments string }

// ask makes one request. A status of 500 and more is tried again.
func (a *standAgent) ask(messages []any) (text string, calls []*standCall, err error) {
	tool := func(name string) any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object"}}}
	}
	body, err := json.Marshal(map[string]any{"model": a.model, "messages": messages, "stream": true, "store": false, "max_completion_tokens": 8192,
		"stream_options": map[string]any{"include_usage": true}, "tools": []any{tool("read"), tool("bash"), tool("edit"), tool("write")}})
	if err != nil {
		return "", nil, err
	}
	req, err := http.NewRequest(http.MethodPost, a.url, bytes.NewReader(body)) //nolint:noctx // killed with the sandbox
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", nil, errCalls
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return "", nil, errCalls
	case resp.StatusCode != http.StatusOK:
		return "", nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return text, calls, nil // cleanly closed: taken for the end
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string
					Calls   []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData || json.Unmarshal([]byte(data), &chunk) != nil || len(chunk.Choices) == 0 {
			continue
		}
		text += chunk.Choices[0].Delta.Content
		for _, part := range chunk.Choices[0].Delta.Calls {
			for len(calls) <= part.Index {
				calls = append(calls, &standCall{})
			}
			c := calls[part.Index]
			c.ID, c.Name, c.Arguments = c.ID+part.ID, c.Name+part.Function.Name, c.Arguments+part.Function.Arguments
		}
	}
}

// use runs a tool between its two events, of which each shows the beginning.
func (a *standAgent) use(c *standCall) string {
	const shown = 500
	short := func(text string) string { return text[:min(len(text), shown)] }
	a.log("tool_start", map[string]any{"phase": a.phase, "agent": a.role, "toolCallId": c.ID, "tool": c.Name, "args": short(c.Arguments)})
	output, err := a.tool(c)
	if err != nil {
		output += err.Error()
	}
	result, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": output}}}) // text
	a.log("tool_end", map[string]any{"phase": a.phase, "agent": a.role, "toolCallId": c.ID, "tool": c.Name, "durationMs": 1, "isError": err != nil, "result": short(string(result))})
	return output
}

func (a *standAgent) tool(c *standCall) (string, error) {
	var args struct {
		Command, Path, Content string
		Edits                  []struct{ OldText, NewText string }
	}
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return "", err
	}
	file := filepath.Join(a.repo, args.Path)
	switch c.Name {
	case "bash":
		cmd := exec.Command("sh", "-c", args.Command) //nolint:noctx // killed with the sandbox
		cmd.Dir = a.repo
		out, err := cmd.CombinedOutput()
		if exit, failed := errors.AsType[*exec.ExitError](err); failed {
			err = fmt.Errorf("\n\nCommand exited with code %d", exit.ExitCode())
		}
		return string(out), err
	case "write":
		return "", os.WriteFile(file, []byte(args.Content), 0o644)
	case "edit":
		b, err := os.ReadFile(file)
		for _, e := range args.Edits {
			b = bytes.Replace(b, []byte(e.OldText), []byte(e.NewText), 1)
		}
		if err == nil {
			err = os.WriteFile(file, b, 0o644)
		}
		return "", err
	}
	b, err := os.ReadFile(file)
	return string(b), err
}
