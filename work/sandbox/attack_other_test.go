//go:build linux && !amd64

package sandbox

var deniedCalls, killingCalls []call
