package main

import "syscall"

// childOnly keeps Ctrl-C for the vignette, which stops its processes in order,
// and has the kernel end them should the vignette itself be killed.
func childOnly() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
