package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"remit/law/task"
)

// limitFlags lower what a run may spend. A flag that is not given changes
// nothing, and 0 is a limit like any other.
type limitFlags struct {
	usd       amount
	tokens    amount
	requests  amount
	wall      amount
	idle      amount
	lifecycle string
}

func (f *limitFlags) add(cmd *cobra.Command) {
	f.usd.read = task.ParseUSD
	fl := cmd.Flags()
	fl.Var(&f.usd, "max-usd", "lower what the model may cost, in dollars, such as 1.50")
	fl.Var(&f.tokens, "max-tokens", "lower how many tokens the engine may use, of all kinds together")
	fl.Var(&f.requests, "max-requests", "lower how many requests the engine may make of the model")
	fl.Var(&f.wall, "wall", "lower how many seconds the engine has, and each verification phase")
	fl.Var(&f.idle, "idle", "lower after how many seconds an engine is stopped that prints nothing and asks nothing")
	fl.StringVar(&f.lifecycle, "timeout-after-valid-patch", "", "what becomes of a run whose engine had to be stopped and left a change that verifies: block, or allow (where the contract does, or in a run from flags alone whose remit.yaml says nothing of it)")
	complete(cmd, "timeout-after-valid-patch", names(task.LifecycleRules()))
}

// flags adds them to those that narrow a contract.
func (f *limitFlags) flags(to *task.Flags) {
	to.MaxBudgetMicroUSD, to.MaxTokens, to.MaxRequests = f.usd.value, f.tokens.value, f.requests.value
	to.WallSeconds, to.IdleSeconds = f.wall.value, f.idle.value
	to.Lifecycle = task.LifecycleRule(f.lifecycle)
}

// amount is a flag with a number that may be left out.
type amount struct {
	value *int64
	text  string
	read  func(string) (int64, error) // nil: a whole number
}

// Set implements pflag.Value.
func (a *amount) Set(text string) error {
	read := a.read
	if read == nil {
		read = wholeNumber
	}
	n, err := read(text)
	if err != nil {
		return err
	}
	a.value, a.text = &n, text
	return nil
}

func (a *amount) String() string { return a.text }

// Type is what the help calls the value.
func (a *amount) Type() string { return "number" }

func wholeNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%q is not a whole number from 0 on, in digits alone", text)
	}
	return n, nil
}
