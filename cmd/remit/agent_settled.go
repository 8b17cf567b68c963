package main

import (
	"fmt"
	"io"
	"slices"

	"remit/law/eligibility"
	"remit/work/agentconf"
	"remit/work/engine/acp"
)

// given reports whether anything is said of the model or of the way to it. What is
// settled about an agent is taken whole, or not at all: no key of one provider goes
// to the address of another.
func (f *modelFlags) given() bool {
	return f.preset+f.provider+f.model+f.engineModel+f.baseURL+f.keyEnv+f.keyFile+f.keyCommand+f.caFile != "" || f.local
}

// settle fills in what `remit agent setup` has settled about an agent, where the
// command line says nothing of its model, and tells so. command and wire are those of
// an agent behind acp, which is found without them if only one is settled. A follow-up
// that goes on with the model of its session takes what is settled for that very model.
func (a *app) settle(f *modelFlags, engine string, command *[]string, wire *string) (note string, err error) {
	if !eligibility.AdmissionRequired(engine) || f.given() && !f.ofSession {
		return "", nil
	}
	var conf *agentconf.Agent
	if engine == acp.Name && len(*command) == 0 {
		conf, err = a.onlyBehindACP()
	} else {
		conf, err = agentconf.Load(a.home.Dir, agentconf.NameOf(engine, *command))
	}
	if err != nil || conf == nil {
		return "", err
	}
	m := conf.Model
	if f.ofSession && (m.Provider != f.provider || m.Name != f.model) {
		return "", nil
	}
	f.provider, f.model, f.engineModel, f.baseURL, f.local, f.caFile = m.Provider, m.Name, m.EngineModel, m.BaseURL, m.Local, m.CAFile
	f.keyEnv, f.keyFile, f.keyCommand = m.KeyEnv, m.KeyFile, m.KeyCommand
	if f.bin == "" {
		f.bin = conf.Bin
	}
	if f.pricesFile == "" {
		f.pricesFile = m.PricesFile
	}
	if len(conf.Command) > 0 {
		own := slices.Clone(conf.Command)
		if len(*command) > 1 {
			own = append(own[:1], (*command)[1:]...)
		}
		*command = own
	}
	if *wire == "" {
		*wire = conf.Wire
	}
	return fmt.Sprintf("%s asks %s of %s, as it was set up: remit agent show %s", conf.Name, m.Name, m.Provider, conf.Name), nil
}

// onlyBehindACP is the agent behind acp if one is settled, and no other.
func (a *app) onlyBehindACP() (*agentconf.Agent, error) {
	all, err := agentconf.All(a.home.Dir)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c *agentconf.Agent) bool { return c.Engine != acp.Name })
	if len(all) > 1 {
		return nil, usagef("which agent? several are set up behind acp (`remit agent list`): name its program after two dashes")
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], nil
}

func tellSettled(w io.Writer, note string) {
	if note != "" {
		fmt.Fprintln(w, "note: "+plain(note))
	}
}
