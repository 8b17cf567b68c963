package depend

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"remit/law/task"
)

// plan is what one entry of environment.prepare comes to: everything that the
// recipe says, and what only the making needs.
type plan struct {
	client string
	files  []file // written for the fetch, in order
	// fetch has a way to the registry, install has none: both are Remit's own
	// commands. build are the policy's.
	fetch, install, build []string
	paths                 []string // relative to the workspace
	env                   map[string]string
	tools                 []string
	lockFiles             []string        // of the base, for saying that a patch changes one
	packages              map[string]bool // what may be asked for: NAME, NAME@VERSION
}

// file is one that Remit writes for a client.
type file struct {
	path string
	text []byte
}

// planOf reads the manifests of one entry.
func planOf(base fs.FS, p task.Prepare, hosts []string) (*plan, error) {
	switch p.Ecosystem {
	case task.NPM:
		return npmPlan(base, p, hosts)
	}
	return nil, fmt.Errorf("no ecosystem %q", p.Ecosystem)
}

// readInput reads a regular file of the base tree: no link is followed, since it
// would be read outside of any sandbox.
func readInput(base fs.FS, name string, limit int64) ([]byte, error) {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		if info, err := fs.Lstat(base, name[:i]); err != nil || !info.IsDir() {
			return nil, errors.Join(err, fmt.Errorf("%q is no directory of the base", name[:i]))
		}
	}
	info, err := fs.Lstat(base, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := base.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return text, err
}

// words splits one of Remit's own commands, which need no shell.
func words(command string) []string { return strings.Fields(command) }
