//go:build !linux

package main

import "syscall"

// childOnly is only more than nothing on Linux, where the sandbox works.
func childOnly() *syscall.SysProcAttr { return nil }
