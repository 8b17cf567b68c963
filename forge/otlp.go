package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
)

// The messages of OpenTelemetry's trace.proto that are written, in their JSON encoding:
// ids are hexadecimal, 64-bit integers are strings, enums are numbers.
type (
	otlpTraces struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes otlpAttributes `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	otlpSpan struct {
		TraceID      string         `json:"traceId"`
		SpanID       string         `json:"spanId"`
		ParentSpanID string         `json:"parentSpanId,omitempty"`
		Name         string         `json:"name"`
		Kind         int            `json:"kind"`
		Start        string         `json:"startTimeUnixNano"`
		End          string         `json:"endTimeUnixNano"`
		Attributes   otlpAttributes `json:"attributes"`
		Status       otlpStatus     `json:"status"`
	}
	otlpStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	otlpAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
	otlpAttributes []otlpAttribute
)

// Enums of trace.proto.
const (
	spanInternal, spanClient         = 1, 3
	statusUnset, statusOK, statusErr = 0, 1, 2
)

// Names of the conventions for generative AI, which are not stable yet: all that are
// written stand here.
const (
	aiOperation    = "gen_ai.operation.name"
	aiProvider     = "gen_ai.provider.name"
	aiAgent        = "gen_ai.agent.name"
	aiAgentVersion = "gen_ai.agent.version"
	aiTool         = "gen_ai.tool.name"
	aiToolCall     = "gen_ai.tool.call.id"
	aiAsked        = "gen_ai.request.model"
	aiStream       = "gen_ai.request.stream"
	aiAnswered     = "gen_ai.response.model"
	aiFinish       = "gen_ai.response.finish_reasons"
	aiFirst        = "gen_ai.response.time_to_first_chunk"
	aiInput        = "gen_ai.usage.input_tokens"
	aiCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	aiCacheWrite   = "gen_ai.usage.cache_creation.input_tokens"
	aiOutput       = "gen_ai.usage.output_tokens"
	aiReasoning    = "gen_ai.usage.reasoning.output_tokens"

	operationAgent, operationTool, operationChat = "invoke_agent", "execute_tool", "chat"
)

// set adds an attribute. A text that is "" is not known, and is left out.
func (a *otlpAttributes) set(key string, value any) {
	out := map[string]any{}
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
		out["stringValue"] = v
	case bool:
		out["boolValue"] = v
	case int64:
		out["intValue"] = strconv.FormatInt(v, 10)
	case float64:
		out["doubleValue"] = v
	case []string:
		values := []map[string]any{}
		for _, s := range v {
			values = append(values, map[string]any{"stringValue": s})
		}
		out["arrayValue"] = map[string]any{"values": values}
	}
	*a = append(*a, otlpAttribute{key, out})
}

// OTLP writes the run of the session in dir as one trace: a span for the run, one for
// each step that the harness saw, and within that of the engine one for each call of a
// tool and each request to the model. No content of either is written, and nothing that
// an agent says.
func OTLP(w io.Writer, dir string) error {
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
	t := otlpTrace{change: c, opened: opened, id: idOf(c.receipt.SessionID, 16)}
	last := steps[0].end
	for _, s := range steps {
		last = latest(last, s.end)
	}
	t.spans = []otlpSpan{t.root(steps[0].start, last)}
	for _, s := range steps {
		if s.status == journal.Started {
			s.end = last // the run stopped inside of it
		}
		span, err := t.span(s)
		if err != nil {
			return err
		}
		t.spans = append(t.spans, span)
	}
	var resource otlpAttributes
	resource.set("service.name", "remit")
	resource.set("service.version", opened.Remit.Version)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(otlpTraces{[]otlpResourceSpans{{otlpResource{resource},
		[]otlpScopeSpans{{otlpScope{"remit", opened.Remit.Version}, t.spans}}}}})
}

type otlpTrace struct {
	*change
	opened evidence.RunOpened
	id     string
	engine string // id of the span of the engine, "" before it began
	spans  []otlpSpan
}

// idOf makes the id of a trace or of a span. The same session gives the same ids.
func idOf(name string, size int) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:size])
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (t *otlpTrace) root(start, end time.Time) otlpSpan {
	s := otlpSpan{TraceID: t.id, SpanID: idOf(t.receipt.SessionID+"/run", 8), Name: "remit run", Kind: spanInternal, Start: nanos(start),
		End: nanos(end), Status: otlpStatus{Code: statusOK}}
	for _, a := range [][2]string{{"remit.session_id", t.receipt.SessionID}, {"remit.status", t.report.Status}, {"remit.policy_bundle_id", t.receipt.PolicyBundleID},
		{"remit.trajectory_hash", t.receipt.TrajectoryHash}, {"remit.receipt_sha256", t.digest}} {
		s.Attributes.set(a[0], a[1])
	}
	s.Attributes.set("remit.verification_delta", int64(t.report.VerificationDelta))
	if t.report.Status != evidence.StatusPass {
		s.Status.Code = statusErr
		if len(t.report.Blockers) > 0 {
			s.Status.Message = string(t.report.Blockers[0].Code)
			s.Attributes.set("error.type", s.Status.Message)
		}
	}
	return s
}

// span is a step as a span below that of the run.
func (t *otlpTrace) span(s step) (otlpSpan, error) {
	out := otlpSpan{TraceID: t.id, SpanID: idOf(t.receipt.SessionID+"/"+strconv.FormatInt(s.seq, 10), 8), ParentSpanID: t.spans[0].SpanID,
		Name: s.name, Kind: spanInternal, Start: nanos(s.start), End: nanos(latest(s.start, s.end)), Attributes: otlpAttributes{}}
	out.Attributes.set("remit.step_id", s.id)
	out.Attributes.set("remit.seq", s.seq)
	out.Attributes.set("remit.step_status", string(s.status))
	if slices.Contains([]journal.Status{journal.Failed, journal.Denied}, s.status) {
		out.Status = otlpStatus{Message: string(s.status), Code: statusErr}
	}
	var err error
	switch s.name {
	case evidence.StepEngine:
		t.engine = out.SpanID
		out.Name = operationAgent + " " + t.opened.Engine.Name
		out.Attributes.set(aiOperation, operationAgent)
		out.Attributes.set(aiAgent, t.opened.Engine.Name)
		out.Attributes.set(aiAgentVersion, t.opened.Engine.Version)
	case evidence.StepTool:
		err = t.tool(&out, s)
	case evidence.StepModel:
		err = t.model(&out, s)
	}
	return out, err
}

func (t *otlpTrace) tool(out *otlpSpan, s step) error {
	called, returned, err := s.tool()
	if err != nil {
		return err
	}
	if t.engine != "" {
		out.ParentSpanID = t.engine
	}
	out.Name = operationTool + " " + called.Tool
	out.Attributes.set(aiOperation, operationTool)
	out.Attributes.set(aiTool, called.Tool)
	out.Attributes.set(aiToolCall, called.ID)
	if returned != nil && returned.ExitCode != nil {
		out.Attributes.set("process.exit.code", int64(*returned.ExitCode))
	}
	if returned != nil && !returned.OK && out.Status.Code == statusUnset {
		out.Status.Code = statusErr
	}
	return nil
}

func (t *otlpTrace) model(out *otlpSpan, s step) error {
	m, err := s.model()
	if err != nil {
		return err
	}
	if t.engine != "" && !m.Probe {
		out.ParentSpanID = t.engine
	}
	out.Name, out.Kind = operationChat+" "+m.ModelAsked, spanClient
	out.Start, out.End = nanos(m.At), nanos(m.At.Add(time.Duration(max(0, m.LatencyMS))*time.Millisecond))
	out.Attributes.set(aiOperation, operationChat)
	if t.report.ModelProvider != nil {
		out.Attributes.set(aiProvider, *t.report.ModelProvider)
	}
	out.Attributes.set(aiAsked, m.ModelAsked)
	out.Attributes.set(aiAnswered, m.ModelAnswered)
	out.Attributes.set(aiStream, m.Stream)
	out.Attributes.set("http.response.status_code", int64(m.Status))
	out.Attributes.set("remit.probe", m.Probe)
	if m.Stop != "" {
		out.Attributes.set(aiFinish, []string{string(m.Stop)})
	}
	if m.FirstByteMS > 0 {
		out.Attributes.set(aiFirst, float64(m.FirstByteMS)/1000)
	}
	if m.UsageKnown {
		out.Attributes.set(aiInput, m.Usage.In())
		out.Attributes.set(aiCacheRead, m.Usage.CacheRead)
		out.Attributes.set(aiCacheWrite, m.Usage.CacheWrite)
		out.Attributes.set(aiOutput, m.Usage.Out)
		out.Attributes.set(aiReasoning, m.Usage.Reasoning)
	}
	if m.CostKnown {
		out.Attributes.set("remit.cost_micro_usd", m.CostMicroUSD)
	}
	if code := string(m.Refused + m.Failed); code != "" { // at most one of them is there
		out.Status = otlpStatus{Message: code, Code: statusErr}
		out.Attributes.set("error.type", code)
	}
	return nil
}
