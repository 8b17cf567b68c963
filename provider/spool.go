package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/atomicfile"
	"remit/proof/canon"
)

// Result is a finished job that the authority has not acknowledged yet.
type Result struct {
	JobID    string          `json:"job_id"`
	JobHash  string          `json:"job_hash"`
	Fence    int64           `json:"fence"`
	Response json.RawMessage `json:"response"`
	Files    []File          `json:"files"` // beside it in the spool
}

// File is an output of a job, kept by its digest.
type File struct {
	Name   string `json:"name"`   // path of the artifact in the job
	SHA256 string `json:"sha256"` // sha256:…
	Bytes  int64  `json:"bytes"`
}

// spool keeps results on disk: a directory for each job, named by the digest of
// its id, since ids come from outside.
type spool struct{ dir string }

// The files of a job beside its output: the lease that the work was begun under,
// and the result.
const (
	leaseFile  = "lease.json"
	resultFile = "result.json"
)

func (s spool) path(jobID string) string {
	return filepath.Join(s.dir, strings.TrimPrefix(canon.Digest([]byte(jobID)), "sha256:"))
}

// begin makes an empty directory for the output of a job; what an earlier,
// unfinished attempt left is removed.
func (s spool) begin(jobID string) (string, error) {
	dir := s.path(jobID)
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clearing the spool: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("making the spool: %w", err)
	}
	return dir, nil
}

// mark notes the lease that work is begun under, so that the next daemon can hand
// it back if this one is killed. It is no loss if the machine dies first: the
// lease runs out then.
func (s spool) mark(h held) error {
	b, err := json.Marshal(lease{h.jobID, h.fence})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.path(h.jobID), leaseFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the lease in the spool: %w", err)
	}
	return nil
}

type lease struct {
	JobID string `json:"job_id"`
	Fence int64  `json:"fence"`
}

// finish makes a result last.
func (s spool) finish(r Result) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a result: %w", err)
	}
	return atomicfile.ReplaceDurably(filepath.Join(s.path(r.JobID), resultFile), b, 0o600)
}

// drop forgets a result that the authority has, or does not want.
func (s spool) drop(jobID string) error { return os.RemoveAll(s.path(jobID)) }

// maxResult bounds a result file: a response and its list of files.
const maxResult = 2 * job.MaxResponseBytes

// load reads the result of a job; nil when there is none.
func (s spool) load(jobID string) (*Result, error) {
	r, err := readResult(filepath.Join(s.path(jobID), resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && r.JobID != jobID {
		return nil, fmt.Errorf("the spool of job %s holds another job", jobID)
	}
	return r, err
}

// all lists what waits to be acknowledged. A directory without a readable
// result is an attempt that was cut off.
func (s spool) all() ([]Result, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the spool: %w", err)
	}
	var out []Result
	for _, e := range entries {
		r, err := readResult(filepath.Join(s.dir, e.Name(), resultFile))
		if err != nil || s.path(r.JobID) != filepath.Join(s.dir, e.Name()) {
			continue
		}
		out = append(out, *r)
	}
	return out, nil
}

// cutOff lists the directories of attempts that have no result, and get none
// once their daemon is gone, and the leases that they were begun under.
func (s spool) cutOff() (dirs []string, leases []held, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the spool: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(s.dir, e.Name())
		if _, err := os.Lstat(filepath.Join(dir, resultFile)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dirs = append(dirs, dir)
		var l lease
		if b, err := readBounded(filepath.Join(dir, leaseFile)); err == nil && json.Unmarshal(b, &l) == nil && s.path(l.JobID) == dir {
			leases = append(leases, held{l.JobID, l.Fence})
		}
	}
	return dirs, leases, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxResult {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxResult)
	}
	return os.ReadFile(path)
}

func readResult(path string) (*Result, error) {
	b, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// deliver hands a result in and keeps the lease meanwhile: an authority that is
// away for a moment, or a long upload, must not cost the work. When the daemon is
// asked to stop, it ends the attempt that is on its way, and makes no other. A
// result that was not taken stays in the spool.
func (d *Daemon) deliver(ctx context.Context, l api.Lease, r Result) error {
	closing, stop := linger(ctx, d.ttl, errStopping)
	defer stop(nil)
	// The loss of the lease ends the repetition, and not the request that is on
	// its way: if that is what closed the job, its answer says so.
	held, lose := context.WithCancelCause(ctx)
	d.register(l.Job.JobID, lose)
	defer d.register(l.Job.JobID, nil)
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		d.renew(held, l, lose)
	}()
	defer func() { lose(nil); <-renewing }()
	for pause := api.DefaultRetry.Base; ; pause = min(2*pause, api.DefaultRetry.Max) {
		err := d.handIn(closing, r)
		if err == nil || refusal(err) || errors.Is(err, errSpool) || !wait(held, pause) {
			return err
		}
	}
}

// works reports whether this daemon has the job in its hands.
func (d *Daemon) works(jobID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[jobID] != nil
}

// wait returns false when the context ends before the time is up.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
