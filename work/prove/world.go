package prove

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"remit/law/task"
	"remit/proof/atomicfile"
	"remit/proof/canon"
	"remit/work/engine"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/matrix"
	"remit/work/shipped"
)

// world is a repository, a task for one run, and the change that the task wants.
type world struct {
	repo     string
	contract *task.Contract
	wants    change
}

// change is the right change of a task: the command that makes it, for engines whose
// work is to run one, and its patch, for the fake engine.
type change struct{ command, patch string }

// fixes are the commands that make the right change of a case.
var fixes = map[string]string{
	"r1-string-slugify/python": `sed -i 's/return text.*/return "-".join(text.lower().split())/' slugify.py`,
	shipped.Greeting:           "echo hello > lib/greeting.txt",
}

// Cases are the shipped fixtures that an engine can be proved on, the best first.
func Cases() []string { return []string{"r1-string-slugify/python", shipped.Greeting} }

// shippedChange is the right change of the case that is proved on.
func (p *prover) shippedChange() change {
	c, _ := shipped.Named(p.Case)
	return change{fixes[p.Case], c.Patch}
}

// note is a task that fits any repository: a new
// file with one word.
func note(id, file string, mode task.MutationMode) (*task.Contract, change, error) {
	c, err := task.Parse("note.yaml", fmt.Appendf(nil, `task_id: %s
title: Leave a note
instructions: Write the one word proved, and a line feed, into the new file %[2]s.
allowed_paths: ["remit-proof/**"]
forbidden_actions: [%[3]s]
mutation_mode: %[4]s
verification_commands: ["grep -qx proved %[2]s"]
`, id, file, strings.Join(task.DefaultForbiddenActions(), ", "), mode))
	return c, change{
		command: fmt.Sprintf("mkdir -p %s && echo proved > %s", filepath.Dir(file), file),
		patch:   fmt.Sprintf("diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1 @@\n+proved\n", file),
	}, err
}

// fixture writes the shipped case anew and reads its task for a mode.
func (t *trial) fixture(ctx context.Context, name string, mode task.MutationMode) (world, error) {
	c, _ := shipped.Named(t.Case)
	w := world{repo: filepath.Join(t.scratch, name), wants: t.shippedChange()}
	if _, err := c.Write(ctx, w.repo); err != nil {
		return w, err
	}
	file, err := c.WriteTask(filepath.Join(t.scratch, name+"-task"))
	if err != nil {
		return w, err
	}
	if w.contract, err = task.Load(file); err != nil {
		return w, err
	}
	w.contract.MutationMode = mode
	t.allowModel(w.contract)
	return w, nil
}

// tokens bound what a proving run may ask a model.
const tokens = int64(400_000)

// allowModel opens the contract's way to a model for an agent.
func (t *trial) allowModel(c *task.Contract) {
	if t.Agent == nil {
		return
	}
	most := tokens
	c.Network, c.Budget.MaxTokens, c.Budget.MaxBudgetMicroUSD = task.NetworkGateway, &most, nil
}

// engine is an engine that makes a change: an agent does what the task says.
func (p *prover) engine(name string, wants change) (engine.Engine, error) {
	switch name {
	case fake.Name:
		digest := strings.TrimPrefix(canon.Digest([]byte(wants.patch)), "sha256:")
		patch := filepath.Join(p.scratch, digest[:keyDigits]+".patch")
		// Another trial may be reading it.
		return &fake.Engine{Patch: patch, Binary: p.Binary}, atomicfile.Replace(patch, []byte(wants.patch), 0o644)
	case command.Name:
		return &command.Engine{Argv: []string{"sh", "-c", wants.command}, Dir: p.scratch}, nil
	}
	return p.Agent, nil
}

// scriptedModel is the model that answers where no pair of the user's does: it has
// the agent run the command that makes the change.
func (p *prover) scriptedModel(agent engine.Modelled, name string, wants change) (*matrix.Model, error) {
	key := name + " " + agent.Wire() + " " + wants.command
	if m := p.scripted[key]; m != nil {
		return m, nil
	}
	m, err := matrix.StartModel(agent, name, wants.command)
	if err == nil {
		p.scripted[key] = m
	}
	return m, err
}
