package harness

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/reason"
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
	Prices      map[string]gateway.Price // beside the built-in ones, by "provider/model"
	RunCommand  func(ctx context.Context, argv []string) ([]byte, error)
}

// Admission is what the records say of an engine that is not built in.
type Admission struct {
	Enabled        bool // by the policy
	SourceAdmitted bool
	ProvenMode     task.MutationMode
}

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
	model *engine.Model
}

// openWay opens the gateway and asks the provider for one answer: an engine is
// not started on a model that cannot answer it.
func (r *run) openWay(ctx context.Context) (*way, error) {
	if r.Model == nil {
		return nil, nil
	}
	m, wired := r.Engine.(engine.Modelled)
	if !wired {
		return nil, reason.Errorf(reason.EngineUnknown, "engine %s asks no model", r.opened.Engine.Name)
	}
	token, name := rand.Text(), r.Model.EngineModel
	upstream := r.Model.Upstream
	if name == "" {
		name = r.Model.Model
	} else {
		upstream.Models = map[string]string{name: r.Model.Model}
	}
	limits := gateway.Limits{}
	if b := r.Contract.Budget; b.MaxBudgetMicroUSD != nil {
		limits.MicroUSD = *b.MaxBudgetMicroUSD
	}
	if b := r.Contract.Budget; b.MaxTokens != nil {
		limits.Tokens = *b.MaxTokens
	}
	g, err := gateway.Open(ctx, gateway.Options{Upstream: upstream, Model: r.Model.Model, Limits: limits, Prices: r.Model.Prices,
		Token: token, Record: r.modelAsked, Clock: r.clock, RunCommand: r.Model.RunCommand})
	if err != nil {
		return nil, err
	}
	if err := g.Probe(ctx, gateway.Protocol(m.Wire())); err != nil {
		_ = g.Close() // nothing is under way
		return nil, err
	}
	return &way{g, &engine.Model{URL: fmt.Sprintf("http://127.0.0.1:%d", sandbox.DefaultLoopbackPort), Token: token, Name: name}}, nil
}

// serve is the listener's side in the sandbox's network.
func (w *way) serve() func(net.Listener) {
	if w == nil {
		return nil
	}
	return func(l net.Listener) { go func() { _ = w.Serve(l) }() } // ends with the listener
}

// modelAsked journals one request, forwarded or refused.
func (r *run) modelAsked(rec gateway.Record) {
	state := journal.Completed
	switch {
	case rec.Refused != "":
		state = journal.Denied
	case rec.Failed != "":
		state = journal.Failed
	}
	now := r.clock()
	r.append(journal.Step{StepID: fmt.Sprintf("model-%d", rec.Seq), Name: evidence.StepModel, Status: state, StartedAt: now, CompletedAt: now, Outputs: rec})
}

// closeWay ends the gateway and journals what it counted: these figures count,
// and not those of the engine.
func (r *run) closeWay(w *way) []evidence.Blocker {
	if w == nil {
		return nil
	}
	_ = w.Close() // everything is recorded by then
	t := w.Totals()
	r.note(evidence.StepUsage, "usage", journal.Completed, nil, evidence.MeteredUsage{Tokens: t.Tokens(), CostMicroUSD: t.CostMicroUSD, Requests: t.Requests})
	var out []evidence.Blocker
	block := func(code reason.Code, format string, args ...any) {
		out = append(out, evidence.Blocker{Code: code, Message: fmt.Sprintf(format, args...), Evidence: evidence.JournalFile})
	}
	if t.Exhausted != "" {
		block(t.Exhausted, "the model's budget was used up after %d request(s), %d tokens and %d micro-USD", t.Requests, t.Tokens(), t.CostMicroUSD)
	}
	if t.Mismatches > 0 {
		block(reason.ModelMismatch, "another model than %s answered %d request(s): %v", r.Model.Model, t.Mismatches, t.Models)
	}
	return out
}
