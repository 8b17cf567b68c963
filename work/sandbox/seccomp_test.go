//go:build linux

package sandbox

import (
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

func needFilter(t testing.TB) {
	t.Helper()
	if seccompProgram() == nil {
		t.Skip("SKIPPED, NOT ENFORCED: no seccomp filter for this architecture")
	}
}

// Every call is really made, with the filter and, as a control, without it.
func TestDeniedCalls(t *testing.T) {
	t.Parallel()
	e := escape(t, "denied system calls")
	needFilter(e)
	with := answers(try(e, open1(e), Spec{}, attackPath, "attack", "syscalls").out)
	off := answers(try(e, without(e, controlled{noFilter: true}), Spec{}, attackPath, "attack", "syscalls").out)
	for _, c := range deniedCalls {
		if c.want == "ok" || c.want == "EBADF" { // what must go on working is no attack
			if with[c.name] != c.want {
				t.Errorf("%s: %s instead of %s", c.name, with[c.name], c.want)
			}
			continue
		}
		e.Check(with[c.name] == c.want, "%s: %s instead of %s", c.name, with[c.name], c.want)
		if c.open != "" && off[c.name] != c.open {
			t.Errorf("%s: the control answers %s instead of %s", c.name, off[c.name], c.open)
		}
	}
}

// The families of calls that must never be allowed, old forms and new. A call
// that gets a new form gets a line here; the table itself is tested against what
// the kernel says to each, see TestDeniedCalls.
func TestTableOfCalls(t *testing.T) {
	t.Parallel()
	needFilter(t)
	tab, _ := nativeTable()
	got := map[string]string{}
	for _, r := range tab.calls {
		if got[r.name] != "" {
			t.Errorf("%s is there twice", r.name)
		}
		got[r.name] = r.answer
	}
	for answer, names := range map[string]string{
		answerPerm: "mount umount2 open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr pivot_root chroot unshare setns " +
			"quotactl quotactl_fd keyctl add_key request_key ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp " +
			"bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register fanotify_init fanotify_mark open_by_handle_at name_to_handle_at " +
			"kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct syslog clock_settime clock_adjtime settimeofday adjtimex",
		answerNoSys: "clone3 io_setup statmount listmount listns cachestat memfd_secret lsm_set_self_attr file_setattr",
		answerLook:  "clone ioctl socket",
		answerAllow: "read write openat openat2 execve fork vfork futex_waitv setxattrat getxattrat listxattrat removexattrat landlock_create_ruleset mq_open inotify_init1 rseq",
	} {
		for name := range strings.FieldsSeq(names) {
			if got[name] != answer {
				t.Errorf("%s: %q instead of %s", name, got[name], answer)
			}
		}
	}
}

func answers(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		if i := strings.LastIndexByte(strings.TrimSpace(line), ' '); i > 0 {
			m[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return m
}

func TestOtherABIsAreKilled(t *testing.T) {
	t.Parallel()
	e := escape(t, "system calls of another ABI")
	needFilter(e)
	for _, c := range killingCalls {
		got := try(e, open1(e), Spec{}, attackPath, "attack", "one", c.name)
		control := try(e, without(e, controlled{noFilter: true}), Spec{}, attackPath, "attack", "one", c.name)
		there := control.Signal == "" && strings.Contains(control.out, "survived")
		if !there {
			t.Logf("%s: no control on this kernel: %+v", c.name, control.CommandResult)
		}
		// A kernel without the ABI answers the call with a fault before a filter is asked.
		held := got.Signal == "SIGSYS" || !there && got.ExitCode == control.ExitCode && got.ExitCode != 0
		e.Check(held && !strings.Contains(got.out, "survived"), "%s: %+v %s", c.name, got.CommandResult, got.out)
	}
}

func TestTerminalInput(t *testing.T) {
	t.Parallel()
	e := escape(t, "terminal input")
	needFilter(e)
	o := try(e, open1(e), Spec{}, attackPath, "attack", "tiocsti")
	e.Check(o.out == "EPERM\n", "with the filter: %q", o.out)
	if o := try(e, without(e, controlled{noFilter: true}), Spec{}, attackPath, "attack", "tiocsti"); o.out != "ok\n" {
		t.Logf("no control on this kernel: %q", o.out)
	}
}

// The program in a virtual machine: cheap for calls that cannot be made here.
func TestProgram(t *testing.T) {
	t.Parallel()
	needFilter(t)
	tab, _ := nativeTable()
	raw, err := bpf.Assemble(tab.instructions())
	if err != nil {
		t.Fatal(err)
	}
	back, _ := bpf.Disassemble(raw)
	vm, err := bpf.NewVM(back)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(arch, nr uint32, args ...uint32) uint32 {
		data := make([]byte, 64)
		put := func(at int, v uint32) { // the VM loads big-endian words
			data[at], data[at+1], data[at+2], data[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
		}
		put(offsetNumber, nr)
		put(offsetArch, arch)
		for i, a := range args {
			put(offsetArg0+8*i, a)
		}
		got, err := vm.Run(data)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(got)
	}
	want := map[string]uint32{answerAllow: retAllow, answerPerm: retErrno | errnoPERM, answerNoSys: retErrno | errnoNOSYS}
	known := map[uint32]bool{}
	for _, r := range tab.calls {
		known[r.nr] = true
		if got := ask(tab.arch, r.nr); r.answer != answerLook && got != want[r.answer] {
			t.Errorf("%s: %#x instead of %s", r.name, got, r.answer)
		}
		if got := ask(tab.arch, r.nr|tab.foreign); tab.foreign != 0 && got != retKill {
			t.Errorf("%s of the other ABI: %#x", r.name, got)
		}
	}
	for nr := range uint32(2000) { // what the table does not know does not exist
		if got := ask(tab.arch, nr); !known[nr] && got != retErrno|errnoNOSYS {
			t.Errorf("call %d, which is in no table: %#x", nr, got)
		}
	}
	for flag := uint32(1); flag != 0; flag <<= 1 {
		want := uint32(retAllow)
		if flag&cloneNewMask != 0 {
			want = retErrno | errnoPERM
		}
		if got := ask(tab.arch, tab.clone, flag); got != want {
			t.Errorf("clone with %#x: %#x", flag, got)
		}
	}
	for family := range uint32(64) {
		got := ask(tab.arch, tab.socket, family)
		if ok := family == 1 || family == 2 || family == 10 || family == 16; ok != (got == retAllow) {
			t.Errorf("socket family %d: %#x", family, got)
		}
	}
	if ask(tab.arch^1, 0) != retKill || ask(tab.arch, 1<<29) != retErrno|errnoNOSYS || ask(tab.arch, tab.ioctl, 0, 0x5401) != retAllow {
		t.Error("arch, a number far above the table, or ioctl")
	}
}
