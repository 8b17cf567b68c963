//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

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

// describe fills in what is known before the probe.
func describe(path string) (Description, error) {
	digest, err := fileDigest(path)
	if err != nil {
		return Description{}, fmt.Errorf("sandbox: %w", err)
	}
	d := Description{
		Driver: DriverBwrap, Root: os.Geteuid() == 0,
		Config: map[string]string{"bwrap_sha256": digest, "run_uid": strconv.Itoa(runUID), "workspace": WorkspacePath},
	}
	if filter := seccompProgram(); filter != nil {
		d.Config["seccomp_sha256"] = fmt.Sprintf("sha256:%x", sha256.Sum256(filter))
	} else {
		d.NotEnforced = append(d.NotEnforced, "seccomp: no filter for this architecture")
	}
	if !d.Root {
		d.NotEnforced = append(d.NotEnforced, notHeldForLogin)
		if kept := keptGroups(); kept != "" {
			d.NotEnforced = append(d.NotEnforced, kept)
		}
	}
	return d, nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// The scripts of the probe. The negative one ends with 0 only if each attempt
// was refused.
const (
	probeWorks   = `echo ok >probe && read x <probe && [ "$x" = ok ] && [ "$(cat base)" = base ] && [ "$(id -u)" = "$1" ]`
	probeRefused = `(: >/usr/remit-probe) 2>/dev/null && exit 11
(: >/remit-probe) 2>/dev/null && exit 12
[ -e "$1" ] && exit 13
[ -r /etc/shadow ] && exit 14
[ "$(ls /proc/self/fd | wc -l)" -le 4 ] || exit 15
exit 0`
)

// probe runs a command, one that must work and one whose attempts must fail,
// and notes what the host cannot enforce.
func (d *bwrap) probe(ctx context.Context, stateDir string) error {
	dir, err := os.MkdirTemp(stateDir, "remit-probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // ours, and nothing hostile was in it
	lower, canary := filepath.Join(dir, "lower"), filepath.Join(dir, "canary")
	if err := os.Mkdir(lower, 0o755); err != nil {
		return err
	}
	for path, text := range map[string]string{filepath.Join(lower, "base"): "base\n", canary: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	limits := DefaultLimits()
	limits.Wall, limits.OutputBytes = 20*time.Second, 64<<10
	r, err := d.run(ctx, Spec{
		Lower: lower, Limits: limits, Capture: true, SpoolDir: dir, More: true,
		Commands: []Command{
			{Argv: []string{"/bin/true"}, Stdout: &out, Stderr: &out},
			{Argv: []string{"/bin/sh", "-c", probeWorks, "sh", strconv.Itoa(runUID)}, Stdout: &out, Stderr: &out},
			{Argv: []string{"/bin/sh", "-c", probeRefused, "sh", canary}, Stdout: &out, Stderr: &out},
		},
	})
	if err != nil {
		return err
	}
	result := r.result
	for i, name := range []string{"/bin/true", "a command that must work", "the attempts that must be refused"} {
		if i >= len(result.Commands) {
			return fmt.Errorf("%s was not reached", name)
		}
		if c := result.Commands[i]; !c.Started || c.ExitCode != 0 {
			return fmt.Errorf("%s ended with exit code %d: %s", name, c.ExitCode, out.String())
		}
	}
	if len(result.Changes) != 1 || result.Changes[0].Path != "probe" {
		return fmt.Errorf("the collected changes are wrong: %d instead of 1", len(result.Changes))
	}
	if text, err := os.ReadDir(lower); err != nil || len(text) != 1 {
		return fmt.Errorf("the base tree was written to")
	}
	d.desc.Layer = result.Layer
	d.desc.Config["go_build_cache"] = r.built.Cache
	if r.built.LayerNote != "" {
		d.desc.Config["layer_note"] = r.built.LayerNote
	}
	if r.built.LoginNote != "" {
		d.desc.NotEnforced = append(d.desc.NotEnforced, r.built.LoginNote)
	}
	for _, c := range result.Caps {
		if !c.Enforced {
			d.desc.NotEnforced = append(d.desc.NotEnforced, c.Name+": "+c.How)
		}
	}
	return nil
}
