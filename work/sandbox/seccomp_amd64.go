//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// nativeTable returns the rules for x86-64. The x32 bit selects another ABI
// with numbers of its own, and the 32-bit ABI has another arch value: both kill.
func nativeTable() (table, bool) {
	return table{
		arch:    unix.AUDIT_ARCH_X86_64,
		foreign: 0x40000000,
		clone:   unix.SYS_CLONE,
		clone3:  unix.SYS_CLONE3,
		ioctl:   unix.SYS_IOCTL,
		socket:  unix.SYS_SOCKET,
		denied: []uint32{
			// other processes
			unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
			// mounts and roots
			unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
			unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
			// namespaces
			unix.SYS_UNSHARE, unix.SYS_SETNS,
			// kernel interfaces with a history of holes
			unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
			unix.SYS_IO_URING_REGISTER, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_FANOTIFY_INIT,
			unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_MODIFY_LDT, unix.SYS_PERSONALITY,
			// files by handle reach outside of the mounts
			unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
			// the machine
			unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
			unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_QUOTACTL,
			unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
			unix.SYS_CLOCK_SETTIME, unix.SYS_SETTIMEOFDAY, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
		},
	}, true
}
