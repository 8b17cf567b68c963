//go:build linux

package sandbox

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userModeOnly is the kind of userfaultfd that every user may ask for.
const userModeOnly = 1

// deniedCalls are harmless even where they are allowed: the pointers and
// descriptors in them are impossible. open is what the kernel says to an
// ordinary user when no filter is there; where that is EPERM too, the call
// proves nothing and has no control.
var deniedCalls = []call{
	{"ptrace", "EPERM", "ESRCH", sys(unix.SYS_PTRACE, unix.PTRACE_ATTACH, 999999)},
	{"process_vm_readv", "EPERM", "ok", sys(unix.SYS_PROCESS_VM_READV, 999999)},
	{"kcmp", "EPERM", "ESRCH", sys(unix.SYS_KCMP, 999999, 999999, 0)},
	{"pidfd_getfd", "EPERM", "EBADF", sys(unix.SYS_PIDFD_GETFD, bad, 0, 0)},
	{"mount", "EPERM", "EFAULT", sys(unix.SYS_MOUNT, bad, bad, bad, 0, bad)},
	{"umount2", "EPERM", "", sys(unix.SYS_UMOUNT2, bad, 0)},
	{"open_tree", "EPERM", "EFAULT", sys(unix.SYS_OPEN_TREE, bad, bad, 0)},
	{"move_mount", "EPERM", "", sys(unix.SYS_MOVE_MOUNT, bad, bad, bad, bad, 0)},
	{"mount_setattr", "EPERM", "EINVAL", sys(unix.SYS_MOUNT_SETATTR, bad, bad, 0, 0, 0)},
	{"chroot", "EPERM", "", sys(unix.SYS_CHROOT, bad)},
	{"unshare user", "EPERM", "EINVAL", sys(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
	{"setns", "EPERM", "EBADF", sys(unix.SYS_SETNS, bad, 0)},
	{"clone user", "EPERM", "EINVAL", sys(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_FS)},
	{"clone3", "ENOSYS", "EINVAL", sys(unix.SYS_CLONE3, 0, 0)},
	{"open_tree_attr", "EPERM", "", sys(unix.SYS_OPEN_TREE_ATTR, bad, bad, 0, 0, 0)},
	{"quotactl_fd", "EPERM", "EBADF", sys(unix.SYS_QUOTACTL_FD, bad, 0, 0, 0)},
	{"fsopen", "EPERM", "", sys(unix.SYS_FSOPEN, bad, 0)},
	{"fspick", "EPERM", "", sys(unix.SYS_FSPICK, bad, bad, 0)},
	{"process_madvise", "EPERM", "", sys(unix.SYS_PROCESS_MADVISE, bad, 0, 0, 0, 0)},
	{"process_mrelease", "EPERM", "EBADF", sys(unix.SYS_PROCESS_MRELEASE, bad, 0)},
	{"fanotify_mark", "EPERM", "", sys(unix.SYS_FANOTIFY_MARK, bad, 0, 0, bad, 0)},
	{"statmount", "ENOSYS", "EFAULT", sys(unix.SYS_STATMOUNT, bad, bad, 0, 0)},
	{"listmount", "ENOSYS", "EFAULT", sys(unix.SYS_LISTMOUNT, bad, bad, 1, 0)},
	{"listns", "ENOSYS", "", sys(unix.SYS_LISTNS, bad, bad, 1, 0)},
	{"file_setattr", "ENOSYS", "", sys(unix.SYS_FILE_SETATTR, bad, bad, bad, 0, 0)},
	{"lsm_set_self_attr", "ENOSYS", "", sys(unix.SYS_LSM_SET_SELF_ATTR, 0, bad, 0, 0)},
	{"cachestat", "ENOSYS", "EBADF", sys(unix.SYS_CACHESTAT, bad, bad, bad, 0)},
	{"memfd_secret", "ENOSYS", "", sys(unix.SYS_MEMFD_SECRET, bad)},
	{"io_setup", "ENOSYS", "", sys(unix.SYS_IO_SETUP, 1, bad)},
	{"a call of the future", "ENOSYS", "", sys(499)},
	{"bpf", "EPERM", "EINVAL", sys(unix.SYS_BPF, 99, 0, 0)},
	{"perf_event_open", "EPERM", "EFAULT", sys(unix.SYS_PERF_EVENT_OPEN, bad, 0, 0, 0, 0)},
	{"userfaultfd", "EPERM", "EINVAL", sys(unix.SYS_USERFAULTFD, userModeOnly|0x7fff0000)},
	{"io_uring_setup", "EPERM", "EFAULT", sys(unix.SYS_IO_URING_SETUP, 1, bad)},
	{"keyctl", "EPERM", "ENOTSUP", sys(unix.SYS_KEYCTL, 9999)},
	{"add_key", "EPERM", "EFAULT", sys(unix.SYS_ADD_KEY, bad, bad, 0, 0, 0)},
	{"request_key", "EPERM", "EFAULT", sys(unix.SYS_REQUEST_KEY, bad, bad, 0, 0)},
	{"clock_settime", "EPERM", "EFAULT", sys(unix.SYS_CLOCK_SETTIME, 0, bad)},
	{"settimeofday", "EPERM", "EFAULT", sys(unix.SYS_SETTIMEOFDAY, bad, 0)},
	{"open_by_handle_at", "EPERM", "", sys(unix.SYS_OPEN_BY_HANDLE_AT, bad, bad, 0)},
	{"name_to_handle_at", "EPERM", "EFAULT", sys(unix.SYS_NAME_TO_HANDLE_AT, bad, bad, bad, bad, 0)},
	{"personality", "EPERM", "ok", sys(unix.SYS_PERSONALITY, 0xffffffff)},
	{"init_module", "EPERM", "", sys(unix.SYS_INIT_MODULE, bad, 0, bad)},
	{"reboot", "EPERM", "", sys(unix.SYS_REBOOT, 0, 0, 0)},
	{"swapon", "EPERM", "", sys(unix.SYS_SWAPON, bad, 0)},
	{"ioctl TIOCLINUX", "EPERM", "EBADF", sys(unix.SYS_IOCTL, bad, 0x541c, 0)},
	{"ioctl TIOCSTI", "EPERM", "EBADF", sys(unix.SYS_IOCTL, bad, 0x5412, 0)},
	{"socket PACKET", "EAFNOSUPPORT", "EPERM", sys(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0)},
	{"socket VSOCK", "EAFNOSUPPORT", "", sys(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{"socket ALG", "EAFNOSUPPORT", "", sys(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	// and what must go on working
	{"socket UNIX", "ok", "ok", sys(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)},
	{"socket INET6", "ok", "ok", sys(unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, 0)},
	{"socket NETLINK", "ok", "ok", sys(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0)},
	{"ioctl other", "EBADF", "EBADF", sys(unix.SYS_IOCTL, bad, unix.TCGETS, 0)},
	{"getpid", "ok", "ok", sys(unix.SYS_GETPID)},
}

// killingCalls go around the filter by another ABI.
var killingCalls = []call{
	{"x32", "SIGSYS", "", sys(0x40000000 | unix.SYS_GETPID)},
	{"i386", "SIGSYS", "", int80},
}

// int80 calls getpid of the 32-bit ABI from machine code put into a fresh page.
func int80() syscall.Errno {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return syscall.EACCES
	}
	copy(page, []byte{
		0xb8, 0x14, 0, 0, 0, // mov eax, 20 (getpid)
		0xcd, 0x80, // int 0x80
		0xc3, // ret
	})
	code := uintptr(unsafe.Pointer(&page[0]))
	pointer := &code
	(*(*func())(unsafe.Pointer(&pointer)))()
	return 0
}
