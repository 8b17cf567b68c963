package workos

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent/modeltest"
)

// Lines of event files, as commit 30b1fa1285a9 writes them.
func line(n int, kind, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"event":%q,"ts":"2026-11-21T10:00:%02d.000Z","sequence":%d,"runId":"a"%s}`+"\n", kind, n, n, more)
}

func start(n int, phase, role string) string {
	return line(n, "phase_start", fmt.Sprintf(`"phase":%q,"agent":%q`, phase, role))
}

func end(n int, phase, role, outcome, result string) string {
	if result != "" {
		result = `,"result":` + result
	}
	return line(n, "phase_end", fmt.Sprintf(`"phase":%q,"agent":%q,"outcome":%q,"durationMs":5%s`, phase, role, outcome, result))
}

const (
	fine      = `{"status":"completed","summary":"done","error":null}`
	noResult  = `{"status":"failed","summary":"","error":"AGENT_RESULT start delimiter not found"}`
	noJSON    = `{"status":"failed","summary":"","error":"AGENT_RESULT JSON parse error: Unexpected token"}`
	gaveUp    = `{"status":"failed","summary":"","error":"the file cannot be found"}`
	hardFail  = `{"status":"completed","summary":"s","rubric":{"role":"reviewer","categories":[{"category":"pattern-fit","verdict":"pass"},{"category":"scope-discipline","verdict":"fail","detail":"three files too many"}]}}`
	softFail  = `{"status":"completed","summary":"s","rubric":{"role":"reviewer","categories":[{"category":"test-sufficiency","verdict":"fail","detail":"no test"}]}}`
	newFail   = `{"status":"completed","rubric":{"role":"reviewer","categories":[7,{"category":"license","verdict":" FAIL ","detail":"none"}]}}`
	critical  = `{"status":"completed","findings":{"critical":1,"details":[{"severity":"info","message":"x"},{"severity":"critical","message":"a key in the diff"}]}}`
	strange   = `{"status":"completed","findings":{"critical":["a key"]}}`
	none      = `{"status":"completed","findings":{"critical":0,"details":[]}}`
	blocked   = `{"status":"blocked","summary":"this must not go in","error":null}`
	tooSlow   = `,"durationMs":600123`
	begin     = `{"event":"pipeline_start","ts":"2026-11-21T10:00:00.000Z","sequence":1,"runId":"a","plan":{"phases":[{"phase":"implement"},{"phase":"close"}]}}` + "\n"
	exit      = `{"event":"remit_ended","code":1}` + "\n"
	skipped   = "skipped"
	finished  = completed
	notPassed = "failed"
)

// cycle is one way through the three phases with a review.
func cycle(n int, review, outcome string) string {
	return start(n, "implement", "implementer") + end(n+1, "implement", "implementer", finished, fine) +
		start(n+2, "verify", "verifier") + end(n+3, "verify", "verifier", finished, fine) +
		start(n+4, "review", "reviewer") + end(n+5, "review", "reviewer", outcome, review)
}

var closing = start(50, "close", "closer")

// failed is how Case goes on after a failure.
func failed(n int) string {
	return end(n, "implement", "implementer", skipped, "") + end(n, "verify", "verifier", skipped, "") + end(n, "review", "reviewer", skipped, "") +
		end(n, "close", "closer", skipped, "") + start(n+1, "retrospective", "retrospective") + end(n+2, "retrospective", "retrospective", finished, fine) +
		line(n+3, "pipeline_end", `"outcome":"failed","failedAgent":"x"`)
}

// TestEnds is the table of what can become of a pipeline.
func TestEnds(t *testing.T) {
	t.Parallel()
	implementTwice := start(1, "implement", "implementer") + end(2, "implement", "implementer", notPassed, noResult) + end(3, "implement", "implementer", notPassed, noResult)
	for name, test := range map[string]struct {
		stream   string
		complete bool
		rejected string // part of the reviewer's words, "" for no rejection
		code     reason.Code
		problem  string
	}{
		"nothing":                  {"", false, "", "", "did not begin"},
		"ended before it began":    {exit, false, "", "", "code 1 before its pipeline began"},
		"begun":                    {begin, false, "", "", "implement did not begin"},
		"killed in a phase":        {begin + start(1, "implement", "implementer"), false, "", "", "implement began and did not end"},
		"stopped at the close":     {begin + cycle(1, fine, finished) + closing + exit, true, "", "", ""},
		"went past the close":      {begin + cycle(1, fine, finished) + closing + line(51, "pipeline_end", `"outcome":"completed"`), true, "", "", ""},
		"no close":                 {begin + cycle(1, fine, finished) + exit, false, "", "", "last phase"},
		"began again after close":  {begin + cycle(1, fine, finished) + closing + start(51, "implement", "implementer"), false, "", "", "review did not begin"},
		"no review":                {begin + start(1, "implement", "implementer") + end(2, "implement", "implementer", finished, fine) + closing, false, "", "", "verify did not begin"},
		"a retry that worked":      {begin + start(1, "implement", "implementer") + end(2, "implement", "implementer", notPassed, noResult) + cycle(3, fine, finished) + closing, true, "", "", ""},
		"no AGENT_RESULT":          {begin + implementTwice + failed(4) + exit, false, "", "", "implementer gave no result that can be read: AGENT_RESULT start delimiter not found"},
		"AGENT_RESULT is no JSON":  {begin + cycle(1, noJSON, notPassed) + failed(8) + exit, false, "", "", "reviewer gave no result"},
		"gave up":                  {begin + start(1, "implement", "implementer") + end(2, "implement", "implementer", notPassed, gaveUp) + failed(4), false, "", reason.EngineFailed, "the file cannot be found"},
		"could not ask":            {begin + end(2, "implement", "implementer", notPassed, `{"status":"failed","error":"Agent spawn error: fetch failed"}`), false, "", reason.ProviderUnavailable, "fetch failed"},
		"failed without a result":  {begin + end(2, "implement", "implementer", notPassed, ""), false, "", "", "without a result"},
		"took too long":            {begin + strings.Replace(end(2, "implement", "implementer", notPassed, noResult), `,"durationMs":5`, tooSlow, 1), false, "", reason.Timeout, "10 minutes"},
		"skipped is no end":        {begin + cycle(1, fine, finished) + closing + failed(52), true, "", "", ""},
		"rejected, and closed":     {begin + cycle(1, hardFail, finished) + closing + exit, true, "scope-discipline: three files too many", "", ""},
		"rejected, then mended":    {begin + cycle(1, hardFail, finished) + line(9, "revision_requested", `"source":"reviewer","cycle":1`) + cycle(10, fine, finished) + closing, true, "", "", ""},
		"rejected, mending failed": {begin + cycle(1, hardFail, finished) + start(10, "implement", "implementer") + end(11, "implement", "implementer", notPassed, noResult) + failed(12), false, "", "", "implementer gave no result"},
		"only advice":              {begin + cycle(1, softFail, finished) + closing, true, "", "", ""},
		"an unknown category":      {begin + cycle(1, newFail, finished) + closing, true, "license: none", "", ""},
		"critical":                 {begin + cycle(1, critical, notPassed) + failed(8), true, "critical: a key in the diff", "", ""},
		"critical, oddly":          {begin + cycle(1, strange, finished) + closing, true, "critical", "", ""},
		"nothing critical":         {begin + cycle(1, none, finished) + closing, true, "", "", ""},
		"blocked":                  {begin + cycle(1, blocked, notPassed) + failed(8), true, "this must not go in", "", ""},
		"an older file arrives late": {begin + cycle(10, fine, finished) + closing + strings.ReplaceAll(end(2, "review", "reviewer", notPassed, noResult), `"runId":"a"`, `"runId":"b"`),
			true, "", "", ""},
		"a newer file counts": {begin + cycle(10, fine, finished) + closing + strings.ReplaceAll(end(59, "review", "reviewer", notPassed, noResult), `"runId":"a"`, `"runId":"b"`),
			false, "", "", "reviewer gave no result"},
		"breaks off":         {begin + cycle(1, fine, finished) + closing + `{"event":"phase_end","phase":"rev`, false, "", "", "breaks off"},
		"rejected and torn":  {begin + cycle(1, hardFail, finished) + `{"eve`, false, "three files", "", "breaks off"},
		"an agent's own end": {begin + start(1, "implement", "implementer") + end(2, "implement", "implementer", "COMPLETED", fine) + closing, false, "", reason.EngineFailed, "did not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got := modeltest.Replay(newProtocol, []byte(test.stream))
			if got.Complete != test.complete || got.Code != test.code || !strings.Contains(got.Problem, test.problem) || got.Complete == (got.Problem != "") {
				t.Errorf("%+v", got)
			}
			if got.Rejected != (test.rejected != "") || !strings.Contains(got.Reason, test.rejected) {
				t.Errorf("rejected %v: %q", got.Rejected, got.Reason)
			}
		})
	}
}

// whole has every kind of event.
func whole() string {
	tool := func(n int, phase, id, name, args, result string, isError bool) string {
		a, _ := json.Marshal(args)   // text
		r, _ := json.Marshal(result) // text
		return line(n, "tool_start", fmt.Sprintf(`"phase":%q,"agent":"x","toolCallId":%q,"tool":%q,"args":%s`, phase, id, name, a)) +
			line(n+1, "tool_end", fmt.Sprintf(`"phase":%q,"agent":"x","toolCallId":%q,"tool":%q,"durationMs":3,"isError":%v,"result":%s`, phase, id, name, isError, r))
	}
	return begin + start(1, "implement", "implementer") +
		tool(2, "implement", "c1", "bash", `{"command":"false"}`, `{"content":[{"type":"text","text":"x\n\nCommand exited with code 3"}]}`, true) +
		tool(4, "implement", "c1", "edit", `{"path":"/workspace/calc.py","edits":[{"oldText":"aaaa`, `{"content":[]}`, false) +
		tool(6, "implement", "c2", "write", `{"content":"cut before the pa`, `ok`, false) +
		tool(8, "implement", "c3", "edit", `{"path":"../../etc/passwd"}`, `ok`, false) +
		line(10, "tool_start", `"phase":"verify","agent":"v","toolCallId":"c1","tool":"bash","args":"{}"`) +
		line(11, "tool_start", `"phase":"review","agent":"r","toolCallId":"c1","tool":"bash","args":"{}"`) +
		line(12, "tool_end", `"phase":"verify","agent":"v","toolCallId":"c1","tool":"bash","isError":false,"result":"ok"`) +
		line(13, "tool_end", `"phase":"review","agent":"r","toolCallId":"c1","tool":"bash","isError":true,"result":"cut before the co"`) +
		line(14, "status_changed", `"from":"active","to":"implementing"`) +
		line(15, "marker_written", `"marker":"tested","path":"x"`) +
		end(16, "implement", "implementer", finished, fine) + cycle(17, softFail, finished) +
		line(24, "revision_requested", `"source":"reviewer","cycle":1,"failedCategories":[{"category":"test-sufficiency","verdict":"fail","detail":"no test"}]`) +
		line(25, "revision_budget_exhausted", `"cycles":2`) + closing + line(52, "pipeline_end", `"outcome":"failed","failedAgent":"closer"`) + exit
}

// TestEvents: each thing that Case did is one event, and calls of two agents at
// once stay apart though models may give them the same id.
func TestEvents(t *testing.T) {
	t.Parallel()
	events, end := modeltest.Replay(newProtocol, []byte(whole()))
	if !end.Complete || end.Summary != "done" {
		t.Errorf("%+v", end)
	}
	var calls, said []string
	for _, e := range events {
		switch e.Kind {
		case engine.ToolCall:
			calls = append(calls, e.ID+" "+e.Tool+" "+string(e.Params))
		case engine.ToolResult:
			exit := "-"
			if e.Exit != nil {
				exit = fmt.Sprint(*e.Exit)
			}
			calls = append(calls, fmt.Sprint(e.ID, " ", e.OK, " ", exit, " ", e.Paths))
		case engine.Message:
			said = append(said, e.Text)
		default:
			t.Errorf("%+v", e)
		}
	}
	want := []string{`call_1 bash {"command":"false"}`, "call_1 false 3 []", `call_2 edit {"json":"{\"path\":\"/workspace/calc.py\",\"edits\":[{\"oldText\":\"aaaa"}`, "call_2 true - [calc.py]",
		`call_3 write {"json":"{\"content\":\"cut before the pa"}`, "call_3 true - []", `call_4 edit {"path":"../../etc/passwd"}`, "call_4 true - []",
		"call_5 bash {}", "call_6 bash {}", "call_5 true 0 []", "call_6 false - []"}
	if !reflect.DeepEqual(calls, want) {
		t.Errorf("got  %q\nwant %q", calls, want)
	}
	all := strings.Join(said, "\n")
	for _, words := range []string{"Case begins: implement, close", "implement begins", "implement ends: completed: done",
		"the reviewer asks for a revision (1): test-sufficiency: no test", "no further revision after 2", "close begins", "Case ends: failed closer"} {
		if !strings.Contains(all, words) {
			t.Errorf("nothing says %q in\n%s", words, all)
		}
	}
}

// TestLenient: neither the order of keys nor what is unknown makes a difference.
func TestLenient(t *testing.T) {
	t.Parallel()
	other, err := modeltest.Reordered([]byte(whole()))
	if err != nil {
		t.Fatal(err)
	}
	events, end := modeltest.Replay(newProtocol, []byte(whole()))
	events2, end2 := modeltest.Replay(newProtocol, other)
	if !reflect.DeepEqual(events, events2) || end != end2 {
		t.Errorf("%+v %+v\n%+v %+v", events, end, events2, end2)
	}
}

// TestBrokenOff: a stream that ends before the close begins is never complete.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	stream := whole()
	decisive := strings.Index(stream, strings.TrimSpace(closing)) + len(closing) - 1
	for n := 0; n < decisive; n += 5 {
		if _, end := modeltest.Replay(newProtocol, []byte(stream[:n])); end.Complete || end.Problem == "" {
			t.Fatalf("complete after %d of %d bytes: %+v", n, decisive, end)
		}
	}
	if _, end := modeltest.Replay(newProtocol, []byte(stream[:decisive])); !end.Complete {
		t.Errorf("not complete at its end: %+v", end)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(whole()))
	f.Add([]byte(begin + cycle(1, hardFail, finished) + failed(8)))
	f.Add([]byte(begin + cycle(1, strange, finished) + exit))
	f.Fuzz(func(t *testing.T, stream []byte) {
		modeltest.CheckEvents(newProtocol, stream)
	})
}
