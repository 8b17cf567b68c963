package forge

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
)

// The parts of ATIF 1.4 (Agent Trajectory Interchange Format) that are written.
type (
	atifTrajectory struct {
		SchemaVersion string           `json:"schema_version"`
		SessionID     string           `json:"session_id"`
		Agent         atifAgent        `json:"agent"`
		Steps         []atifStep       `json:"steps"`
		Notes         string           `json:"notes"`
		FinalMetrics  atifFinalMetrics `json:"final_metrics"`
		Extra         map[string]any   `json:"extra"`
	}
	atifAgent struct {
		Name      string `json:"name"`
		Version   string `json:"version"`
		ModelName string `json:"model_name,omitempty"`
	}
	atifStep struct {
		StepID      int              `json:"step_id"`
		Timestamp   string           `json:"timestamp"`
		Source      string           `json:"source"`
		ModelName   string           `json:"model_name,omitempty"`
		Message     string           `json:"message"`
		ToolCalls   []atifToolCall   `json:"tool_calls,omitempty"`
		Observation *atifObservation `json:"observation,omitempty"`
		Metrics     *atifMetrics     `json:"metrics,omitempty"`
		Extra       map[string]any   `json:"extra,omitempty"`
	}
	atifToolCall struct {
		ID        string          `json:"tool_call_id"`
		Function  string          `json:"function_name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	atifObservation struct {
		Results []atifResult `json:"results"`
	}
	atifResult struct {
		SourceCallID string `json:"source_call_id"`
		Content      string `json:"content"`
	}
	atifMetrics struct {
		PromptTokens     *int64   `json:"prompt_tokens,omitempty"`
		CompletionTokens *int64   `json:"completion_tokens,omitempty"`
		CachedTokens     *int64   `json:"cached_tokens,omitempty"`
		CostUSD          *float64 `json:"cost_usd,omitempty"`
	}
	atifFinalMetrics struct {
		PromptTokens     *int64   `json:"total_prompt_tokens,omitempty"`
		CompletionTokens *int64   `json:"total_completion_tokens,omitempty"`
		CachedTokens     *int64   `json:"total_cached_tokens,omitempty"`
		CostUSD          *float64 `json:"total_cost_usd,omitempty"`
		Steps            int      `json:"total_steps"`
	}
)

const (
	atifVersion = "ATIF-v1.4"
	atifNotes   = "Made from the evidence of a run: what the harness saw. Messages of the agent and the outputs of its tools are not in it; an output stands by its digest. " +
		"A request to the model is a step of its own."
)

// ATIF writes the run of the session in dir as a trajectory: the task, each call of a
// tool and each answer of the model that the harness saw, and the verdict.
func ATIF(w io.Writer, dir string) error {
	c, err := open(dir)
	if err != nil {
		return err
	}
	steps, err := c.steps()
	if err != nil {
		return err
	}
	opened, err := evidence.OpenedOf(c.entries)
	if err != nil {
		return err
	}
	var contract struct {
		Title        string `json:"title"`
		Instructions string `json:"instructions"`
	}
	if err := json.Unmarshal(c.contract, &contract); err != nil {
		return fmt.Errorf("reading the contract: %w", err)
	}
	t := atifTrajectory{SchemaVersion: atifVersion, SessionID: c.receipt.SessionID,
		Agent: atifAgent{Name: opened.Engine.Name, Version: opened.Engine.Version}, Notes: atifNotes,
		Extra: map[string]any{"status": c.report.Status, "trajectory_hash": c.receipt.TrajectoryHash, "receipt_sha256": c.digest,
			"policy_bundle_id": c.receipt.PolicyBundleID}}
	if opened.Model != nil {
		t.Agent.ModelName = *opened.Model
	}
	task := strings.TrimSpace(contract.Instructions)
	if task == "" {
		task = contract.Title
	}
	t.add(atifStep{Source: "user", Message: task}, steps[0].start)
	ids := map[string]bool{}
	for _, s := range steps {
		switch s.name {
		case evidence.StepTool:
			err = t.tool(s, ids)
		case evidence.StepModel:
			err = t.model(s)
		}
		if err != nil {
			return err
		}
	}
	verdict := "verdict: " + c.report.Status
	for _, b := range c.report.Blockers {
		verdict += "\n" + string(b.Code) + ": " + b.Message
	}
	t.add(atifStep{Source: "system", Message: verdict, Extra: map[string]any{"verification_delta": c.report.VerificationDelta}},
		steps[len(steps)-1].end)
	t.FinalMetrics.Steps = len(t.Steps)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(t)
}

func (t *atifTrajectory) add(s atifStep, at time.Time) {
	s.StepID, s.Timestamp = len(t.Steps)+1, at.UTC().Format(journal.TimeFormat)
	t.Steps = append(t.Steps, s)
}

// tool adds a call of a tool. Agents number their calls as they like: an id that was
// there before gets the number of its entry.
func (t *atifTrajectory) tool(s step, ids map[string]bool) error {
	called, returned, err := s.tool()
	if err != nil {
		return err
	}
	id := called.ID
	if ids[id] {
		id = fmt.Sprintf("%s#%d", id, s.seq)
	}
	ids[id] = true
	call := atifToolCall{ID: id, Function: called.Tool, Arguments: called.Params}
	extra := map[string]any{"params_hash": called.ParamsHash, "status": s.status}
	var object map[string]json.RawMessage
	if json.Unmarshal(called.Params, &object) != nil || object == nil { // cut for the evidence: params_hash is of the whole
		call.Arguments = json.RawMessage("{}")
		extra["arguments_omitted"] = true
	}
	content := "no result was seen"
	if returned != nil {
		content = fmt.Sprintf("ok %t, output %s", returned.OK, returned.OutputHash)
		if returned.ExitCode != nil {
			content = fmt.Sprintf("exit code %d, output %s", *returned.ExitCode, returned.OutputHash)
		}
	}
	t.add(atifStep{Source: "agent", ToolCalls: []atifToolCall{call}, Observation: &atifObservation{[]atifResult{{id, content}}}, Extra: extra}, s.start)
	return nil
}

// model adds an answer of the model. One that Remit asked for itself, before the engine
// began, is no step of an agent.
func (t *atifTrajectory) model(s step) error {
	m, err := s.model()
	if err != nil || m.Probe {
		return err
	}
	step := atifStep{Source: "agent", ModelName: m.ModelAnswered,
		Extra: map[string]any{"request_sha256": m.RequestSHA256, "response_sha256": m.ResponseSHA256, "http_status": m.Status}}
	if m.UsageKnown || m.CostKnown {
		step.Metrics = new(atifMetrics)
	}
	f := &t.FinalMetrics
	if m.UsageKnown {
		in, out, cached := m.Usage.In(), m.Usage.Out, m.Usage.CacheRead
		step.Metrics.PromptTokens, step.Metrics.CompletionTokens, step.Metrics.CachedTokens = &in, &out, &cached
		f.PromptTokens, f.CompletionTokens, f.CachedTokens = plus(f.PromptTokens, in), plus(f.CompletionTokens, out), plus(f.CachedTokens, cached)
	}
	if m.CostKnown {
		usd := float64(m.CostMicroUSD) / 1e6
		step.Metrics.CostUSD, f.CostUSD = &usd, plus(f.CostUSD, usd)
	}
	t.add(step, m.At)
	return nil
}

// plus adds to a sum that is nil while nothing is known.
func plus[N int64 | float64](sum *N, n N) *N {
	if sum != nil {
		n += *sum
	}
	return &n
}
