package main

import (
	"context"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"remit/work/engine"
	"remit/work/engine/acp"
	"remit/work/prove/provetest"
	"remit/work/sandbox"
)

// proven gives the home of a script the proofs of an agent with a model, as if
// `remit ladder prove` had made them.
func proven(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || len(args) > 5 {
		ts.Fatalf("usage: proven ENGINE BIN PROVIDER MODEL [THROUGH]")
	}
	through := 3
	if len(args) == 5 {
		var err error
		through, err = strconv.Atoi(args[4])
		ts.Check(err)
	}
	e, err := agentAt(args[0], ts.MkAbs(args[1]), "chat")
	ts.Check(err)
	ts.Check(grant(e, args[2], args[3], through).Write(context.Background(), ts.Getenv("REMIT_HOME")))
}

// agentAt is an agent by the place of its program.
func agentAt(name, bin, wire string) (engine.Engine, error) {
	if name == acp.Name {
		return acpNamed([]string{bin}, "", wire)
	}
	return engineNamed(name, bin)
}

func grant(e engine.Engine, provider, model string, through int) provetest.Grant {
	return provetest.Grant{Engine: e, Provider: provider, Model: model, Driver: sandbox.DriverBwrap, Through: through}
}
