//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attack is the hostile program. It prints what it achieved.
func attack(name string, args []string) int {
	switch name {
	case "syscalls":
		for _, c := range deniedCalls {
			fmt.Printf("%s %s\n", c.name, errnoName(c.call()))
		}
	case "one": // a call that is expected to kill
		for _, c := range killingCalls {
			if c.name == args[0] {
				fmt.Println("survived", errnoName(c.call()))
			}
		}
	case "tiocsti":
		return tiocsti()
	case "tiocsti-child":
		fmt.Println(errnoName(pushInput()))
	case "alloc":
		mb, _ := strconv.Atoi(args[0])
		block := make([]byte, mb<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		fmt.Println("allocated", len(block)>>20)
	case "files":
		n, _ := strconv.Atoi(args[0])
		for i := range n {
			if err := os.WriteFile(fmt.Sprintf("f%d", i), nil, 0o644); err != nil {
				fmt.Println("stopped", i, errors.Is(err, unix.ENOSPC))
				return 0
			}
		}
		fmt.Println("created", n)
	case "flood": // files in directories until no more can be made
		return floodAttack(args[0])
	case "forks":
		n, _ := strconv.Atoi(args[0])
		begun := 0
		for range n {
			if exec.Command("/bin/sleep", "20").Start() == nil {
				begun++
			}
		}
		fmt.Println("begun", begun)
	case "dial":
		for _, target := range args {
			network, addr, _ := strings.Cut(target, ":")
			c, err := net.DialTimeout(network, addr, 3*time.Second)
			if err == nil {
				c.Close()
			}
			fmt.Printf("%s %v\n", target, err == nil)
		}
	case "loopback":
		return loopback()
	case "fds":
		entries, _ := os.ReadDir("/proc/self/fd")
		for _, e := range entries {
			target, err := os.Readlink("/proc/self/fd/" + e.Name())
			if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") {
				fmt.Println(e.Name(), target)
			}
		}
	case "limits":
		for _, l := range []struct {
			name string
			res  int
		}{{"core", unix.RLIMIT_CORE}, {"nofile", unix.RLIMIT_NOFILE}, {"fsize", unix.RLIMIT_FSIZE}} {
			var r unix.Rlimit
			unix.Prlimit(0, l.res, nil, &r)
			fmt.Println(l.name, r.Max)
		}
	case "write":
		return writeAttack(args)
	case "read":
		return readAttack(args)
	case "link":
		return linkAttack(args)
	case "swap":
		return swapAttack(args)
	case "devices":
		return deviceAttack()
	case "proc":
		return procAttack(args[0])
	case "signals":
		return signalAttack(args)
	case "ptrace":
		return ptraceAttack(args)
	case "clock":
		return clockAttack()
	case "namespaces":
		return namespaceAttack()
	case "raise":
		return limitAttack()
	case "login":
		return loginAttack(args[0])
	case "lent":
		return lentAttack(args)
	case "hold":
		return holdAttack(args[0])
	case "net":
		return netAttack(args[0], args[1:])
	default:
		fmt.Println("no attack", name)
		return 1
	}
	return 0
}

func errnoName(e syscall.Errno) string {
	if e == 0 {
		return "ok"
	}
	return unix.ErrnoName(e)
}

type call struct {
	name string
	want string // with the filter
	open string // without, "" where it would be the same or the host decides
	call func() syscall.Errno
}

func sys(nr uintptr, args ...uintptr) func() syscall.Errno {
	return func() syscall.Errno {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno
	}
}

// none is an impossible pointer or descriptor: harmless where a call is allowed.
const bad = ^uintptr(0)

// sink keeps the compiler from moving what a raw pointer names.
var sink [256]byte

func loopback() int {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			fmt.Println(addr, err)
			return 1
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		host, _, _ := net.SplitHostPort(addr)
		c, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			fmt.Println(addr, err)
			return 1
		}
		c.Close()
		l.Close()
	}
	return 0
}

// tiocsti makes a terminal the controlling one of a child, where pushing input
// is allowed without a filter (on a terminal that is not, the kernel refuses
// anyway and the attempt would prove nothing).
func tiocsti() int {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	zero := 0
	syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&zero)))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command(os.Args[0], "attack", "tiocsti-child")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func pushInput() syscall.Errno {
	// With bits in the upper half, which the kernel ignores.
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, 0xdead<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&sink[0])))
	return errno
}
