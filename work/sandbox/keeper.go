//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

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

// A keeper needs some milliseconds from its birth to its first request: a new
// process of a large program, and its runtime. So one that has no task yet
// stands by for the next Run, born while something else is under way. It has
// an empty environment, no descriptor but its two sockets, and has mounted
// nothing; everything that makes it the keeper of one Run comes with the
// request, and it never serves a second one. Like any keeper it dies with this
// process, and it ends when no Run has used it for a while.

// standbyLife is how long a keeper stands by. Its mount namespace is a copy of
// ours, which keeps alive what is unmounted here in the meantime.
const standbyLife = time.Minute

// standby is the one keeper of this process that stands by.
var standby struct {
	sync.Mutex
	next *standbyKeeper
}

// standbyKeeper is a keeper that may still be starting.
type standbyKeeper struct {
	mounts int // of /proc/self/mountinfo, opened before the keeper's birth
	uid    int
	expiry *time.Timer

	born    chan struct{} // closed when the fields below are set
	session *session
	err     error
}

// startStandby has a keeper started in the background, unless one stands by.
func startStandby() {
	standby.Lock()
	defer standby.Unlock()
	if standby.next != nil {
		return
	}
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // without it a change of the mounts would not be seen
	}
	w := &standbyKeeper{mounts: mounts, uid: os.Geteuid(), born: make(chan struct{})}
	w.expiry = time.AfterFunc(standbyLife, w.dismiss)
	standby.next = w
	go func() {
		w.session, w.err = startKeeper(standbyName, true)
		close(w.born)
	}()
}

// obtainKeeper returns a keeper for one Run: the one that stands by, if there is
// one and it still is what a new one would be, or else a new one.
func obtainKeeper(confined bool) (*session, error) {
	if confined {
		if w := claimStandby(nil); w != nil {
			<-w.born
			usable := w.usable()
			_ = unix.Close(w.mounts)
			if usable {
				return w.session, nil
			}
			w.end()
		}
	}
	return startKeeper(keeperName, confined)
}

// claimStandby takes the keeper that stands by, if it is the one meant.
func claimStandby(meant *standbyKeeper) *standbyKeeper {
	standby.Lock()
	defer standby.Unlock()
	w := standby.next
	if w == nil || meant != nil && w != meant {
		return nil
	}
	standby.next = nil
	w.expiry.Stop()
	return w
}

// dismiss ends the keeper if it still stands by.
func (w *standbyKeeper) dismiss() {
	if claimStandby(w) == nil {
		return
	}
	<-w.born
	_ = unix.Close(w.mounts)
	w.end()
}

func (w *standbyKeeper) end() {
	if w.session != nil {
		w.session.end()
	}
}

// usable reports whether the keeper lives, and whether a new one would see the
// same mounts: a copy of our mount namespace that is out of date would show
// another file system than the host's.
func (w *standbyKeeper) usable() bool {
	if w.err != nil || w.uid != os.Geteuid() {
		return false
	}
	dead := true // until the other end of the socket is seen to be open and silent
	raw, err := w.session.control.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { dead = ready(int(fd), unix.POLLIN) })
	}
	// The kernel reports a change of the mounts as an exceptional condition.
	return err == nil && !dead && !ready(w.mounts, unix.POLLPRI)
}

// ready reports whether one of the events, an error or a hang-up is there. It
// says yes when it cannot tell.
func ready(fd int, events int16) bool {
	polled := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(polled, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}

// rename replaces the name of this process in the list of processes, so that a
// keeper at work can be distinguished from one that stands by. The text of an argument
// lies where the kernel put it and looks it up.
func rename(name string) {
	was := os.Args[0]
	if len(name) > len(was) {
		return
	}
	shown := unsafe.Slice(unsafe.StringData(was), len(was))
	clear(shown)
	copy(shown, name)
}
