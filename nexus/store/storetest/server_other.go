//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package storetest

import "errors"

// start needs unix sockets and process groups.
func start() (string, error) {
	return "", errors.New("no server is started on this system")
}
