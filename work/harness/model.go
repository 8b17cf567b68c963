package harness

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
	"remit/proof/record"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/sandbox"
)

// ModelRoute is the way of a run to a model.
type ModelRoute struct {
	// Upstream answers. Its provider and Model are the pair that was asked for,
	// which the admission has to name.
	Upstream gateway.Upstream
	Model    string
	// EngineModel is what the engine calls the model; "" is the same.
	EngineModel string
	Status      eligibility.ModelStatus
	Detail      string                   // what the admission record says, in words
	Remedy      string                   // what would make one hold, "" when one does
	Prices      map[string]gateway.Price // before the built-in ones, by "provider/model"
	// Ceiling is what the model may cost in micro-USD by the word of the one who pays
	// for it, beside the contract; 0: no such word. A run that cost more, by the
	// one request that may be late, is blocked.
	Ceiling    int64
	RunCommand func(ctx context.Context, argv []string) ([]byte, error)
	// StoredState lets the engine use what is stored at the provider; the user's
	// word alone.
	StoredState bool
	// KeepBodies keeps requests and answers in the session; see bodies.
	KeepBodies bool
}

// Admission is what the records and the proofs say of an engine.
type Admission struct {
	Enabled bool // by the policy
	// SourceStatus is the source_admission_status of the report; "" is not_required.
	SourceStatus string
	Detail       string // what the record says, in words
	Remedy       string // what would make one hold, "" when one does
	// ProvenMode is the widest mode that is proved of the engine, Unproved why no
	// further one is, and Prove the command that would prove it.
	ProvenMode      task.MutationMode
	Unproved, Prove string
	// Build is the build of the engine that the records were asked about; nil when
	// they were not.
	Build *evidence.EngineIdentity
	// Unavailable is why the engine cannot run on this machine, nil if it can.
	Unavailable error
}

// TargetAdmission is what the records say of the repository, of a run whose mode
// touches it. The zero value is that of a run which asks no record.
type TargetAdmission struct {
	Admitted bool
	Code     reason.Code // of what the record lacks
	Detail   string      // what the record says, in words that name no path
	Status   string      // admission_status of the record, "" for none
	SHA256   string      // digest of the record, "" for none
}

// sourceAdmitted is the status of a build that a record admits.
const sourceAdmitted = string(eligibility.ModelAdmitted)

// modelStatus is the word for reports.
func (r *run) modelStatus() eligibility.ModelStatus {
	if r.Model == nil {
		return eligibility.ModelNotRequired
	}
	return r.Model.Status
}

// way is the open gateway of a run.
type way struct {
	*gateway.Gateway
	model   *engine.Model
	wire    gateway.Protocol
	traffic traffic // of what is recorded; calls do not overlap
	bodies  *bodies
	closed  bool
}

// openWay opens the gateway. It asks nothing yet.
func (r *run) openWay(ctx context.Context) (*way, error) {
	if r.Model == nil {
		return nil, nil
	}
	m, wired := r.Engine.(engine.Modelled)
	if !wired {
		return nil, reason.Errorf(reason.EngineUnknown, "engine %s asks no model", r.opened.Engine.Name)
	}
	limits, err := r.modelLimits()
	if err != nil {
		return nil, err
	}
	token, name := rand.Text(), r.Model.EngineModel
	upstream := r.Model.Upstream
	if name == "" {
		name = r.Model.Model
	} else {
		upstream.Models = map[string]string{name: r.Model.Model}
	}
	w := &way{traffic: traffic{model: r.Model.Model, ceiling: r.Model.Ceiling, limits: limits},
		model: &engine.Model{URL: fmt.Sprintf("http://127.0.0.1:%d", sandbox.DefaultLoopbackPort), Token: token, Name: name}}
	o := gateway.Options{Upstream: upstream, Model: r.Model.Model, StoredState: r.Model.StoredState, Limits: limits, Prices: r.Model.Prices, Token: token,
		Record: func(rec record.ModelRequest) { w.traffic.heard(rec); r.modelAsked(rec) }, Clock: r.clock,
		RunCommand: r.learnFrom(r.Model.RunCommand)}
	if team, several := r.Engine.(engine.Team); several {
		o.AgentIn = team.AgentIn
	}
	if r.Model.KeepBodies {
		w.bodies = newBodies(r.session)
		o.KeepBodies = w.bodies.open
	}
	r.learnCredential(upstream.Credential)
	if w.Gateway, err = gateway.Open(ctx, o); err != nil {
		return nil, err
	}
	w.wire = gateway.Protocol(m.Wire())
	return w, nil
}

// probe asks the provider for one answer: an engine is not started on a model
// that cannot answer it. A model that does not may take as long as an engine
// that waits for it, and no longer.
func (r *run) probe(ctx context.Context, w *way) error {
	if w == nil {
		return nil
	}
	limited, cancel := ctx, func() {}
	if limit := r.Contract.Budget.Wall(); limit > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, limit,
			reason.Errorf(reason.Timeout, "the model did not answer its first question within %s", limit))
	}
	defer cancel()
	// By itself the gateway reads on for a while, to learn what an answer costs
	// that no caller waits for any more.
	stop := context.AfterFunc(limited, func() { _ = w.Close() })
	defer stop()
	err := w.Probe(limited, w.wire)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return context.Cause(limited)
	}
	return err
}

// modelLimits are the contract's limits on what a model may be asked, and the
// ceiling. In a contract 0 allows nothing; to a gateway it is no limit.
func (r *run) modelLimits() (gateway.Limits, error) {
	b := r.Contract.Budget
	limits := gateway.Limits{}
	for _, l := range []struct {
		name string
		most *int64
		to   *int64
	}{{"max_budget_usd", b.MaxBudgetMicroUSD, &limits.MicroUSD}, {"max_tokens", b.MaxTokens, &limits.Tokens},
		{"max_requests", b.MaxRequests, &limits.Requests}} {
		switch {
		case l.most == nil:
		case *l.most == 0:
			return limits, reason.Errorf(reason.BudgetExhausted, "the contract allows %s 0, and engine %s asks a model", l.name,
				r.opened.Engine.Name).
				WithHint("raise budget.%s in the task file or remit.yaml, or take an engine that asks no model", l.name)
		default:
			*l.to = *l.most
		}
	}
	if most := r.Model.Ceiling; most > 0 && (limits.MicroUSD == 0 || most < limits.MicroUSD) {
		limits.MicroUSD = most
	}
	provider := r.Model.Upstream.Provider
	if limits.MicroUSD > 0 && !gateway.PriceKnown(provider, r.Model.Model, r.Model.Prices) {
		// Also for a local model: whether one is local is the user's word, and no
		// word of the user's lifts a limit.
		return limits, reason.Errorf(reason.PriceUnknown,
			"the run may cost %d micro-dollars, and no price is known for %q of %q; state it with --prices, or limit tokens instead", limits.MicroUSD, r.Model.Model, provider).
			WithHint("the key in the price table is %q; a model that costs nothing has 0 in all places", provider+"/"+r.Model.Model)
	}
	return limits, nil
}

// learnCredential has the evidence searched for the credential that the gateway
// is about to read, whatever the variable is called. What cannot be read is the
// gateway's to tell.
func (r *run) learnCredential(c gateway.Credential) {
	switch {
	case c.Env != "":
		r.learnKey([]byte(os.Getenv(c.Env)))
	case c.File != "":
		if info, err := os.Stat(c.File); err == nil && info.Mode().IsRegular() && info.Size() <= maxKeyFile {
			if text, err := os.ReadFile(c.File); err == nil {
				r.learnKey(text)
			}
		}
	}
}

// learnKey has the evidence searched for each secret of a credential.
func (r *run) learnKey(text []byte) {
	for _, part := range gateway.Parts(text) {
		r.secrets.Learn("provider key", []byte(part))
	}
}

// maxKeyFile is more than any gateway takes for a key.
const maxKeyFile = 64 << 10

// learnFrom is learnCredential for one that a command prints.
func (r *run) learnFrom(run func(context.Context, []string) ([]byte, error)) func(context.Context, []string) ([]byte, error) {
	if run == nil {
		return nil
	}
	return func(ctx context.Context, argv []string) ([]byte, error) {
		text, err := run(ctx, argv)
		r.learnKey(text)
		return text, err
	}
}

// serve is the listener's side in the sandbox's network.
func (w *way) serve(p *pulse) func(net.Listener) {
	if w == nil {
		return nil
	}
	return func(l net.Listener) {
		if p != nil {
			l = felt{l, p}
		}
		go func() { _ = w.Serve(l) }() // ends with the listener
	}
}

// modelAsked journals one request, forwarded or refused.
func (r *run) modelAsked(rec record.ModelRequest) {
	state := journal.Completed
	switch {
	case rec.Refused != "":
		state = journal.Denied
	case rec.Failed != "":
		state = journal.Failed
	}
	now := r.clock()
	r.append(journal.Step{StepID: fmt.Sprintf("model-%d", rec.Seq), Name: evidence.StepModel, Status: state, StartedAt: now,
		CompletedAt: now, Outputs: rec})
}

// closeWay ends the gateway and journals what it counted: these figures count,
// and not those of the engine. Closing again changes nothing.
func (r *run) closeWay(w *way) traffic {
	if w == nil {
		return traffic{}
	}
	if w.closed {
		return w.traffic
	}
	w.closed = true
	_ = w.Close() // everything is recorded by then
	t := w.Totals()
	w.traffic.totals = t
	r.note(evidence.StepUsage, "usage", journal.Completed, nil,
		evidence.MeteredUsage{Tokens: t.Tokens(), CostMicroUSD: t.CostMicroUSD, Requests: t.Requests, CostKnown: &t.CostKnown})
	r.keepBodies(w.bodies)
	return w.traffic
}
