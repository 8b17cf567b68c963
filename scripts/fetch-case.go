//go:build ignore

// Command fetch-case builds an open-source case into an empty directory:
//
//	go run scripts/fetch-case.go fixtures/oss-shellwords-single-quote DIR
//
// DIR then has the layout of the artificial fixtures: repo/, task.yaml,
// fix.patch, held-out/.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"remit/fixtures/osscase"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run scripts/fetch-case.go CASE DIR")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := osscase.Load(os.Args[1])
	if err == nil {
		var built *osscase.Built
		if built, err = c.Build(ctx, os.Args[2]); err == nil {
			fmt.Printf("repository  %s (%s)\ncontract    %s\nfix         %s\n", built.Repo, built.Commit, built.Task, built.Patch)
			return
		}
	}
	fmt.Fprintln(os.Stderr, "fetch-case:", err)
	os.Exit(1)
}
