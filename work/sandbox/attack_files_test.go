//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The parts of the hostile program that go after files. Nothing that they do
// would harm a host on which they succeed: what is opened is not written, what
// is changed is set to what it was.

// writeAttack tries to change each path: a directory by making something in
// it, anything else by opening it for writing.
func writeAttack(paths []string) int {
	n := new(tries)
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			name := filepath.Join(p, "remit-test")
			f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			n.attempt("create a file in "+p, undo(err, func() { f.Close(); os.Remove(name) }))
			err = os.Mkdir(name, 0o700)
			n.attempt("make a directory in "+p, undo(err, func() { os.Remove(name) }))
			err = os.Symlink("/", name)
			n.attempt("make a link in "+p, undo(err, func() { os.Remove(name) }))
			n.attempt("change the mode of "+p, os.Chmod(p, info.Mode().Perm()))
			continue
		}
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
		n.attempt("open for writing "+p, undo(err, func() { f.Close() }))
		n.attempt("change the mode of "+p, unix.Chmod(p, 0o755))
		n.attempt("change the times of "+p, os.Chtimes(p, time.Unix(1, 0), time.Unix(1, 0)))
		// A descriptor that may only read, opened again by its name in /proc.
		if f, err := os.Open(p); err == nil {
			again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY|os.O_APPEND, 0)
			n.attempt("open again for writing "+p, undo(err, func() { again.Close() }))
			f.Close()
		}
	}
	return n.end()
}

// undo takes back what succeeded.
func undo(err error, back func()) error {
	if err == nil {
		back()
	}
	return err
}

// readAttack tries to read each path; an empty file is as good as none.
func readAttack(paths []string) int {
	n := new(tries)
	for _, p := range paths {
		_, err := os.ReadDir(p)
		if !errors.Is(err, unix.ENOTDIR) {
			n.attempt("list "+p, err)
			continue
		}
		text, err := os.ReadFile(p)
		if err == nil && len(text) == 0 {
			err = errors.New("it is empty")
		}
		n.attempt("read "+p, err)
	}
	return n.end()
}

// linkAttack tries to get foreign files into the workspace under other names.
func linkAttack(paths []string) int {
	n := new(tries)
	for i, p := range paths {
		name := fmt.Sprintf("link%d", i)
		n.attempt("link "+p, os.Link(p, name))
		n.attempt("rename "+p, os.Rename(p, name))
		if f, err := os.Open(p); err == nil {
			from := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
			n.attempt("link the descriptor of "+p, unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW))
			n.attempt("link by an empty path "+p, unix.Linkat(int(f.Fd()), "", unix.AT_FDCWD, name, unix.AT_EMPTY_PATH))
			f.Close()
		}
	}
	// A race does not help: the same attempt while a name comes and goes.
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Symlink(paths[0], "raced")
				_ = os.Remove("raced")
			}
		}
	}()
	got := false
	for range 2000 {
		if unix.Linkat(unix.AT_FDCWD, "raced", unix.AT_FDCWD, "won", unix.AT_SYMLINK_FOLLOW) == nil {
			got = true
			break
		}
	}
	close(stop)
	<-ended
	var err error
	if !got {
		err = errors.New("2000 times")
	}
	n.attempt("link "+paths[0]+" in a race", err)
	return n.end()
}

// swapAttack exchanges a file and a directory with links out of the tree until
// it is killed. When args are given they are the file and directory outside.
func swapAttack(args []string) int {
	file, dir := args[0], args[1]
	for _, err := range []error{
		os.WriteFile("f", []byte("public"), 0o644), os.Symlink(file, "f2"),
		os.Mkdir("d", 0o755), os.WriteFile("d/f", []byte("public"), 0o644), os.Symlink(dir, "d2"),
	} {
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	swap := func() error {
		return errors.Join(unix.Renameat2(unix.AT_FDCWD, "f", unix.AT_FDCWD, "f2", unix.RENAME_EXCHANGE),
			unix.Renameat2(unix.AT_FDCWD, "d", unix.AT_FDCWD, "d2", unix.RENAME_EXCHANGE))
	}
	if err := swap(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("swapping")
	for swap() == nil {
	}
	return 1
}

// deviceAttack tries to make device nodes and to reach those of the host.
func deviceAttack() int {
	n := new(tries)
	for _, dir := range []string{".", "/tmp", "/dev/shm", "/cache/go-build"} {
		for what, mode := range map[string]uint32{"character": unix.S_IFCHR, "block": unix.S_IFBLK} {
			name := filepath.Join(dir, "device-"+what)
			n.attempt("make a "+what+" device in "+dir, undo(unix.Mknod(name, mode|0o666, int(unix.Mkdev(1, 1))), func() { os.Remove(name) }))
		}
	}
	for _, name := range strings.Fields("mem kmem port kmsg vda sda nvme0n1 loop0 loop-control kvm fuse net/tun vhost-net vsock mapper/control input/event0 dri/card0 hpet rtc0 watchdog userfaultfd uinput") {
		f, err := os.Open("/dev/" + name)
		n.attempt("open /dev/"+name, undo(err, func() { f.Close() }))
	}
	return n.end()
}

// floodAttack makes empty files until no more can be made, and again.
func floodAttack(dir string) int {
	for round := 0; ; round++ {
		for i := range 1000 {
			sub := fmt.Sprintf("%s/%d/%d", dir, round, i)
			if os.MkdirAll(sub, 0o755) != nil {
				time.Sleep(time.Millisecond)
				break
			}
			for j := range 100 {
				if os.WriteFile(fmt.Sprintf("%s/%d", sub, j), nil, 0o644) != nil {
					break
				}
			}
		}
	}
}
