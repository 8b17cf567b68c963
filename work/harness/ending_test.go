package harness

import (
	"strings"
	"testing"
	"time"

	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/sandbox"
)

// TestEndBlockers walks the order of witnesses: each row has everything that the
// rows behind it would be judged by as well.
func TestEndBlockers(t *testing.T) {
	t.Parallel()
	zero, one := 0, 1
	ran := func(exit *int, change func(*evidence.EngineFinished)) evidence.EngineFinished {
		f := evidence.EngineFinished{ProcessStarted: true, ExitCode: exit, DurationMS: 1500}
		if change != nil {
			change(&f)
		}
		return f
	}
	failed := func(codes ...reason.Code) traffic {
		var t traffic
		for i, code := range codes {
			rec := record.ModelRequest{Seq: int64(i + 1), Failed: code, Status: 503}
			if code == reason.RouteRefused || code == reason.ModelMismatch {
				rec.Refused, rec.Failed = code, ""
			}
			t.heard(rec)
		}
		return t
	}
	team := func(requests ...any) (t traffic) {
		for i := 0; i < len(requests); i += 2 {
			rec := record.ModelRequest{Seq: int64(i/2 + 1), Agent: requests[i].(string), Status: requests[i+1].(int), Stop: gateway.StopEnd}
			switch rec.Failed = map[int]reason.Code{401: reason.AuthUnavailable, 404: reason.ProviderRefused, 500: reason.ProviderUnavailable}[rec.Status]; {
			case rec.Failed != "":
				rec.Stop = ""
			case rec.Status < 0:
				rec.Stop = gateway.StopLength
			}
			t.heard(rec)
		}
		return t
	}
	blames := func(agent string) engine.End {
		return engine.End{Code: reason.ResponseShape, Problem: "its words", Agent: agent}
	}
	spent := failed(reason.AuthUnavailable)
	spent.totals = gateway.Totals{Exhausted: reason.BudgetExhausted, Requests: 3}
	other := failed(reason.AuthUnavailable)
	other.model, other.totals = "large", gateway.Totals{Mismatches: 2, Models: []string{"large", "small"}}
	for _, name := range []string{"large", "small", "small"} { // the first is the one that was asked
		other.heard(record.ModelRequest{ModelAnswered: name, Mismatch: name != "large", Failed: reason.AuthUnavailable})
	}
	both := spent
	both.totals.Mismatches = 1
	late := func(f *evidence.EngineFinished) { f.TimedOut = true }
	idle := func(f *evidence.EngineFinished) { f.TimedOut, f.Idle = true, true }
	flood := spent
	flood.totals.Flooded, flood.totals.Refused = true, 20_011
	stopped := func(stop gateway.Stop) traffic {
		t := failed(reason.ProviderUnavailable)
		t.heard(record.ModelRequest{Seq: 2, Stop: stop, Status: 200})
		return t
	}
	probe := failed()
	probe.heard(record.ModelRequest{Probe: true, Failed: reason.ProviderUnavailable})
	says := engine.End{Code: reason.ResponseShape, Problem: "its words"}
	done := engine.End{Complete: true}
	for name, test := range map[string]struct {
		f    evidence.EngineFinished
		t    traffic
		end  engine.End
		want string // codes
		text string
	}{
		"budget before time":                 {ran(&one, late), spent, says, "budget_exhausted", "used up: 3 requests, 0 tokens"},
		"budget of an engine that says done": {ran(&zero, nil), spent, done, "budget_exhausted", ""},
		"a flood of refused requests":        {ran(&one, late), flood, says, "budget_exhausted", "20011 requests that the gateway refused"},
		"the answer was cut":                 {ran(&one, nil), stopped(gateway.StopLength), says, "response_shape_unavailable", "request 2 cannot be used: it was cut"},
		"the answer was held back":           {ran(&one, nil), stopped(gateway.StopFilter), says, "provider_refused", "filter"},
		"the answer is no answer":            {ran(&one, nil), stopped(gateway.StopReasoning), says, "response_shape_unavailable", "reasoning only"},
		"the answer was whole":               {ran(&one, nil), stopped(gateway.StopEnd), engine.End{}, "engine_failed", ""},
		"done, after an answer that was cut": {ran(&zero, nil), stopped(gateway.StopLength), done, "", ""},
		"another model before time":          {ran(&one, late), other, says, "model_mismatch", "another model than large answered 2 request(s): [small]"},
		"budget and another model":           {ran(&one, late), both, says, "budget_exhausted model_mismatch", ""},
		"time before the provider":           {ran(&one, late), failed(reason.ProviderUnavailable), says, "timeout", "did not end in time and was stopped after 1.5s"},
		"silence is time":                    {ran(&one, idle), failed(reason.ProviderUnavailable), says, "timeout", "no sign of life"},
		"time of an engine that says done":   {ran(&zero, late), traffic{}, done, "timeout", ""},
		"never started":                      {evidence.EngineFinished{}, traffic{}, says, "provider_unavailable", "could not be started"},
		"too much output":                    {ran(&one, func(f *evidence.EngineFinished) { f.OutputExceeded = true }), failed(reason.AuthUnavailable), says, "output_limit", ""},
		"out of memory":                      {ran(&one, func(f *evidence.EngineFinished) { f.OOMKilled = true }), failed(reason.AuthUnavailable), says, "resource_limit", ""},
		"the key before the words":           {ran(&one, nil), failed(reason.AuthUnavailable), says, "auth_unavailable", "request 1 to the model has no usable answer (status 503, 1 tries); the engine says: its words"},
		"the provider before the words":      {ran(&zero, nil), failed(reason.ProviderUnavailable), says, "provider_unavailable", ""},
		"the provider before the exit code":  {ran(&one, nil), failed(reason.ProviderUnavailable), done, "provider_unavailable", ""},
		"the first that failed counts":       {ran(&one, nil), failed(reason.AuthUnavailable, reason.ProviderUnavailable), says, "auth_unavailable", "request 1"},
		"the first after a good answer":      {ran(&one, nil), failed(reason.AuthUnavailable, "", reason.ProviderRefused, reason.Timeout), says, "provider_refused", "request 3"},
		"what it asks beside its work":       {ran(&one, nil), failed(reason.RouteRefused, reason.ProviderUnavailable, reason.RouteRefused), says, "provider_unavailable", "request 2"},
		"the agent that failed":              {ran(&zero, nil), team("implementer", 404, "implementer", 500, "retrospective", 200), blames("implementer"), "provider_refused", "request 1"},
		"not another agent":                  {ran(&zero, nil), team("implementer", 200, "retrospective", 500), blames("implementer"), "response_shape_unavailable", "its words"},
		"an agent that helped itself":        {ran(&zero, nil), team("implementer", 404, "implementer", 200, "verifier", 401), blames("implementer"), "response_shape_unavailable", "its words"},
		"an agent that is not known":         {ran(&zero, nil), team("", 404, "", 500), blames("reviewer"), "provider_refused", "request 1"},
		"its answer was cut":                 {ran(&zero, nil), team("implementer", -1, "retrospective", 200), blames("implementer"), "response_shape_unavailable", "request 1 cannot be used: it was cut"},
		"a request that helped itself":       {ran(&one, nil), failed(reason.ProviderUnavailable, ""), says, "response_shape_unavailable", "its words"},
		"refused by the gateway":             {ran(&one, nil), failed(reason.RouteRefused), says, "route_refused", "refused request 1"},
		"another model asked for":            {ran(&one, nil), failed(reason.ModelMismatch), says, "model_mismatch", "refused"},
		"given up is no fault of either":     {ran(&one, nil), failed(reason.Cancelled), says, "response_shape_unavailable", ""},
		"Remit's probe is not the engine's":  {ran(&one, nil), probe, says, "response_shape_unavailable", ""},
		"the words before the exit code":     {ran(&one, nil), traffic{}, says, "response_shape_unavailable", ""},
		"the exit code before no words":      {ran(&one, nil), traffic{}, engine.End{Problem: "broke off"}, "engine_failed", "code 1"},
		"no words that mean anything":        {ran(&zero, nil), traffic{}, engine.End{Problem: "broke off"}, "agent_protocol_failed", "broke off"},
		"done, and exit 1":                   {ran(&one, nil), traffic{}, done, "engine_failed", ""},
		"done":                               {ran(&zero, nil), traffic{}, done, "", ""},
		"done, after a failed request":       {ran(&zero, nil), failed(reason.ProviderUnavailable), done, "", ""},
		"done, and killed for memory beside": {ran(&zero, func(f *evidence.EngineFinished) { f.OOMKilled = true }), traffic{}, done, "", ""},
	} {
		var codes []string
		text := ""
		for _, b := range endBlockers(test.f, test.t, test.end) {
			codes, text = append(codes, string(b.Code)), text+b.Message
			if _, known := reason.Lookup(b.Code); !known || b.Evidence == "" {
				t.Errorf("%s: %+v", name, b)
			}
		}
		if got := strings.Join(codes, " "); got != test.want || !strings.Contains(text, test.text) {
			t.Errorf("%s: %q (%s), want %q", name, got, text, test.want)
		}
	}
}

// TestRanFor: the time of an engine is that of its process, also where reading what
// it left took longer.
func TestRanFor(t *testing.T) {
	t.Parallel()
	for want, res := range map[time.Duration]*sandbox.Result{
		time.Minute: nil, time.Minute + 1: {Commands: []sandbox.CommandResult{{TimedOut: true}}},
		time.Second: {Commands: []sandbox.CommandResult{{Started: true, Duration: time.Second}}},
	} {
		if got := ranFor(res, max(want, time.Minute)); got != want {
			t.Errorf("%+v: %s, want %s", res, got, want)
		}
	}
}

// TestIdleBlockers: an engine that changed nothing after an answer that was none
// has the code of that answer.
func TestIdleBlockers(t *testing.T) {
	t.Parallel()
	for stop, want := range map[gateway.Stop]reason.Code{
		gateway.StopLength: reason.ResponseShape, gateway.StopFilter: reason.ProviderRefused, gateway.StopReasoning: reason.ResponseShape,
		gateway.StopEnd: "", "": "",
	} {
		var seen traffic
		seen.heard(record.ModelRequest{Seq: 1, Stop: gateway.StopFilter})
		seen.heard(record.ModelRequest{Seq: 2, Stop: stop})
		if got := seen.idleBlockers(); len(got) > 1 || (len(got) == 1) != (want != "") || want != "" && got[0].Code != want {
			t.Errorf("%s: %+v", stop, got)
		}
	}
}

// TestHang: being stopped is forgiven only where nothing else speaks against
// the end.
func TestHang(t *testing.T) {
	t.Parallel()
	exit := 137
	stopped := evidence.EngineFinished{ProcessStarted: true, ExitCode: &exit, TimedOut: true, DurationMS: 5}
	timeout := []evidence.Blocker{{Code: reason.Timeout, Message: "m"}}
	idle, loud, unended := stopped, stopped, stopped
	idle.Idle, loud.OutputExceeded, unended.ExitCode = true, true, nil
	if h := hang(stopped, timeout, true); h == nil || h.stopped != evidence.StoppedWall || h.afterMS != 5 || h.timeout.Message != "m" {
		t.Errorf("%+v", h)
	}
	if h := hang(idle, timeout, true); h == nil || h.stopped != evidence.StoppedIdle {
		t.Errorf("%+v", h)
	}
	budget := []evidence.Blocker{{Code: reason.BudgetExhausted}}
	for name, h := range map[string]*hung{
		"no change": hang(stopped, timeout, false), "too much output": hang(loud, timeout, true), "no exit": hang(unended, timeout, true),
		"another blocker": hang(stopped, budget, true), "one more": hang(stopped, append(timeout, budget...), true),
		"ended by itself": hang(evidence.EngineFinished{ProcessStarted: true, ExitCode: &exit}, timeout, true),
	} {
		if h != nil {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
