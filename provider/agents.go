package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"remit/law/job"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/engine"
	"remit/work/engine/fake"
	"remit/work/gateway"
	"remit/work/harness"
	"remit/work/prove"
	"remit/work/route"
)

// Agent is an engine that asks a model, as the operator offers it to jobs. Its
// models are asked through a gateway of this machine, with keys of the
// operator's.
type Agent struct {
	// Engine makes the engine, anew for each job.
	Engine func() (engine.Engine, error)
	Bin    string                 // as `remit admit source --bin` wants it; for messages
	Models map[string]route.Model // by the name that jobs use; at least one
	Prices map[string]gateway.Price
	// MaxMicroUSD is the most that one job may cost; nil: what the job allows.
	MaxMicroUSD *int64
	// File is where the agent is described, and Lines say where in it each model
	// and, under "", the agent itself: for messages.
	File  string
	Lines map[string]int
}

// Agents are the agents that this machine offers. They were found to be
// admitted, and their models to be within reach, when they were opened; what can
// change since is looked at again for each job.
type Agents struct {
	home   string // with the records of admission
	byName map[string]Agent
	seen   map[string]evidence.EngineIdentity // at the start
}

// OpenAgents checks the agents of an operator against the admission records of a
// home. Naming an agent here is what enables it. The error is task.Problems: all
// that has to be done before the agents can be offered, each with the command to
// type. Keys are read, and commands for keys started, so that what does not work
// is reported to the operator and not to the first job; nothing of them is kept.
func OpenAgents(ctx context.Context, home string, offered map[string]Agent) (*Agents, error) {
	a := &Agents{home: home, byName: offered, seen: map[string]evidence.EngineIdentity{}}
	var problems task.Problems
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		problems = append(problems, a.check(ctx, name, offered[name])...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return a, nil
}

// check lists what keeps an agent from being offered.
func (a *Agents) check(ctx context.Context, name string, agent Agent) (out task.Problems) {
	tell := func(model, field string, err error) {
		problem := &reason.Error{Message: err.Error()}
		if coded, ok := errors.AsType[*reason.Error](err); ok {
			problem = &reason.Error{Code: coded.Code, Message: coded.Message, Hint: coded.Hint, Err: coded.Err}
		}
		problem.File, problem.Line, problem.Field = agent.File, agent.Lines[model], field
		out = append(out, problem)
	}
	if !engineName().MatchString(name) || name == fake.Name {
		tell("", name, reason.Errorf(reason.EngineUnknown, "not a name that an engine can have here"))
		return out
	}
	_, build, err := agent.open(ctx)
	if err != nil {
		tell("", name, err)
		return out
	}
	a.seen[name] = build
	if _, err := a.admitted(build, agent, false); err != nil {
		tell("", name, err)
	}
	for _, id := range slices.Sorted(maps.Keys(agent.Models)) {
		m, field := agent.Models[id], fmt.Sprintf("%s.models.%s", name, id)
		err := a.modelAdmitted(m, false)
		if err == nil && agent.MaxMicroUSD != nil && !gateway.PriceKnown(m.Provider, m.Name, agent.Prices) {
			err = reason.Errorf(reason.PriceUnknown, "a job may cost so much and no more, and no price is known for the model").
				WithHint("state it below prices as %q; a model that costs nothing has 0 in all places", m.Provider+"/"+m.Name)
		}
		if err == nil {
			err = ownersOnly(m.KeyFile)
		}
		if err == nil {
			err = m.Try(ctx, agent.Prices)
		}
		if err != nil {
			tell(id, field, err)
		}
	}
	return out
}

// ownersOnly refuses a file with a key that others can read. One that is not
// there is the gateway's to tell.
func ownersOnly(keyFile string) error {
	mode, shared := route.ReadByOthers(keyFile)
	if !shared {
		return nil
	}
	return reason.Errorf(reason.Forbidden, "the file with the key can be read by others (mode %o)", mode).
		WithHint("chmod 600, and have a new key made if others may have read it")
}

// open makes the engine and tells what it would execute.
func (a Agent) open(ctx context.Context) (engine.Engine, evidence.EngineIdentity, error) {
	e, err := a.Engine()
	if err != nil {
		return nil, evidence.EngineIdentity{}, err
	}
	identity, err := e.Identity(ctx)
	if err != nil {
		return nil, identity, err
	}
	if _, asks := e.(engine.Modelled); !asks {
		return nil, identity, reason.Errorf(reason.EngineUnknown, "engine %s asks no model",
			identity.Name).WithHint("offer a program without a model with --engine")
	}
	return e, identity, nil
}

// admitted is what the records say of a build, and an error if they do not admit
// it: it may be another one than when the agents were opened.
func (a *Agents) admitted(build evidence.EngineIdentity, agent Agent, signed bool) (harness.Admission, error) {
	admission, result := route.Admission(route.Records(a.home, signed, nil), build)
	if result.Admitted() {
		return admission, nil
	}
	return admission, reason.Errorf(result.Code, "%s", result.Detail).WithHint("%s", route.AdmitSource(build.Name, agent.Bin))
}

// modelAdmitted says why no record admits asking the model in this way.
func (a *Agents) modelAdmitted(m route.Model, signed bool) error {
	result := m.Admitted(route.Records(a.home, signed, nil))
	if result.Admitted() {
		return nil
	}
	return reason.Errorf(result.Code, "%s", result.Detail).WithHint("%s", m.AdmitCommand())
}

// proved lists the models with which nothing is proved of an agent in the sandbox of
// a driver: every job would be refused. A job whose repository asks for signatures
// may need more.
func (a *Agents) proved(driver string) error {
	if a == nil {
		return nil
	}
	var problems task.Problems
	for _, name := range slices.Sorted(maps.Keys(a.byName)) {
		agent := a.byName[name]
		e, err := agent.Engine()
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(agent.Models)) {
			m, found := agent.Models[id], harness.Admission{}
			q := prove.Question{Home: a.home, Engine: e, Identity: a.seen[name],
				Model: &harness.ModelRoute{Upstream: gateway.Upstream{Provider: m.Provider}, Model: m.Name}, Driver: driver, Mode: task.CopiedRepo}
			if err := q.Into(&found); err != nil {
				return err
			}
			if found.ProvenMode == task.ModeNone {
				problem := reason.Errorf(reason.ModeExceedsStage, "nothing is proved of the agent with this model: %s", found.Unproved)
				problem.File, problem.Line, problem.Field = agent.File, agent.Lines[id], fmt.Sprintf("%s.models.%s", name, id)
				problems = append(problems, problem.WithHint("%s, with the flags that say where agent and model are", found.Prove))
			}
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// tell logs what is offered: names, and nothing of the way to a model.
func (a *Agents) tell(log *slog.Logger) {
	if a == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.byName)) {
		log.Info("agent offered", "name", name, "engine", a.seen[name].Name, "version", a.seen[name].Version, "models",
			slices.Sorted(maps.Keys(a.byName[name].Models)))
	}
}

// Where is the place at which an agent is described, "" if there is none of the
// name.
func (a *Agents) Where(name string) string {
	agent, ok := a.find(name)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s:%d", agent.File, agent.Lines[""])
}

// find is an agent by its name.
func (a *Agents) find(name string) (Agent, bool) {
	if a == nil {
		return Agent{}, false
	}
	agent, ok := a.byName[name]
	return agent, ok
}

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
	q := prove.Question{Home: d.agents.home, Signed: rule.signed, Engine: e, Identity: build, Model: way,
		Driver: d.driver.Describe().Driver, Mode: rule.mode}
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
