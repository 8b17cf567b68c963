package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"remit/law/eligibility"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/engine/acp"
	"remit/work/route"
)

// agentCheckup is what doctor says of an engine that drives a foreign agent.
type agentCheckup struct {
	Engine    string `json:"engine"`
	Program   string `json:"program,omitempty"` // of an engine that drives several
	Version   string `json:"version"`           // "" where the agent is not found
	SHA256    string `json:"sha256"`
	Admission string `json:"source_admission_status"` // "" as above
	Switch    string `json:"switch"`                  // on, off, or unset, by the remit.yaml of the current directory
	Detail    string `json:"detail"`
	Hint      string `json:"hint,omitempty"` // the next step to a run with it
}

// examineAgents looks for the agents where their engines would, digests them and
// asks the records and the policy. No agent is started, and none has to be
// there.
func (a *app) examineAgents(ctx context.Context) []agentCheckup {
	policy, _, err := policyOf(ctx, ".", "", true)
	if err != nil {
		policy = nil // no repository here
	}
	var out []agentCheckup
	for _, name := range engineNames() {
		programs := []string{""}
		if name == acp.Name {
			programs = acp.Known()
		}
		for _, program := range programs {
			if eligibility.AdmissionRequired(name) {
				out = append(out, agentCheckup{Engine: name, Program: program, Switch: switchOf(policy, name)})
			}
		}
	}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i].look(ctx, a.home.Dir) })
	}
	all.Wait()
	return out
}

func switchOf(policy *task.Policy, engine string) string {
	switch enabled, stated := policy.Engine(engine); {
	case !stated:
		return "unset"
	case enabled:
		return "on"
	}
	return "off"
}

func (c *agentCheckup) look(ctx context.Context, home string) {
	e, err := engineNamed(c.Engine, c.Program)
	if err == nil {
		build, identityErr := e.Identity(ctx)
		if err = identityErr; err == nil {
			c.Version, c.SHA256 = build.Version, build.SHA256
			admission, _ := route.Admission(home, build)
			c.Admission, c.Detail, c.Hint = admission.SourceStatus, admission.Detail, admission.Remedy
			if c.Hint == "" && c.Switch != "on" {
				c.Hint = fmt.Sprintf("engines.%s.enabled: true in the remit.yaml of a repository switches it on there", c.Engine)
			}
			return
		}
	}
	c.Detail, c.Hint = err.Error(), adviceOn(err)
	if coded, ok := errors.AsType[*reason.Error](err); ok {
		c.Detail = coded.Message
	}
}

func printAgents(w io.Writer, agents []agentCheckup) {
	fmt.Fprintln(w, "\nagents")
	for _, c := range agents {
		status := limited
		if c.Version != "" && c.Admission == string(eligibility.ModelAdmitted) && c.Switch == "on" {
			status = fine
		}
		detail := c.Detail
		if c.Version != "" {
			detail = fmt.Sprintf("%s, %s, source %s, switched %s here", c.Version, c.SHA256, cmp.Or(c.Admission, "not looked up"), c.Switch)
		}
		fmt.Fprintf(w, "%-8s %-14s %s\n", status, cmp.Or(c.Program, c.Engine), plain(detail))
		if c.Hint != "" && status != fine {
			fmt.Fprintf(w, "%23s hint: %s\n", "", plain(c.Hint))
		}
	}
}
