//go:build linux

package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"remit/proof/reason"
)

// A probe takes longer than the start of a sandbox, and on one boot the same
// program in the same place gets the same answer. So a probe that passed is
// remembered in a file of the state directory. The memory only spares time:
//
//   - it names everything that the answer depends on, and counts for nothing if
//     any of that differs;
//   - a probe that failed is never remembered;
//   - the file counts only if no other user could have written it;
//   - every Run sets up and checks its own walls as ever, and one that cannot
//     begin has the host probed anew.

// memoryFile is the name of the file, memoryLimit bounds what is read of it.
const (
	memoryFile    = "probe.json"
	memoryLimit   = 64 << 10
	memoryVersion = 1
)

// memory is the place of one remembered answer.
type memory struct {
	dir  string
	host string // the circumstances of the answer
}

// remembered is the file.
type remembered struct {
	V           int         `json:"v"`
	Host        string      `json:"host"`
	Description Description `json:"description"`
}

// memoryOf returns the memory of a driver, nil if there can be none.
func (d *bwrap) memoryOf(stateDir string) *memory {
	host, err := d.circumstances(stateDir)
	if err != nil {
		return nil // with nothing to tie it to nothing can be remembered
	}
	return &memory{dir: stateDir, host: host}
}

// recall returns what was remembered for this host. Whatever is wrong with the
// file, the answer is that nothing is known.
func (m *memory) recall() (Description, bool) {
	var none Description
	if m == nil {
		return none, false
	}
	root, err := m.open()
	if err != nil {
		return none, false
	}
	defer root.Close()
	f, err := root.OpenFile(memoryFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return none, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || !isOurs(info) {
		return none, false
	}
	text, err := io.ReadAll(io.LimitReader(f, memoryLimit))
	if err != nil {
		return none, false
	}
	var r remembered
	if json.Unmarshal(text, &r) != nil || r.V != memoryVersion || r.Host != m.host {
		return none, false
	}
	d := r.Description
	if d.Driver != DriverBwrap || d.Version == "" || d.Layer == "" || d.Config == nil || d.Root != (os.Geteuid() == 0) {
		return none, false
	}
	return d, true
}

// keep remembers the answer of a probe that passed. Failing costs the next
// start a probe and nothing else.
func (m *memory) keep(d Description) {
	if m == nil {
		return
	}
	text, err := json.MarshalIndent(remembered{memoryVersion, m.host, d}, "", "  ")
	if err != nil || len(text) > memoryLimit {
		return
	}
	root, err := m.open()
	if err != nil {
		return
	}
	defer root.Close()
	f, err := os.CreateTemp(m.dir, "."+memoryFile+"-") // 0600
	if err != nil {
		return
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if name := filepath.Base(f.Name()); err != nil || root.Rename(name, memoryFile) != nil {
		_ = root.Remove(name)
	}
}

// forget makes the next start ask the host again.
func (m *memory) forget() {
	if m == nil {
		return
	}
	if root, err := m.open(); err == nil {
		_ = root.Remove(memoryFile) // gone already is as good
		root.Close()
	}
}

// open opens the directory if only we can write to it.
func (m *memory) open() (*os.Root, error) {
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && (info.Mode().Perm()&0o022 != 0 || !isOurs(info)) {
		err = fmt.Errorf("others can write to %q", m.dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

func isOurs(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// trusted is called with the outcome of every Run of a driver that was opened
// from memory. It returns err, or a better one.
func (d *bwrap) trusted(ctx context.Context, r *run, err error) error {
	if r == nil || ctx.Err() != nil {
		return err
	}
	if !r.began() {
		if code := reason.CodeOf(err); code == reason.SandboxUnavailable || code == reason.InfrastructureFault {
			d.asked.Do(func() { d.doubt = d.askAgain(ctx) })
			return d.explain(err)
		}
		return err
	}
	for _, c := range r.result.Caps {
		if !c.Enforced && !slices.ContainsFunc(d.desc.NotEnforced, func(s string) bool { return strings.HasPrefix(s, c.Name+":") }) {
			d.memory.forget() // the caps of this Run are right already; the next start probes
		}
	}
	return err
}

// began reports whether a command was started, or none was asked for.
func (r *run) began() bool {
	return r.result != nil && (len(r.result.Commands) > 0 || len(r.spec.Commands) == 0)
}

// askAgain probes anew, once, with a driver of its own: what this one says of
// itself may be in the evidence already.
func (d *bwrap) askAgain(ctx context.Context) error {
	d.memory.forget()
	again := &bwrap{path: d.path, tools: d.tools, control: d.control, desc: Description{Config: map[string]string{}}}
	return again.probe(ctx, d.memory.dir)
}

func (d *bwrap) explain(err error) error {
	if d.doubt != nil {
		return &reason.Error{Code: probeCode(d.doubt), Err: errors.Join(err, d.doubt),
			Message: "sandbox: the host has changed since it was last probed: " + d.doubt.Error(), Hint: probeHint(d.doubt)}
	}
	return fmt.Errorf("%w; a new probe of the sandbox passed", err)
}

// The files that say what this process may do and what the kernel allows. One
// that does not exist says so for as long as that is true.
var hostFiles = []string{
	"/proc/self/cgroup", "/proc/self/limits", "/proc/self/attr/current",
	"/proc/sys/user/max_user_namespaces", "/proc/sys/user/max_mnt_namespaces", "/proc/sys/user/max_pid_namespaces",
	"/proc/sys/user/max_net_namespaces",
	"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
	"/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined",
}

// statusFields are the lines of /proc/self/status that matter here.
var statusFields = []string{"Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters"}

// circumstances is a digest of everything that the answer of a probe depends
// on: the boot and its kernel, this program and bwrap, who we are and what we
// may do, where we are in namespaces and control groups, and what would be
// mounted.
func (d *bwrap) circumstances(stateDir string) (string, error) {
	boot, kernel, err := bootAndKernel()
	if err != nil {
		return "", err
	}
	facts := []string{"boot", boot, "bwrap", d.path, d.desc.Config["bwrap_sha256"], "seccomp", d.desc.Config["seccomp_sha256"]}
	facts = append(facts, kernel...)
	places := []string{"/proc/self/exe", d.path, stateDir, d.tools.goCache, d.tools.modCache}
	for _, b := range d.tools.binds {
		places = append(places, b.Host)
	}
	for _, p := range places {
		facts = append(facts, p, identityOf(p, p != stateDir && p != d.tools.goCache))
	}
	facts = append(facts, fmt.Sprint(d.tools.binds, d.tools.pathDirs, d.tools.env))
	for _, f := range hostFiles {
		text, err := os.ReadFile(f)
		facts = append(facts, f, string(text), fmt.Sprint(err == nil))
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(status)) {
		if name, _, _ := strings.Cut(line, ":"); slices.Contains(statusFields, name) {
			facts = append(facts, line)
		}
	}
	spaces, err := os.ReadDir("/proc/self/ns")
	if err != nil {
		return "", err
	}
	for _, s := range spaces {
		target, err := os.Readlink("/proc/self/ns/" + s.Name())
		facts = append(facts, s.Name(), target, fmt.Sprint(err == nil))
	}
	groups, err := hierarchies()
	facts = append(facts, fmt.Sprint(groups, err))
	text, err := json.Marshal(facts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// bootAndKernel names this start of the machine, and its kernel: release,
// version and machine.
func bootAndKernel() (boot string, kernel []string, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil, err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", nil, err
	}
	return string(id), []string{unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:]), unix.ByteSliceToString(u.Machine[:])}, nil
}

// identityOf tells one file from another and, if its content matters, from
// itself after any change.
func identityOf(path string, content bool) string {
	info, err := os.Stat(path)
	if err != nil {
		return "absent"
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "unknown"
	}
	id := fmt.Sprint(st.Dev, st.Ino, st.Uid, st.Gid, info.Mode())
	if content && info.Mode().IsRegular() {
		id += fmt.Sprint(" ", st.Size, st.Mtim, st.Ctim)
	}
	return id
}
