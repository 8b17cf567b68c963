package provider

import (
	"context"

	"remit/law/job"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/gateway"
	"remit/work/harness"
	"remit/work/prove"
	"remit/work/route"
)

// worker is what a job has chosen.
type worker struct {
	engine    engine.Engine
	admission harness.Admission
	model     *harness.ModelRoute // nil for a program that asks none
}

// rule is what the contract of a job and the policy of its repository say of the
// records that are asked.
type rule struct {
	mode   task.MutationMode
	signed bool // records count with a signature only
}

// agent is the agent that a job names, with the model that it names, and within
// its budget. What is refused here is refused before anything is started or
// asked; the gates of the run come after it and are the same as everywhere.
func (d *Daemon) agent(ctx context.Context, agent Agent, c job.EngineChoice, budget int64, rule rule) (worker, error) {
	m, err := agent.model(c)
	if err != nil {
		return worker{}, err
	}
	ceiling, err := agent.ceiling(m, budget)
	if err != nil {
		return worker{}, err
	}
	e, build, err := agent.open(ctx)
	if err != nil {
		return worker{}, ownTrouble{err}
	}
	if err := sameVersion(c, build); err != nil {
		return worker{}, err
	}
	admitted, err := d.agents.admitted(build, agent, rule.signed)
	if err == nil {
		err = d.agents.modelAdmitted(m, rule.signed)
	}
	if err == nil && len(m.KeyCommand) == 0 { // which is asked once for a job, by its run
		err = m.Try(ctx, agent.Prices)
	}
	if err != nil {
		return worker{}, ownTrouble{err}
	}
	admitted.Enabled = true
	way := m.Route(route.Records(d.agents.home, rule.signed, nil), agent.Prices)
	way.Ceiling = ceiling
	q := prove.Question{Home: d.agents.home, Signed: rule.signed, Engine: e, Identity: build, Model: way, Driver: d.driver.Describe().Driver, Mode: rule.mode}
	if err := q.Into(&admitted); err != nil {
		return worker{}, ownTrouble{err}
	}
	if admitted.ProvenMode == task.ModeNone { // it was proved when the daemon began
		return worker{}, ownTrouble{reason.Errorf(reason.ModeExceedsStage, "nothing is proved of the agent: %s", admitted.Unproved).WithHint("%s", admitted.Prove)}
	}
	return worker{e, admitted, way}, nil
}

// model is the one that a job names. The answer does not say which others there are: the
// operator says that to whom it concerns.
func (a Agent) model(c job.EngineChoice) (route.Model, error) {
	if c.Model == "" && len(a.Models) == 1 {
		for _, m := range a.Models {
			return m, nil
		}
	}
	if c.Model == "" {
		return route.Model{}, reason.Errorf(reason.JobInvalid, "engine %q has more than one model here: the request has to name one", c.Name)
	}
	m, ok := a.Models[c.Model]
	if !ok {
		return route.Model{}, reason.Errorf(reason.ModelUnknown, "engine %q of this provider has no model %q", c.Name, c.Model)
	}
	return m, nil
}

// ceiling is what a job may spend on a model: its budget, or less if the operator
// says so. 0 is no limit for what costs nothing, and for what of this machine has
// no price; everything else is refused without money, or without a price that
// the money could be counted with.
func (a Agent) ceiling(m route.Model, budget int64) (int64, error) {
	if a.MaxMicroUSD != nil {
		budget = min(budget, *a.MaxMicroUSD)
	}
	costs, known := gateway.Costs(m.Provider, m.Name, a.Prices)
	switch {
	case budget > 0 && !known:
		return 0, reason.Errorf(reason.PriceUnknown, "the job has a budget in money, and no price of model %q is known here", m.Name)
	case budget == 0 && !known && !m.Local:
		return 0, reason.Errorf(reason.PriceUnknown, "the job may cost nothing, and no price of model %q is known here", m.Name)
	case budget == 0 && costs:
		return 0, reason.Errorf(reason.BudgetExhausted, "model %q costs money, and the job may not cost any", m.Name)
	}
	return budget, nil
}
