package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/agent"
	"remit/work/gateway"
	"remit/work/sandbox"
	"remit/work/session"
	"remit/work/tree"
)

// asker is an engine that asks a model, and the sandbox that it runs in: it
// makes its requests from this process, through the listener that a sandbox
// would have. Its change is always the same.
type asker struct {
	talker
	end      engine.End
	exit     int
	requests int
	deaf     bool   // its invocation fails
	model    string // asked for, "" for the admitted one

	task    *engine.Model
	started bool
	answers []string
}

func (*asker) Wire() string { return "chat" }

func (a *asker) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	a.task = t.Model
	if a.deaf {
		_, err := agent.Prompt(engine.Task{Instructions: strings.Repeat("x", agent.MaxPrompt)})
		return nil, err
	}
	return &engine.Invocation{Argv: []string{"tool"}, Protocol: func(func(engine.Event)) engine.Protocol { return ends{a.end} }}, nil
}

type ends struct{ end engine.End }

func (ends) Line([]byte)       {}
func (e ends) End() engine.End { return e.end }

func (*asker) Describe() sandbox.Description { return sandbox.Description{Driver: "asker"} }

func (a *asker) Run(ctx context.Context, s sandbox.Spec) (*sandbox.Result, error) {
	if s.Commands[0].Argv[0] != "tool" {
		return nil, errors.New("this sandbox does not verify")
	}
	a.started = true
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	s.Loopback(l)
	model := a.model
	if model == "" {
		model = a.task.Name
	}
	for range a.requests {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Addr().String()+"/v1/chat/completions",
			strings.NewReader(fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`, model)))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+a.task.Token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		body, _ := io.ReadAll(res.Body) // what broke off is an answer too
		res.Body.Close()
		a.answers = append(a.answers, fmt.Sprint(res.StatusCode, " ", string(body)))
	}
	const text = "done\n"
	return &sandbox.Result{Commands: []sandbox.CommandResult{{Started: true, ExitCode: a.exit}}, Layer: "copy", Changes: []tree.Change{
		{Path: "a.txt", Kind: tree.File, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}}}, nil
}

// answering is a provider: each request gets 1000 tokens in and 100 out, from
// the model that it asked for unless another is named, until after so many it
// has only a status.
type answering struct {
	after   int64 // 0: never
	status  int
	another string
	seen    atomic.Int64
	keys    chan string
}

func (p *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := p.seen.Add(1)
	select {
	case p.keys <- r.Header.Get("Authorization"):
	default:
	}
	if p.after > 0 && n > p.after {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.status)
		fmt.Fprint(w, `{"error":{"message":"no"}}`)
		return
	}
	var asked struct{ Model string }
	body, _ := io.ReadAll(r.Body) // then there is no model in it
	_ = json.Unmarshal(body, &asked)
	if p.another != "" && n > 1 {
		asked.Model = p.another
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(rest string) {
		fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","model":%q,%s}`+"\n\n", asked.Model, rest)
	}
	event(`"choices":[{"index":0,"delta":{"role":"assistant","content":"ready"},"finish_reason":null}]`)
	event(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	event(`"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// asking is a run of an asker against a provider on this machine.
func asking(t *testing.T, repo string, a *asker, p *answering) Request {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	req := newRun(t, repo, nil, a)
	req.Sandbox = a
	req.Model = &ModelRoute{Upstream: gateway.Upstream{Provider: "acme", Class: gateway.Local, BaseURL: server.URL + "/v1"}, Model: "large-1", Status: "admitted",
		Prices: map[string]gateway.Price{"acme/large-1": {InMicroUSDPerMTok: 2_000_000, OutMicroUSDPerMTok: 10_000_000}}}
	return req
}

// TestModelEndings: why a run with a model is no pass is explained by the best
// witness, and the work of the engine is kept whatever it is.
func TestModelEndings(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	two, tokens, usd := int64(2), int64(2000), int64(3000)
	failed := engine.End{Code: reason.ResponseShape, Problem: "its words"}
	done := engine.End{Complete: true}
	for name, test := range map[string]struct {
		a      *asker
		p      *answering
		change func(*Request)
		want   reason.Code
		asked  int64 // requests that reached the provider, the probe among them
		marker string
	}{
		"its key is refused":     {&asker{requests: 1, exit: 1, end: failed}, &answering{after: 1, status: 401}, nil, reason.AuthUnavailable, 2, "provider-auth-unavailable.txt"},
		"its request is refused": {&asker{requests: 1, exit: 1, end: failed}, &answering{after: 1, status: 404}, nil, reason.ProviderRefused, 2, "provider-refused.txt"},
		"another model answers":  {&asker{requests: 1, end: done}, &answering{another: "small-1"}, nil, reason.ModelMismatch, 2, "provider-model-mismatch.txt"},
		"asks for another model": {&asker{requests: 1, exit: 1, end: failed, model: "small-1"}, &answering{}, nil, reason.ModelMismatch, 1, "provider-model-mismatch.txt"},
		"its own words":          {&asker{requests: 1, exit: 1, end: failed}, &answering{}, nil, reason.ResponseShape, 2, "provider-response-shape.txt"},
		"requests":               {&asker{requests: 3, end: done}, &answering{}, func(r *Request) { r.Contract.Budget.MaxRequests = &two }, reason.BudgetExhausted, 2, "provider-budget-exhausted.txt"},
		"tokens":                 {&asker{requests: 3, end: done}, &answering{}, func(r *Request) { r.Contract.Budget.MaxTokens = &tokens }, reason.BudgetExhausted, 2, "provider-budget-exhausted.txt"},
		"the last request":       {&asker{requests: 1, end: done}, &answering{}, func(r *Request) { r.Model.Ceiling = 5000 }, reason.BudgetExhausted, 2, "provider-budget-exhausted.txt"},
		"no more than there is":  {&asker{requests: 1, exit: 1, end: failed}, &answering{}, func(r *Request) { r.Model.Ceiling = 6000 }, reason.ResponseShape, 2, "provider-response-shape.txt"},
		"a ceiling":              {&asker{requests: 3, end: done}, &answering{}, func(r *Request) { r.Model.Ceiling = 3000 }, reason.BudgetExhausted, 1, "provider-budget-exhausted.txt"},
		"money":                  {&asker{requests: 3, end: done}, &answering{}, func(r *Request) { r.Contract.Budget.MaxBudgetMicroUSD = &usd }, reason.BudgetExhausted, 1, "provider-budget-exhausted.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := asking(t, repo, test.a, test.p)
			if test.change != nil {
				test.change(&req)
			}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			if len(rep.Blockers) == 0 || rep.Blockers[0].Code != test.want || rep.Status != evidence.StatusBlocked {
				t.Errorf("%s: %+v, want %s", rep.Status, rep.Blockers, test.want)
			}
			if says, hint := spentOf[name][0], spentOf[name][1]; len(rep.Blockers) > 0 && (!strings.Contains(rep.Blockers[0].Message, says) || !strings.Contains(rep.Blockers[0].Hint, hint)) {
				t.Errorf("%+v, want %q and %q", rep.Blockers[0], says, hint)
			}
			if n := test.p.seen.Load(); n != test.asked || rep.Usage.Requests != n {
				t.Errorf("%d requests, %d counted, want %d", n, rep.Usage.Requests, test.asked)
			}
			if patch, _ := patchOf(t, out.Session); !strings.Contains(patch, "+done") {
				t.Errorf("the work is not kept: %q", patch)
			}
			if _, err := os.Stat(filepath.Join(out.Session.Dir, evidence.BackendDir, test.marker)); err != nil {
				t.Error(err)
			}
			leakFree(t, out.Session)
		})
	}
}

// spentOf is what the end of a budget says of it, and what to raise.
var spentOf = map[string][2]string{
	"requests":  {"2 of 2 requests, ", "raise budget.max_requests in"},
	"tokens":    {" requests, 2200 of 2000 tokens", "raise budget.max_tokens in"},
	"money":     {" of 3000 micro-USD", "raise budget.max_budget_usd in"},
	"a ceiling": {" of 3000 micro-USD", ""},
}

// TestModelLimitsBeforeTheStart: a limit that nothing could keep, and one that
// allows nothing, end the run before a request is made or a process started.
func TestModelLimitsBeforeTheStart(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	zero, some := int64(0), int64(1_000_000)
	for name, test := range map[string]struct {
		change func(*Request)
		want   reason.Code
		says   string
		hint   string // of its own
	}{
		"no tokens":                {func(r *Request) { r.Contract.Budget.MaxTokens = &zero }, reason.BudgetExhausted, "max_tokens", "raise budget.max_tokens"},
		"no requests":              {func(r *Request) { r.Contract.Budget.MaxRequests = &zero }, reason.BudgetExhausted, "max_requests", "raise budget.max_requests"},
		"no money":                 {func(r *Request) { r.Contract.Budget.MaxBudgetMicroUSD = &zero }, reason.BudgetExhausted, "max_budget_usd", "raise budget.max_budget_usd"},
		"money, and no price":      {func(r *Request) { r.Contract.Budget.MaxBudgetMicroUSD, r.Model.Prices = &some, nil }, reason.PriceUnknown, "--prices", `"acme/large-1"`},
		"more than an agent takes": {func(r *Request) { r.Engine.(*asker).deaf = true }, reason.ContractValue, "an agent takes", "into a file"},
		"the same at a hosted provider": {func(r *Request) {
			r.Contract.Budget.MaxBudgetMicroUSD, r.Model.Prices, r.Model.Upstream.Class = &some, nil, gateway.Hosted
		}, reason.PriceUnknown, "--prices", `"acme/large-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, p := &asker{requests: 1, end: engine.End{Complete: true}}, &answering{}
			req := asking(t, repo, a, p)
			test.change(&req)
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			b := out.Report.Blockers
			if len(b) == 0 || b[0].Code != test.want || !strings.Contains(b[0].Message, test.says) || out.Report.EngineProcessStarted {
				t.Errorf("%+v", b)
			}
			if !strings.Contains(b[0].Hint, test.hint) || strings.Contains(b[0].Message, string(test.want)) {
				t.Errorf("%+v", b[0])
			}
			if a.started || p.seen.Load() != 0 {
				t.Errorf("started %t, %d requests", a.started, p.seen.Load())
			}
		})
	}
}

// TestModelAccounts: what the gateway counted is in report and receipt, with the
// pair that it let through, and a price that is not known is said.
func TestModelAccounts(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for name, known := range map[string]bool{"priced": true, "unpriced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := asking(t, repo, &asker{requests: 2, end: engine.End{Complete: true}}, &answering{})
			want := evidence.MeteredUsage{Tokens: 3300, Requests: 3}
			if known {
				want.CostMicroUSD = 3 * (2000 + 1000)
			} else {
				req.Model.Prices = nil
			}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.ReceiptFile))
			var receipt evidence.Receipt
			if err == nil {
				err = evidence.DecodeReceipt(raw, &receipt)
			}
			if err != nil {
				t.Fatal(err)
			}
			for place, u := range map[string]*evidence.MeteredUsage{"report": &out.Report.Usage, "receipt": receipt.Usage} {
				if u == nil || u.CostKnown == nil || *u.CostKnown != known || u.Tokens != want.Tokens || u.Requests != want.Requests || u.CostMicroUSD != want.CostMicroUSD {
					t.Errorf("%s: %+v, want %+v", place, u, want)
				}
			}
			if receipt.Model == nil || receipt.Model.Provider != "acme" || receipt.Model.Model != "large-1" || out.Report.RuntimeModelProvider == nil {
				t.Errorf("model %+v, %v", receipt.Model, out.Report.RuntimeModelProvider)
			}
			leakFree(t, out.Session)
		})
	}
}

// TestKeyByCommand: a program that the user names gives the key. It goes to the
// provider and nowhere else; a program that fails ends the run before a process
// is started.
func TestKeyByCommand(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	key := "sk-canary-" + credential(7)
	a, p := &asker{requests: 1, end: engine.End{Complete: true, Summary: "I was given " + key}}, &answering{keys: make(chan string, 9)}
	req := asking(t, repo, a, p)
	req.Model.KeepBodies = true
	req.Model.Upstream.Credential.Command = []string{"tool", "read"}
	req.Model.RunCommand = func(_ context.Context, argv []string) ([]byte, error) { return []byte(key + "\n"), nil }
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-p.keys; got != "Bearer "+key {
		t.Errorf("the provider got %q", got)
	}
	if a.task.Token == key || strings.Contains(strings.Join(a.answers, ""), key) {
		t.Error("the engine has the key")
	}
	if !slices.ContainsFunc(out.Report.Blockers, func(b evidence.Blocker) bool { return b.Code == reason.SecretLeak }) {
		t.Errorf("an engine that says the key is not found out: %+v", out.Report.Blockers)
	}
	leakFree(t, out.Session, key)

	a, p = &asker{requests: 1}, &answering{}
	req = asking(t, repo, a, p)
	req.Model.Upstream.Credential.Command = []string{"tool", "read"}
	req.Model.RunCommand = func(context.Context, []string) ([]byte, error) { return nil, errors.New("half of " + key) }
	if out, err = Run(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if out.Report.Blockers[0].Code != reason.AuthUnavailable || a.started || p.seen.Load() != 0 {
		t.Errorf("%+v, started %t", out.Report.Blockers, a.started)
	}
	leakFree(t, out.Session, key)
}

// TestBodiesAreKept: with the policy's word the bodies are artifacts of the run,
// without it there are none.
func TestBodiesAreKept(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for _, keep := range []bool{true, false} {
		req := asking(t, repo, &asker{requests: 1, end: engine.End{Complete: true}}, &answering{})
		req.Model.KeepBodies = keep
		out, err := Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := os.ReadFile(filepath.Join(out.Session.Dir, evidence.ManifestFile))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"000001-request.json", "000001-response.sse", "000002-request.json", "000002-response.sse"} {
			if strings.Contains(string(manifest), ModelDir+"/"+name) != keep {
				t.Errorf("keep %t: %s\n%s", keep, name, manifest)
			}
		}
		leakFree(t, out.Session)
	}
}

// TestBodiesAreBounded: beyond the limits nothing is kept, it is said, and the
// run goes on.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	s := session.Session{Dir: t.TempDir()}
	b := newBodies(s)
	b.left = 10
	for name, text := range map[string]string{"1": "0123456", "2": "0123456", "3": "0123456"} {
		w, err := b.open(name)
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			continue
		}
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	var size int64
	err := fs.WalkDir(os.DirFS(s.Dir), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, infoErr := d.Info()
			size, err = size+info.Size(), infoErr
		}
		return err
	})
	if err != nil || size != 10 || !b.cut || len(b.names) != 2 {
		t.Errorf("%d bytes in %v, cut %t, %v", size, b.names, b.cut, err)
	}
	b = newBodies(s)
	b.names = make([]string, maxBodies)
	if w, err := b.open("x"); w != nil || err != nil || !b.cut {
		t.Errorf("%v, %v: one file too many", w, err)
	}
	if w, err := newBodies(s).open("../x/y"); err == nil {
		t.Errorf("%v: a body outside of its directory", w)
	}
}

// TestSourceStatus: the report has the word of the record.
func TestSourceStatus(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for stated, want := range map[string]string{"": "not_required", "admitted": "admitted", "not_admitted": "not_admitted"} {
		req := asking(t, repo, &asker{requests: 1, end: engine.End{Complete: true}}, &answering{})
		req.Admission.SourceStatus = stated
		out, err := Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if out.Report.SourceAdmissionStatus != want || out.Report.ModelAdmissionStatus != "admitted" {
			t.Errorf("%q: %s, %s", stated, out.Report.SourceAdmissionStatus, out.Report.ModelAdmissionStatus)
		}
		log, err := journal.ReadFile(out.Session.Journal())
		if err != nil || log.Entries[0].Name != evidence.StepRunOpened {
			t.Fatal(err)
		}
	}
}

// TestModelAccountsOfKilledRun: a run that is killed while its gateway is open
// has no sum. Taken up again it tells what its requests add up to, and that this
// may not be all.
func TestModelAccountsOfKilledRun(t *testing.T) {
	t.Parallel()
	req := asking(t, newRepo(t, map[string]string{"a.txt": "a\n"}), &asker{requests: 2, end: engine.End{Complete: true}}, &answering{})
	out, err := Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	log, err := journal.ReadFile(out.Session.Journal())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) int {
		return slices.IndexFunc(log.Entries, func(e journal.Entry) bool { return e.Name == name })
	}
	workspace := slices.IndexFunc(log.Entries, func(e journal.Entry) bool {
		return e.Name == evidence.StepWorkspace && e.Status == journal.Completed
	})
	for name, test := range map[string]struct {
		entries, requests int
		said              bool // that a model was asked, or may have been
	}{
		"before the first request":   {workspace, 0, false},
		"during the first request":   {at(evidence.StepModel), 0, true},
		"after the first request":    {at(evidence.StepModel) + 1, 1, true},
		"while the engine worked":    {at(evidence.StepUsage) - 1, 2, true},
		"before the sum was written": {at(evidence.StepUsage), 3, true},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share a session's id
			again, err := Resume(t.Context(), Resumption{Home: req.Home, Session: cutAfter(t, req.Home, out.Session, test.entries), Sandbox: req.Sandbox})
			if err != nil {
				t.Fatal(err)
			}
			u, n := again.Report.Usage, int64(test.requests)
			if u.Requests != n || u.Tokens != 1100*n || u.CostMicroUSD != 3000*n {
				t.Errorf("%+v, want those of %d requests", u, n)
			}
			if (u.CostKnown != nil) != test.said || test.said && *u.CostKnown {
				t.Errorf("the cost is known: %v", u.CostKnown)
			}
			if rep := again.Report; rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != reason.Interrupted {
				t.Errorf("%s %+v", rep.Status, rep.Blockers)
			}
			leakFree(t, again.Session)
		})
	}
}
