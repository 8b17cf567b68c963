//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"remit/work/tree"
)

// A keeper is our own binary started again as process 1 of a new pid namespace
// with a mount namespace of its own. All mounts of a Run, the sized tmpfs and
// every process below live and die with it: when the keeper goes, for whatever
// reason, the kernel clears all of it.
type keeper struct {
	control *os.File
	in      *bufio.Reader
	setup   *setup
	userns  []int // for id-mapped mounts

	frames chan request // requests after setup; closed when the parent is gone

	layer  string
	root   *os.Root // merged workspace
	base   *os.Root
	layers []*os.Root // of setup.Layers
	upper  *os.Root   // nil for the copy layer
	copied int64      // bytes of the copy
	cache  string     // host side of the build cache
	added  string     // its upper layer, "" if it has no layers
	lower  []string   // the layers below it
	mounts []string   // where something is mounted
	below  int        // clones in stageBelow
	plain  []string   // shown as they are
	system []Bind
	links  map[string]string
	binds  []Bind
	image  string   // the stack of the image, "" for the host's root
	as     identity // of commands, inside
	served []Bind   // those of binds that services see
	wards  *wards   // the services of the command at hand
	filter []byte

	emptied chan error // /tmp is being emptied
}

// keep serves the parent until it hangs up and returns an exit code.
func keep() int {
	if err := sealDescriptors(controlFD); err != nil {
		fmt.Fprintln(os.Stderr, "keeper: seal descriptors:", err)
		return 1
	}
	control := os.NewFile(controlFD, "control")
	k := &keeper{control: control, in: bufio.NewReaderSize(control, 64<<10), frames: make(chan request), filter: seccompProgram(), as: ordinary}
	if err := k.begin(); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		return 1
	}
	go k.read()
	for req := range k.frames {
		if err := k.serve(req); err != nil {
			fmt.Fprintln(os.Stderr, "keeper:", err)
			return 1
		}
	}
	return 0
}

// begin answers the setup request. A setup that fails is an answer too.
func (k *keeper) begin() error {
	var req request
	if err := readFrame(k.in, &req); err != nil {
		return fmt.Errorf("read setup: %w", err)
	}
	if req.Op != opSetup || req.Setup == nil {
		return fmt.Errorf("first request is %q", req.Op)
	}
	rename(keeperName)
	k.setup = req.Setup
	if k.setup.UserNS > 0 {
		var err error
		if k.userns, err = takeFiles(passFD, k.setup.UserNS); err != nil {
			return fmt.Errorf("take user namespaces: %w", err)
		}
	}
	a := answer{}
	if err := k.build(&a); err != nil {
		a.Failure = failed(err)
	}
	return writeFrame(k.control, a)
}

// build makes the view and lays the changes that follow the request over it.
func (k *keeper) build(a *answer) error {
	if err := k.mount(a); err != nil {
		return err
	}
	a.Layer = k.layer
	if k.setup.Loopback > 0 {
		if err := k.listen(); err != nil {
			return err
		}
		a.Listening = true
	} else if k.ownNetwork() {
		if err := moveToNetwork(); err != nil {
			return err
		}
	}
	restore, err := k.becomeRunUser()
	if err != nil {
		return err
	}
	_, err = tree.ApplyStream(context.Background(), k.root, tree.NewDecoder(k.in))
	return errors.Join(err, restore())
}

func (k *keeper) mount(a *answer) error {
	if k.setup.Confined {
		return k.mountView(a)
	}
	return k.openPlain()
}

// read turns the parent's frames into requests. The end of the stream while a
// command runs means that the parent died: nothing may go on without it.
func (k *keeper) read() {
	for {
		var req request
		if err := readFrame(k.in, &req); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "keeper: read request:", err)
			}
			k.killAll()
			os.Exit(0)
		}
		k.frames <- req
	}
}

func (k *keeper) serve(req request) error {
	switch req.Op {
	case opRun:
		return writeFrame(k.control, k.run(req))
	case opStop:
		return nil // came after the end of the command it was meant for
	case opCollect:
		return k.collect()
	case opLayers:
		return writeFrame(k.control, k.layerChanges())
	case opKeep:
		return k.keepCache()
	}
	return fmt.Errorf("unknown request %q", req.Op)
}

// collect streams what differs from the base tree, the layers left out.
func (k *keeper) collect() error {
	out := tree.NewEncoder(k.control)
	c := tree.Comparison{Base: k.base, Head: k.root, Upper: k.upper, Whole: replaces, Skip: k.inLayer}
	if err := c.Walk(context.Background(), out.Encode); err != nil {
		return out.Fail(err)
	}
	return out.Close()
}

// wallOf converts the limit of a request; 0 means none.
func wallOf(req request) <-chan time.Time {
	if req.Wall <= 0 {
		return nil
	}
	return time.After(time.Duration(req.Wall) * time.Microsecond)
}
