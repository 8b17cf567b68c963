package main

import (
	"fmt"
	"time"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/work/matrix"
	"remit/work/prove"
	"remit/work/sandbox"
)

// proofsCheckup is the name of the checkup of the engines that are built in.
const proofsCheckup = "proofs"

// examineProofs asks whether the engines that are built in may run at all: their
// proofs come with the program, and age with its verifier, its adapters and its
// sandbox driver.
func (a *app) examineProofs() []checkup {
	var checks []checkup
	for _, name := range matrix.BuiltIn() {
		key, err := builtInKey(name)
		var s ladder.Standing
		if err == nil {
			s, err = prove.Standing(a.home.Dir, key, time.Now())
		}
		if err != nil {
			checks = append(checks, checkup{proofsCheckup, missing,
				fmt.Sprintf("the proofs of engine %s cannot be read: %v", name, err), adviceOn(err)})
			continue
		}
		checks = append(checks, proofsOf(key, s)...)
	}
	if len(checks) == 0 {
		checks = append(checks, checkup{proofsCheckup, fine,
			fmt.Sprintf("the engines that are built in are proven through stage %d", copyStage()), ""})
	}
	return checks
}

func builtInKey(name string) (ladder.Key, error) {
	e, err := engineNamed(name, "")
	return prove.KeyOf(e, evidence.EngineIdentity{Name: name}, "", "", sandbox.DriverBwrap), err
}

// proofsOf says why a built-in engine may not run on a copy of a repository; nothing
// where it may.
func proofsOf(key ladder.Key, s ladder.Standing) []checkup {
	if s.Stage >= copyStage() {
		return nil
	}
	next := s.Stages[s.Stage]
	return []checkup{{proofsCheckup, missing, fmt.Sprintf("every run of engine %s is refused with mode_exceeds_stage: stage %d is %s: %s", key.Engine, next.Number, next.State, next.Why),
		"the builder of this program types `make proofs` and builds it again; here `" + ladder.ProveCommand(key, copyStage()) + "` proves it anew"}}
}
