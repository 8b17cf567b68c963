package main

import (
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
	ts.Check(rootfs.Lay(ts.MkAbs(args[0]), files))
}
