package provider

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remit/fixtures/tally"
	"remit/law/admission"
	"remit/law/audit"
	"remit/law/job"
	"remit/law/task"
	"remit/proof/attest"
	"remit/proof/bundle"
	"remit/proof/canon"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/gateway"
	play "remit/work/gateway/scripted"
	"remit/work/keyring"
	"remit/work/prove/provetest"
	"remit/work/route"
	"remit/work/sandbox"
	"remit/work/workspace"
)

// askArgument makes this program the agent of a tester.
const askArgument = "__ask"

// tester is an engine whose agent asks its model, prints what that says, and
// writes the last word to a file. How often it asks is the task's title. What
// it is lies in a file, so that it can change.
type tester struct{ build string }

func (tester) Wire() string { return "chat" }

func (e tester) Identity(context.Context) (evidence.EngineIdentity, error) {
	b, err := os.ReadFile(e.build)
	if err != nil {
		return evidence.EngineIdentity{}, reason.Errorf(reason.ProviderUnavailable, "the tester is gone: %w", err)
	}
	return evidence.EngineIdentity{Name: "tester", Version: "1.0.0", SHA256: canon.Digest(b)}, nil
}

func (e tester) Invocation(_ context.Context, t engine.Task) (*engine.Invocation, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	const inside = "/opt/remit/agents/tester"
	return &engine.Invocation{Argv: []string{inside, askArgument, t.Title}, Binds: []sandbox.Bind{{Host: self, Inside: inside}},
		Env: map[string]string{"TEST_URL": t.Model.URL, "TEST_TOKEN": t.Model.Token, "TEST_MODEL": t.Model.Name}}, nil
}

// ask is the agent, in the sandbox.
func ask(title string) error {
	var times int
	if _, err := fmt.Sscanf(title, "ask %d", &times); err != nil {
		times = 1
	}
	said := ""
	for range times {
		req, err := http.NewRequest(http.MethodPost, os.Getenv("TEST_URL")+"/v1/chat/completions",
			strings.NewReader(fmt.Sprintf(`{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":"what is to be written?"}]}`, os.Getenv("TEST_MODEL"))))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+os.Getenv("TEST_TOKEN"))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			return err
		}
		fmt.Printf("%d %s\n", res.StatusCode, body)
		var answer struct {
			Choices []struct{ Message struct{ Content string } }
		}
		if res.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil || len(answer.Choices) != 1 {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		said = answer.Choices[0].Message.Content
	}
	token := sha256.Sum256([]byte(os.Getenv("TEST_TOKEN")))
	return os.WriteFile("a.txt", []byte(said+"\n"+hex.EncodeToString(token[:8])+"\n"), 0o644)
}

// A house is a provider's machine with one agent, a model that it asks, and the
// key that opens the model.
type house struct {
	*testing.T
	home, build, key, keyFile string
	server                    *httptest.Server
	model                     *play.Server
	log                       *guarded
	agent                     Agent

	mu   sync.Mutex
	seen []play.Seen
}

// guarded is a buffer that several write to.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// answers is a model that says its key, as if it had been led to it. A request
// costs 1000 tokens in and 100 out.
const answers = "usage: {in: 1000, out: 100}\nconversations:\n  - when: {user: '^Call the tool ready'}\n    otherwise: {text: ready}\n  - otherwise: {text: 'fixed %s'}\n"

// perRequest is what one costs by the tester's price, in micro-USD.
const perRequest = 1000*2 + 100*10

func newHouse(t *testing.T, script string) *house {
	t.Helper()
	dir := t.TempDir()
	h := &house{T: t, home: filepath.Join(dir, "home"), build: filepath.Join(dir, "tester"), keyFile: filepath.Join(dir, "key"),
		key: "canary-" + rand.Text(), log: &guarded{}}
	for name, text := range map[string]string{h.build: "one", h.keyFile: h.key + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(script, "%") {
		script = fmt.Sprintf(script, h.key)
	}
	s, err := play.Parse("script", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	h.model = play.New(s, play.Options{Key: h.key, Seen: func(s play.Seen) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen = append(h.seen, s)
	}})
	h.server = httptest.NewServer(h.model)
	t.Cleanup(h.server.Close)
	way := route.Model{Provider: "acme", Name: "large-1", BaseURL: h.server.URL + "/v1", Local: true, KeyFile: h.keyFile}
	spare := way
	spare.Name = "large-2" // of which no price is known
	h.agent = Agent{Engine: func() (engine.Engine, error) { return tester{h.build}, nil }, Models: map[string]route.Model{"large-1": way, "large-2": spare},
		Prices: map[string]gateway.Price{"acme/large-1": {InMicroUSDPerMTok: 2_000_000, OutMicroUSDPerMTok: 10_000_000}},
		File:   "agents.yaml", Lines: map[string]int{"": 3, "large-1": 5, "large-2": 6}}
	h.admitSource()
	h.admitModel("large-1", admission.Admitted)
	h.admitModel("large-2", admission.Admitted)
	h.prove(3)
	return h
}

// prove has the home proofs of the agent with its models, up to a stage and no
// further.
func (h *house) prove(through int) {
	h.Helper()
	h.must(os.RemoveAll(filepath.Join(h.home, "ladder")))
	e, err := h.agent.Engine()
	h.must(err)
	for model := range h.agent.Models {
		for _, driver := range []string{sandbox.DriverBwrap, sandbox.DriverNone} {
			provetest.Grant{Engine: e, Provider: "acme", Model: model, Driver: driver, Through: through}.In(h.T, h.home)
		}
	}
}

func (h *house) write(name string, encode func() ([]byte, error)) {
	h.Helper()
	text, err := encode()
	if err != nil {
		h.Fatal(err)
	}
	file := filepath.Join(h.home, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		h.Fatal(err)
	}
}

func ruling(decision admission.Decision) admission.Ruling {
	return admission.Ruling{Decision: decision, Reason: "a test", By: "a test", At: "2026-01-02T03:04:05.000Z"}
}

func (h *house) admitSource() {
	h.Helper()
	e, err := h.agent.Engine()
	if err != nil {
		h.Fatal(err)
	}
	id, err := e.Identity(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	rec, err := admission.NextSource(nil, admission.SourceDecision{Ruling: ruling(admission.Admitted), Engine: id.Name, Version: id.Version, SHA256: id.SHA256})
	if err != nil {
		h.Fatal(err)
	}
	h.write(admission.SourceFile(id.Name), rec.Encode)
}

func (h *house) admitModel(model string, decision admission.Decision) {
	h.Helper()
	rec, err := admission.NextModel(nil, admission.ModelDecision{Ruling: ruling(decision), Provider: "acme", Model: model, Class: admission.Local, CredentialSource: "file"})
	if err != nil {
		h.Fatal(err)
	}
	h.write(admission.ModelFile("acme", model), rec.Encode)
}

// offers makes a daemon offer the agent, and lend it one directory.
func (h *house) offers(source string) func(*Config) {
	h.Helper()
	agents, err := OpenAgents(h.Context(), h.home, map[string]Agent{"coder": h.agent})
	if err != nil {
		h.Fatal(err)
	}
	return func(c *Config) {
		c.Agents, c.Log = agents, slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		if source != "" {
			c.Sources = []string{source}
		}
	}
}

// requests are the agent's own, so far.
func (h *house) requests() (own, probes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.seen {
		if strings.HasPrefix(s.Answer, "conversations[0]") {
			probes++
		} else {
			own++
		}
	}
	return own, probes
}

// secret holds that a directory does not have the key, in any file of any name.
func (h *house) secret(what string, texts ...string) {
	h.Helper()
	for _, text := range texts {
		if strings.Contains(text, h.key) {
			h.Errorf("%s has the key: %s", what, text)
		}
	}
}

func (h *house) secretBelow(dir string) {
	h.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == h.keyFile {
			return err
		}
		text, err := os.ReadFile(path)
		h.secret(path, string(text))
		return err
	})
	if err != nil {
		h.Error(err)
	}
}

// modelled is the contract for an agent, and asking a request for it that is fine.
const modelled = "mutation_mode: copied-repo\nnetwork: gateway\n"

func asking(contract, source, commit, tree string, change func(*job.EngineRunRequest)) job.EngineRunRequest {
	return engineRequest(contract, source, commit, tree, func(r *job.EngineRunRequest) {
		r.Engine = job.EngineChoice{Name: "coder", Model: "large-1"}
		r.Budget.MicroUSD = 100_000
		if change != nil {
			change(r)
		}
	})
}

// TestAgentRun has agents work for jobs. Whatever a request asks for, it is no
// fault of the provider; whatever is wrong with the provider, it is no failure
// of the job; and the key is nowhere.
func TestAgentRun(t *testing.T) {
	t.Parallel()
	fixed := `"grep fixed a.txt"`
	dir, commit, tree := scripted(t, "")
	refused := "usage: {in: 1000, out: 100}\nconversations:\n  - when: {user: '^Call the tool ready'}\n    otherwise: {text: ready}\n  - otherwise: {status: 401, error: {message: no}}\n"
	dead := "conversations:\n  - otherwise: {status: 401, error: {message: no}}\n"
	for name, c := range map[string]struct {
		script string // of the model, "" for answers
		more   string // of the contract, "" for modelled
		change func(*job.EngineRunRequest)
		set    func(*house) // before the agent is offered
		meddle func(*house) // after it was
		// want
		outcome job.Outcome
		status  job.Status
		says    reason.Code
		cost    int64 // of the response
		known   string
		own     int
	}{
		"passes":                 {change: func(r *job.EngineRunRequest) { r.Engine.Version = "1.0.0" }, outcome: job.Passed, status: job.Success, cost: 2 * perRequest, known: "true", own: 1},
		"no money, no price":     {change: func(r *job.EngineRunRequest) { r.Engine.Model, r.Budget.MicroUSD = "large-2", 0 }, outcome: job.Passed, status: job.Success, known: "false", own: 1},
		"which model":            {change: func(r *job.EngineRunRequest) { r.Engine.Model = "" }, outcome: job.JobFailed, status: job.Failed, says: reason.JobInvalid},
		"another model":          {change: func(r *job.EngineRunRequest) { r.Engine.Model = "large-3" }, outcome: job.JobFailed, status: job.Failed, says: reason.ModelUnknown},
		"another build":          {change: func(r *job.EngineRunRequest) { r.Engine.Version = "2" }, outcome: job.JobFailed, status: job.Failed, says: reason.EngineUnknown},
		"no money":               {change: func(r *job.EngineRunRequest) { r.Budget.MicroUSD = 0 }, outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted},
		"the operator's no":      {set: func(h *house) { delete(h.agent.Models, "large-2"); h.agent.MaxMicroUSD = new(int64) }, outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted},
		"money, no price":        {change: func(r *job.EngineRunRequest) { r.Engine.Model = "large-2" }, outcome: job.JobFailed, status: job.Failed, says: reason.PriceUnknown},
		"hosted, no price":       {set: hosted, change: func(r *job.EngineRunRequest) { r.Engine.Model, r.Budget.MicroUSD = "large-2", 0 }, outcome: job.JobFailed, status: job.Failed, says: reason.PriceUnknown},
		"no way out":             {more: "mutation_mode: copied-repo\n", outcome: job.JobFailed, status: job.Failed, says: reason.NetworkNotAllowed},
		"a mode that is not his": {more: "mutation_mode: sandbox-repo\nnetwork: gateway\n", outcome: job.JobFailed, status: job.Failed, says: reason.ModeExceedsStage},
		"no proof of the mode":   {set: func(h *house) { h.prove(2) }, outcome: job.JobFailed, status: job.Failed, says: reason.ModeExceedsStage},
		"no fixture": {set: func(h *house) { h.prove(2) }, more: "mutation_mode: copied-fixture\nnetwork: gateway\n", outcome: job.JobFailed, status: job.Failed,
			says: reason.NotAFixture},
		"the contract's zero":  {more: modelled + "budget: {max_budget_usd: 0}\n", outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted},
		"the contract's count": {more: modelled + "title: ask 9\nbudget: {max_requests: 3}\n", outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted, cost: 3 * perRequest, known: "true", own: 2},
		"the operator's limit": {set: func(h *house) {
			delete(h.agent.Models, "large-2")
			most := int64(2 * perRequest)
			h.agent.MaxMicroUSD = &most
		}, more: modelled + "title: ask 9\n", outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted, cost: 2 * perRequest, known: "true", own: 1},
		"the job's limit":             {change: func(r *job.EngineRunRequest) { r.Budget.MicroUSD = 2 * perRequest }, more: modelled + "title: ask 9\n", outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted, cost: 2 * perRequest, known: "true", own: 1},
		"a contract that is too much": {change: func(r *job.EngineRunRequest) { r.Contract = "{}" }, outcome: job.JobFailed, status: job.Failed, says: reason.JobInvalid},
		"a cent of money":             {change: func(r *job.EngineRunRequest) { r.Budget.MicroUSD = 1 }, outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted, cost: perRequest, known: "true"},
		"late by the last":            {change: func(r *job.EngineRunRequest) { r.Budget.MicroUSD = 2*perRequest - 1 }, outcome: job.JobFailed, status: job.Failed, says: reason.BudgetExhausted, cost: 2 * perRequest, known: "true", own: 1},

		"a build of today":        {meddle: func(h *house) { h.rebuild() }, outcome: job.ProviderFault, status: job.Errored, says: reason.SourceNotAdmitted},
		"proved no more":          {meddle: func(h *house) { h.must(os.RemoveAll(filepath.Join(h.home, "ladder"))) }, outcome: job.ProviderFault, status: job.Errored, says: reason.ModeExceedsStage},
		"a build that is gone":    {meddle: func(h *house) { h.must(os.Remove(h.build)) }, outcome: job.ProviderFault, status: job.Errored, says: reason.ProviderUnavailable},
		"admitted no more":        {meddle: func(h *house) { h.admitModel("large-1", admission.Rejected) }, outcome: job.ProviderFault, status: job.Errored, says: reason.ModelNotAdmitted},
		"a key that is gone":      {meddle: func(h *house) { h.must(os.Remove(h.keyFile)) }, outcome: job.ProviderFault, status: job.Errored, says: reason.AuthUnavailable},
		"a key that is wrong":     {script: dead, outcome: job.ProviderFault, status: job.Errored, says: reason.AuthUnavailable, known: "true"},
		"a key that is withdrawn": {script: refused, outcome: job.ProviderFault, status: job.Errored, says: reason.AuthUnavailable, cost: perRequest, known: "true", own: 1},
		"a model that is gone":    {meddle: func(h *house) { h.server.Close() }, outcome: job.ProviderFault, status: job.Errored, says: reason.ProviderUnavailable, known: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, tally.Place(name), 3)
			if c.script == "" {
				c.script = answers
			}
			if c.more == "" {
				c.more = modelled
			}
			h := newHouse(t, c.script)
			if c.set != nil {
				c.set(h)
			}
			d := daemon(t, "http://127.0.0.1:1", h.offers(dir))
			if c.meddle != nil {
				c.meddle(h)
			}
			r := asking(contractText(t, commit, fixed, c.more), dir, commit, tree, c.change)
			resp, path := d.runEngine(t.Context(), t, r)
			text, _ := json.Marshal(resp)
			t.Logf("%s", text)
			h.secret("the response", string(text))
			h.secret("the log", h.log.String())
			if strings.Contains(string(text)+h.log.String(), h.server.URL) {
				t.Error("the response has the model's address")
			}
			known := ""
			if resp.CostKnown != nil {
				known = fmt.Sprint(*resp.CostKnown)
			}
			if v := job.Check(r, resp); v.Outcome != c.outcome || resp.Status != c.status || resp.MicroUSD != c.cost || known != c.known {
				t.Errorf("outcome %s, status %s, cost %d, known %q: %+v", v.Outcome, resp.Status, resp.MicroUSD, known, v)
			}
			if c.says == reason.SourceNotAdmitted && !strings.Contains(h.log.String(), "remit admit source --engine tester") {
				t.Errorf("the operator does not see what to type: %s", h.log)
			}
			if own, _ := h.requests(); own != c.own {
				t.Errorf("the agent made %d requests", own)
			}
			if resp.Error != nil && *resp.Error != "the provider could not run the job: "+string(c.says) || resp.Error == nil && c.status == job.Errored {
				t.Errorf("%v", resp.Error)
			}
			if resp.Refusal != nil && (resp.Refusal.Code != c.says || strings.Contains(resp.Refusal.Message, "large-1") && r.Engine.Model != "large-1") {
				t.Errorf("%+v", resp.Refusal)
			}
			if resp.BundleSHA256 == "" {
				if own, probes := h.requests(); own+probes > 0 {
					t.Errorf("refused, and yet the model was asked %d times", own+probes)
				}
				return
			}
			report := audited(t, path)
			if c.status != job.Success && (len(report.Blockers) == 0 || report.Blockers[0].Code != c.says) {
				t.Errorf("%+v", report.Blockers)
			}
			h.accounted(path, r, resp)
		})
	}
}

// TestSignedRecordsOfAJob: where the repository of a job asks for signatures, the
// admissions of the provider count with one only, as its proofs always do; those that
// come with the program need none.
func TestSignedRecordsOfAJob(t *testing.T) {
	t.Parallel()
	dir, _, _ := scripted(t, "")
	h := newHouse(t, answers)
	d := daemon(t, "http://127.0.0.1:1", h.offers(dir), func(c *Config) { c.Engines = map[string][]string{"fixer": {"true"}} })
	rule := rule{mode: task.CopiedRepo, signed: true}
	if _, err := d.worker(t.Context(), job.EngineChoice{Name: "coder", Model: "large-1"}, 100_000, rule); reason.CodeOf(err) != reason.SourceNotAdmitted {
		t.Errorf("unsigned records count: %v", err)
	}
	for _, name := range []string{admission.SourceFile("tester"), admission.ModelFile("acme", "large-1")} {
		text, err := os.ReadFile(filepath.Join(h.home, filepath.FromSlash(name)))
		h.must(err)
		signature, err := keyring.SignRecord(h.home, attest.NamespaceRecord, text)
		h.must(err)
		h.must(os.WriteFile(filepath.Join(h.home, filepath.FromSlash(admission.SignatureFile(name))), signature, 0o600))
	}
	signatures, err := filepath.Glob(filepath.Join(h.home, "ladder/*/*/*"+keyring.SignatureSuffix))
	h.must(err)
	for _, name := range signatures {
		h.must(os.Remove(name))
	}
	if _, err := d.worker(t.Context(), job.EngineChoice{Name: "coder", Model: "large-1"}, 100_000, rule); reason.CodeOf(err) != reason.ModeExceedsStage {
		t.Errorf("unsigned proofs count: %v", err)
	}
	h.prove(3)
	for _, name := range []string{"coder", "fixer"} {
		model := map[string]string{"coder": "large-1"}[name]
		if w, err := d.worker(t.Context(), job.EngineChoice{Name: name, Model: model}, 100_000, rule); err != nil || w.admission.ProvenMode != task.CopiedRepo {
			t.Errorf("%s: %+v, %v", name, w.admission, err)
		}
	}
	for text, want := range map[string]bool{"tests: free\n": false, "records: {signed: true}\n": true, "records: {signed: false}\n": false, "records: [\n": true} {
		h.must(os.WriteFile(filepath.Join(dir, task.PolicyFile), []byte(text), 0o644))
		gitIn(t, dir, "add", ".")
		gitIn(t, dir, "commit", "-qm", "policy")
		source, err := workspace.OpenSource(t.Context(), dir)
		h.must(err)
		base, err := source.Resolve(t.Context(), "HEAD")
		h.must(err)
		if policy, known := policyAt(t.Context(), source, base); (!known || policy.SignedRecords()) != want {
			t.Errorf("%q: signed is not %v", text, want)
		}
	}
}

func hosted(h *house) {
	m := h.agent.Models["large-2"]
	m.Local = false
	h.agent.Models["large-2"] = m
	rec, err := admission.NextModel(nil, admission.ModelDecision{Ruling: ruling(admission.Admitted), Provider: "acme", Model: "large-2", Class: admission.Hosted, CredentialSource: "file"})
	h.must(err)
	h.write(admission.ModelFile("acme", "large-2"), rec.Encode)
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) rebuild() { h.must(os.WriteFile(h.build, []byte("two"), 0o600)) }

// accounted holds a bundle against the response and the model's own books: its
// receipt has the model and what it cost, and no file of it the key or the
// address.
func (h *house) accounted(zip string, r job.EngineRunRequest, resp job.EngineRunResponse) {
	h.Helper()
	files := contents(h.T, zip)
	var rc evidence.Receipt
	h.must(evidence.DecodeReceipt(files[evidence.ReceiptFile], &rc))
	if (rc.Model == nil) != (rc.Usage == nil) || rc.Model != nil && (rc.Model.Provider != "acme" || rc.Model.Model != r.Engine.Model && r.Engine.Model != "") {
		h.Errorf("the receipt's model is %+v", rc.Model)
	}
	own, probes := h.requests()
	switch u := rc.Usage; {
	case u == nil:
		if own+probes > 0 || resp.MicroUSD != 0 {
			h.Errorf("no usage for %d requests", own+probes)
		}
	case u.CostMicroUSD != resp.MicroUSD || *u.CostKnown != *resp.CostKnown || u.Requests != h.model.Count().Completed+h.model.Count().Refused && own+probes > 0:
		h.Errorf("the receipt has %+v, the model %+v", u, h.model.Count())
	}
	for name, text := range files {
		h.secret(name, string(text))
		if bytes.Contains(text, []byte(h.server.URL)) {
			h.Errorf("%s has the model's address", name)
		}
	}
}

// TestModelIsNotAgentsWord: an engine that was made to say that its model failed
// does not cost the provider a strike; the gateway's record does.
func TestModelIsNotAgentsWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code     reason.Code
		evidence string
		started  bool
		want     bool
	}{
		"the gateway saw it":       {reason.AuthUnavailable, evidence.JournalFile, true, true},
		"the agent says so":        {reason.AuthUnavailable, "backend/stderr.log", true, false},
		"the agent's provider":     {reason.ProviderUnavailable, "backend/stderr.log", true, false},
		"nothing could be started": {reason.ProviderUnavailable, "backend/stderr.log", false, true},
		"before the engine":        {reason.AuthUnavailable, evidence.TraceFile, false, true},
		"its configuration":        {reason.LocalConfigMissing, evidence.TraceFile, false, true},
		"its words on that":        {reason.LocalConfigMissing, "backend/stderr.log", true, false},
		"the budget":               {reason.BudgetExhausted, evidence.JournalFile, true, false},
		"another model asked for":  {reason.ModelMismatch, evidence.JournalFile, true, false},
		"the sandbox":              {reason.SandboxUnavailable, evidence.TraceFile, true, true},
	} {
		if got := ofThisMachine([]evidence.Blocker{{Code: c.code, Evidence: c.evidence}}, c.started); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if ofThisMachine(nil, true) {
		t.Error("no blocker")
	}
}

// TestCeiling: what a job may spend is the least of what anybody says, and where
// nothing can keep a limit there is no run.
func TestCeiling(t *testing.T) {
	t.Parallel()
	one := int64(1)
	prices := map[string]gateway.Price{"acme/dear": {OutMicroUSDPerMTok: 1}, "acme/free": {}}
	for name, c := range map[string]struct {
		model  string
		hosted bool
		most   *int64
		budget int64
		want   string
	}{
		"the job's":            {"dear", true, nil, 7, "7 "},
		"the operator's":       {"dear", true, &one, 7, "1 "},
		"no money":             {"dear", false, nil, 0, "0 budget_exhausted"},
		"the operator's no":    {"dear", false, new(int64), 7, "0 budget_exhausted"},
		"free":                 {"free", true, nil, 0, "0 "},
		"free, with money":     {"free", true, nil, 7, "7 "},
		"no price, no money":   {"odd", false, nil, 0, "0 "},
		"no price, money":      {"odd", false, nil, 7, "0 price_unknown"},
		"no price, hosted":     {"odd", true, nil, 0, "0 price_unknown"},
		"a price of the world": {"gpt-5.5", true, nil, 0, "0 budget_exhausted"},
	} {
		m := route.Model{Provider: "acme", Name: c.model, Local: !c.hosted}
		if c.model == "gpt-5.5" {
			m.Provider = "openai"
		}
		ceiling, err := Agent{Prices: prices, MaxMicroUSD: c.most}.ceiling(m, c.budget)
		if got := fmt.Sprint(ceiling, " ", reason.CodeOf(err)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestTwoJobsAtOnce: each has a gateway and a token of its own.
func TestTwoJobsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, answers)
	dir, commit, tree := scripted(t, "")
	d := daemon(t, "http://127.0.0.1:1", h.offers(dir))
	var jobs sync.WaitGroup
	var mu sync.Mutex
	var patches []string
	for range 2 {
		jobs.Go(func() {
			spool := t.TempDir()
			r := asking(contractText(t, commit, `"grep fixed a.txt"`, modelled+"title: ask 2\n"), dir, commit, tree, nil)
			resp, _, err := (&engineRun{Daemon: d, req: r, caps: d.binding(nil), runID: "run_1", dir: spool}).run(t.Context())
			if err != nil || resp.Status != job.Success || resp.MicroUSD != 3*perRequest {
				t.Errorf("%v, %+v", err, resp)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			patches = append(patches, string(memberOf(t, filepath.Join(spool, bundleFile), evidence.PatchFile)))
		})
	}
	jobs.Wait()
	if len(patches) != 2 || patches[0] == patches[1] { // the digest of the token is in it
		t.Errorf("%q", patches)
	}
}

// TestOpenAgents: what keeps an agent from being offered is said to the operator
// at once, all of it, with the place and the command to type.
func TestOpenAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*house)
		want   []string // each in the text of one problem or its hint
	}{
		"fine":         {nil, nil},
		"not admitted": {func(h *house) { h.rebuild(); h.agent.Bin = "/opt/tester" }, []string{"agents.yaml:3: coder: ", "source_not_admitted", "remit admit source --engine tester --bin /opt/tester --decision admitted"}},
		"gone":         {func(h *house) { h.must(os.Remove(h.build)) }, []string{"agents.yaml:3: coder: ", "provider_unavailable"}},
		"model": {func(h *house) {
			h.must(os.RemoveAll(filepath.Join(h.home, filepath.FromSlash(admission.ModelFile("acme", "large-2")))))
		}, []string{"agents.yaml:6: coder.models.large-2: ", "model_not_admitted", "remit admit model --provider acme --model large-2 --class local --credential file --network loopback --decision admitted"}},
		"both": {func(h *house) { h.must(os.RemoveAll(h.home)) }, []string{"agents.yaml:3: coder: ", "agents.yaml:5: ", "agents.yaml:6: "}},
		"another way": {func(h *house) {
			h.change("large-1", func(m *route.Model) { m.KeyFile, m.KeyCommand = "", []string{"true"} })
		}, []string{"agents.yaml:5: coder.models.large-1: ", "model_mismatch"}},
		"no key":          {func(h *house) { h.must(os.Remove(h.keyFile)) }, []string{"agents.yaml:5: ", "auth_unavailable"}},
		"a key for all":   {func(h *house) { h.must(os.Chmod(h.keyFile, 0o640)) }, []string{"agents.yaml:5: ", "forbidden", "chmod 600"}},
		"no address":      {func(h *house) { h.change("large-1", func(m *route.Model) { m.BaseURL = "http://127.0.0.1:1/?key=x" }) }, []string{"agents.yaml:5: ", "local_config_missing"}},
		"no certificates": {func(h *house) { h.change("large-1", func(m *route.Model) { m.CAFile = h.keyFile }) }, []string{"agents.yaml:5: ", "local_config_missing"}},
		"a cap, no price": {func(h *house) { h.agent.MaxMicroUSD = new(int64) }, []string{"agents.yaml:6: coder.models.large-2: ", "price_unknown", `below prices as "acme/large-2"`}},
		"asks no model":   {func(h *house) { h.agent.Engine = func() (engine.Engine, error) { return silent{}, nil } }, []string{"agents.yaml:3: coder: ", "engine_unknown", "--engine"}},
		"a record damaged": {func(h *house) {
			h.write(admission.SourceFile("tester"), func() ([]byte, error) { return []byte("x"), nil })
		}, []string{"agents.yaml:3: coder: ", "source_not_admitted"}},
	} {
		h := newHouse(t, answers)
		if c.change != nil {
			c.change(h)
		}
		_, err := OpenAgents(t.Context(), h.home, map[string]Agent{"coder": h.agent})
		var said strings.Builder
		problems, _ := err.(task.Problems) //nolint:errorlint // it is what is promised
		for _, p := range problems {
			fmt.Fprintln(&said, p, p.Hint)
		}
		h.secret(name, said.String())
		if (err == nil) != (c.want == nil) || err != nil && len(problems) == 0 || strings.Contains(said.String(), h.keyFile) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: %q is not in %s", name, want, said.String())
			}
		}
	}
	h := newHouse(t, answers)
	if _, err := OpenAgents(t.Context(), h.home, map[string]Agent{"fake": h.agent, "../x": h.agent}); err == nil || strings.Count(err.Error(), "not a name") != 2 {
		t.Error(err)
	}
	if own, probes := h.requests(); own+probes > 0 {
		t.Error("a model was asked")
	}
}

func (h *house) change(model string, change func(*route.Model)) {
	m := h.agent.Models[model]
	change(&m)
	h.agent.Models[model] = m
}

// silent is an engine that asks no model.
type silent struct{ engine.Engine }

func (silent) Identity(context.Context) (evidence.EngineIdentity, error) {
	return evidence.EngineIdentity{Name: "silent", Version: "1"}, nil
}

// TestOfferedTwice: a name is a program or an agent.
func TestOfferedTwice(t *testing.T) {
	t.Parallel()
	h := newHouse(t, answers)
	offer := h.offers("")
	d := daemon(t, "http://127.0.0.1:1", offer)
	c := Config{State: State{Dir: filepath.Dir(d.spool.dir)}, Driver: d.driver, Engines: map[string][]string{"coder": {"true"}}}
	offer(&c)
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "offered twice") {
		t.Error(err)
	}
	// The operator's log has the names, and nothing of the way to the models.
	if log := h.log.String(); !strings.Contains(log, "coder") || !strings.Contains(log, "large-1") || strings.Contains(log, h.keyFile) || strings.Contains(log, h.server.URL) {
		t.Error(log)
	}
	if where := d.agents.Where("coder"); where != "agents.yaml:3" || d.agents.Where("x") != "" {
		t.Error(where)
	}
}

// contents are the files of a bundle that holds.
func contents(t *testing.T, zip string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	opt := bundle.Options{}
	opt.Gates, opt.Further = audit.Gates()
	opt.Further = append(opt.Further, bundle.Gate{Name: "look", Check: func(_ context.Context, files fs.FS) []reason.Finding {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				all[name], err = fs.ReadFile(files, name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return nil
	}})
	if r, err := bundle.Audit(t.Context(), zip, opt); err != nil || r.Status != bundle.Pass {
		t.Fatalf("%+v, %v", r, err)
	}
	return all
}
