//go:build !linux

package provider

// kernel has no name on this system.
func kernel() string { return "" }
