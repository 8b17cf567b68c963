package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/work/session"
)

// ModelDir holds the bodies of requests and answers, if the policy has them
// kept: NNNNNN-request.json and what came of it, by the number of the request
// in the journal. The gateway has taken the credential out of them.
const ModelDir = evidence.BackendDir + "/model"

// incompleteFile says that not all bodies are there.
const incompleteFile = ModelDir + "/incomplete.txt"

// What is kept at most. An agent decides how much it asks, and must not fill the
// disk of the evidence with it.
const (
	maxBodies    = 2000
	maxBodyBytes = 64 << 20 // of all together
)

// bodies keeps requests and answers as they pass the gateway.
type bodies struct {
	dir string

	mu    sync.Mutex
	names []string
	left  int64
	cut   bool // something was left out
}

func newBodies(s session.Session) *bodies {
	return &bodies{dir: filepath.Join(s.Dir, filepath.FromSlash(ModelDir)), left: maxBodyBytes}
}

// open begins a body. Beyond the limits there is none, and no error either: a
// run does not end because it was a long one.
func (b *bodies) open(name string) (io.WriteCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.names) >= maxBodies || b.left <= 0 {
		b.cut = true
		return nil, nil
	}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(b.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	b.names = append(b.names, name)
	return &body{f, b}, nil
}

// body is one file, cut where the room for all of them ends.
type body struct {
	file *os.File
	all  *bodies
}

func (w *body) Write(p []byte) (int, error) {
	w.all.mu.Lock()
	room := min(int64(len(p)), w.all.left)
	w.all.left -= room
	w.all.cut = w.all.cut || room < int64(len(p))
	w.all.mu.Unlock()
	if n, err := w.file.Write(p[:room]); err != nil {
		return n, err
	}
	return len(p), nil
}

func (w *body) Close() error { return w.file.Close() }

// keepBodies records the files when the gateway is closed.
func (r *run) keepBodies(b *bodies) {
	if b == nil {
		return
	}
	names := make([]string, 0, len(b.names)+1)
	for _, name := range b.names {
		names = append(names, ModelDir+"/"+name)
	}
	var err error
	if b.cut {
		text := fmt.Sprintf("At most %d bodies and %d MiB are kept; what is missing here, or cut, was beyond that.\n",
			maxBodies, maxBodyBytes>>20)
		err = os.WriteFile(filepath.Join(r.session.Dir, filepath.FromSlash(incompleteFile)), []byte(text), 0o600)
		names = append(names, incompleteFile)
	}
	for _, name := range names {
		if err == nil {
			err = r.recordArtifact(name)
		}
	}
	if err != nil {
		r.note(evidence.StepStopped, "bodies", journal.Failed, nil, blockersOnly{[]evidence.Blocker{writeBlocker(r, err)}})
	}
}
