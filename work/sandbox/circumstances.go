//go:build linux

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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
