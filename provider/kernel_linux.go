package provider

import "golang.org/x/sys/unix"

// kernel is the release of the running kernel.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
