package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"remit/fixtures/rootfs"
)

// rootDirectory makes a directory with programs of this machine, which an image is
// made of.
func rootDirectory(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: rootfs DIR PROGRAM...")
	}
	files, err := rootfs.Programs(args[1:]...)
	if err != nil {
		ts.Fatalf("no image can be made of the programs of this machine: %v", err)
	}
	for at, host := range files {
		text, err := os.ReadFile(host)
		ts.Check(err)
		to := filepath.Join(ts.MkAbs(args[0]), at)
		ts.Check(os.MkdirAll(filepath.Dir(to), 0o755))
		ts.Check(os.WriteFile(to, text, 0o755))
	}
}
