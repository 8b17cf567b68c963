//go:build !linux

package faulty

import "errors"

// ErrNoMount says that this process may not mount anything.
var ErrNoMount = errors.New("a private mount namespace needs Linux")

// PrivateMounts refuses: there is no such thing here.
func PrivateMounts(func() error) error { return ErrNoMount }

// FullDisk refuses.
func FullDisk(string, int) error { return ErrNoMount }

// ReadOnlyDisk refuses.
func ReadOnlyDisk(string) error { return ErrNoMount }

// Unmount refuses.
func Unmount(string) error { return ErrNoMount }
