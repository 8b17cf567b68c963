//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"remit/proof/reason"
)

// opened remembers, for this process only, the drivers that passed their probe.
var opened struct {
	sync.Mutex
	drivers map[string]Driver
}

// Open returns the driver that opt names, after a probe that really runs
// commands in it; a probe that passed before on this boot, in the same
// circumstances, is remembered in opt.StateDir. It fails closed: a *reason.Error with sandbox_unavailable
// means that nothing may run here, and no weaker driver is ever put in place.
func Open(ctx context.Context, opt Options) (Driver, error) {
	if opt.Driver == "" {
		opt.Driver = DriverBwrap
	}
	if !initialized.Load() {
		return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: this program does not call sandbox.Init first in main")
	}
	opened.Lock()
	defer opened.Unlock()
	key := strings.Join(slices.Concat([]string{opt.Driver, opt.StateDir, opt.Cache.Dir}, opt.Toolchains, []string{""}, opt.Hidden), "\x00")
	if d, ok := opened.drivers[key]; ok && !opt.Fresh {
		return d, nil
	}
	d, err := open(ctx, opt)
	if err != nil {
		return nil, err
	}
	if opened.drivers == nil {
		opened.drivers = map[string]Driver{}
	}
	opened.drivers[key] = d
	return d, nil
}

func open(ctx context.Context, opt Options) (Driver, error) {
	private := opt.StateDir != ""
	if !private {
		opt.StateDir = os.TempDir()
	} else if err := os.MkdirAll(opt.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: state directory: %w", err)
	}
	tools, err := findToolchain(opt.Toolchains, opt.Cache)
	if err != nil {
		return nil, err
	}
	switch opt.Driver {
	case DriverBwrap:
		hide, err := hiddenFrom(opt.Hidden)
		if err != nil {
			return nil, err
		}
		for _, b := range tools.binds {
			if err := hide.check(b); err != nil {
				return nil, err
			}
		}
		return openBwrap(ctx, opt, tools, hide, private)
	case DriverNone:
		removeStaleCopies(opt.StateDir)
		return &none{stateDir: opt.StateDir, tools: tools}, nil
	}
	return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: no driver %q", opt.Driver).
		WithHint("the drivers are %s and %s", DriverBwrap, DriverNone)
}

const installHint = "install bubblewrap 0.8.0 or later (apt-get install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)"

func openBwrap(ctx context.Context, opt Options, tools toolchain, hide hidden, private bool) (Driver, error) {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, reason.Errorf(reason.SandboxUnavailable, "sandbox: the program bwrap is not installed").WithHint(installHint)
	}
	startStandby() // a keeper gets ready meanwhile, for the probe or for the first Run
	removeStaleGroups()
	d := &bwrap{path: path, tools: tools, hidden: hide}
	if d.desc, err = describe(path); err != nil {
		return nil, err
	}
	var m *memory // none in the system's temporary directory: others write there
	if private {
		m = d.memoryOf(opt.StateDir)
	}
	if !opt.Fresh {
		if desc, ok := m.recall(); ok {
			d.desc, d.memory = desc, m
			return d, nil
		}
	}
	if d.desc.Version, err = bwrapVersion(ctx, path); err != nil {
		return nil, err
	}
	if err := d.probe(ctx, opt.StateDir); err != nil {
		m.forget()
		return nil, &reason.Error{Code: probeCode(err), Message: "sandbox: the probe of bwrap failed: " + err.Error(),
			Err: err, Hint: probeHint(err)}
	}
	m.keep(d.desc)
	return d, nil
}

// probeCode tells a probe that found no room for its files from one that found no
// confinement. Starting a process fails with ENOSPC, too: for the lack of namespaces.
func probeCode(err error) reason.Code {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op != "fork/exec" &&
		(errors.Is(path.Err, syscall.ENOSPC) || errors.Is(path.Err, syscall.EDQUOT) || errors.Is(path.Err, syscall.EROFS)) {
		return reason.HomeUnusable
	}
	return reason.SandboxUnavailable
}

// probeHint is what to do about a probe that failed.
func probeHint(err error) string {
	if cause, ok := errors.AsType[*reason.Error](err); ok && cause.Hint != "" {
		return cause.Hint
	}
	if probeCode(err) == reason.HomeUnusable {
		return "free some space below REMIT_HOME, or set it to another place"
	}
	return "run the command bwrap --unshare-all --ro-bind / / /bin/true to see whether the host allows namespaces"
}

// bwrapVersion asks the program and refuses versions that lack an option we need.
func bwrapVersion(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		return "", reason.Errorf(reason.SandboxUnavailable, "sandbox: %s --version: %w", path, err).WithHint(installHint)
	}
	version := strings.TrimSpace(strings.TrimPrefix(string(out), "bubblewrap "))
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return "", reason.Errorf(reason.SandboxUnavailable, "sandbox: %s has no version but %q", path, version).WithHint(installHint)
	}
	if major == 0 && minor < 8 {
		return "", reason.Errorf(reason.SandboxUnavailable, "sandbox: bubblewrap %s is too old", version).WithHint(installHint)
	}
	return version, nil
}
