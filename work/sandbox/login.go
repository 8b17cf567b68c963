//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Some resources of the kernel are counted for a user, over all of its
// processes: who uses them up takes them from every program of the same login,
// other sandboxes included. As root each Run has a uid of its own, so nothing
// but Runs can suffer. For an ordinary user a Run gets a part of what the login
// has, where the kernel can hold that:
//
//	inotify instances, watches   user.max_inotify_* of the keeper's user namespace
//	pending signals, timers      RLIMIT_SIGPENDING
//	POSIX message queues         RLIMIT_MSGQUEUE
//	locked memory                RLIMIT_MEMLOCK
//	keys, AIO contexts           refused by the filter of system calls
//	pseudo-terminals             an instance of devpts with a maximum
//
// What is left is said in [Description.NotEnforced], see notHeldForLogin.

// The part of a Run. Test suites of ordinary projects need a few of each.
const (
	mostSignals   = 4096
	mostQueueSize = 200 << 10 // bytes; two queues of the default size
	mostLocked    = 2 << 20   // bytes
	mostTerminals = 256
	inotifyPart   = 4 // a Run may have one in so many of what the login may have
)

// notHeldForLogin is what a command can use up for the whole login.
const notHeldForLogin = "login: epoll watches, pipe buffers and descriptors on their way through unix sockets are counted for your login: " +
	"a command can use up what your other programs need"

// limitLogin bounds what is counted in the keeper's user namespace. It returns
// what could not be bounded.
func (k *keeper) limitLogin() (notHeld string) {
	if k.setup.Root || k.setup.NoLoginLimits {
		return ""
	}
	var errs []error
	for _, name := range []string{"instances", "watches"} {
		errs = append(errs, limitInotify(name))
	}
	if err := errors.Join(errs...); err != nil {
		return "inotify: a command can use up what your login has: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}

// limitInotify gives this user namespace a part of what the host allows a user.
func limitInotify(name string) error {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
	if err != nil {
		return err
	}
	host, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("max_user_%s: %w", name, err)
	}
	return os.WriteFile("/proc/sys/user/max_inotify_"+name, []byte(strconv.Itoa(max(1, host/inotifyPart))), 0)
}

// mountTerminals makes the pseudo-terminals of the Run.
func (k *keeper) mountTerminals() error {
	if err := os.Mkdir(stageTerminals, 0o755); err != nil {
		return err
	}
	options := fmt.Sprintf("newinstance,ptmxmode=0666,mode=620,max=%d", mostTerminals)
	if err := unix.Mount("devpts", stageTerminals, "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount pseudo-terminals: %w", err)
	}
	return nil
}
