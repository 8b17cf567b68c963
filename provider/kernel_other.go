//go:build !linux

package provider

// kernel is not told on this system.
func kernel() string { return "" }
