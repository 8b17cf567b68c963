package provider

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/git"
	"remit/work/workspace"
)

// artifactScheme begins a source that is an artifact of the job's run: a git
// pack that holds the commit git_ref, its tree and its blobs.
const artifactScheme = "artifact:"

const (
	// packTimeout is how long a source may take to arrive and to be unpacked.
	packTimeout = 10 * time.Minute
	// downloads is how often a source is asked for.
	downloads = 3
	// packTrees is what checked out trees may take on this machine's disk once
	// strangers can have it make them.
	packTrees = 5 << 30
	// trimTimeout is what removing old trees may cost; what is left over is for
	// the next job.
	trimTimeout = time.Minute
)

// received downloads the pack of a job and makes a repository of it below the
// scratch directory. What is wrong with the pack or the request is the job's
// fault; that the pack did not arrive as the authority has it is no fault of those who
// asked for the job.
func (d *Daemon) received(ctx context.Context, runID, digest string, repo job.Repo, scratch string) (*workspace.Source, error) {
	commit := api.Value(repo.GitRef)
	switch {
	case !canon.ValidDigest(digest):
		return nil, reason.Errorf(reason.JobInvalid, "the source %.100q is not artifact:sha256: and 64 lowercase hex digits", repo.Source)
	case git.FormatOf(commit) == "":
		return nil, reason.Errorf(reason.JobInvalid, "a source that is an artifact needs the full id of its commit as git_ref, not %.100q",
			commit)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, packTimeout, reason.Errorf(reason.InfrastructureFault, "the source took longer than %s",
		packTimeout))
	defer cancel()
	for attempt := 1; ; attempt++ {
		source, err := d.download(ctx, runID, digest, commit, filepath.Join(scratch, "source"))
		if !errors.Is(err, errArrival) || attempt == downloads || ctx.Err() != nil {
			return source, err
		}
		d.log.Warn("a source did not arrive", "run", runID, "attempt", attempt, "error", err)
	}
}

// errArrival marks what broke between the authority's answer and its end. It is
// tried again: the client does so only until the answer begins.
var errArrival = errors.New("the source did not arrive as it is")

func (d *Daemon) download(ctx context.Context, runID, digest, commit, dir string) (*workspace.Source, error) {
	pack, err := api.GetRunArtifact.Open(ctx, d.client, api.GetRunArtifactParams{RunID: runID, Digest: digest})
	if reason.CodeOf(err) == reason.NotFound {
		return nil, reason.Errorf(reason.NotFound, "the run of the job has no artifact %s", digest)
	}
	if err != nil {
		return nil, reason.Errorf(reason.InfrastructureFault, "downloading the source: %w", err)
	}
	defer pack.Close()
	body := &checked{r: pack, sum: sha256.New(), digest: digest}
	source, err := workspace.OpenPack(ctx, dir, body, commit, api.MaxArtifact)
	if err != nil {
		// A pack is broken only if these are the bytes that its owner stored.
		if _, arrival := io.Copy(io.Discard, body); arrival != nil {
			return nil, arrival
		}
	}
	return source, err
}

// checked ends with an error instead of the end of the file when the bytes are
// not those of the digest. So nothing begins with them that waits for the end.
type checked struct {
	r      io.Reader
	sum    hash.Hash
	digest string
	end    error // once it was reached
}

// Read implements io.Reader.
func (c *checked) Read(p []byte) (int, error) {
	if c.end != nil {
		return 0, c.end
	}
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := canon.DigestSum(c.sum); got != c.digest {
			err = notArrived(fmt.Errorf("it has the digest %s, not %s", got, c.digest))
		}
	} else if err != nil {
		err = notArrived(err)
	}
	c.end = err
	return n, err
}

func notArrived(err error) error {
	return fmt.Errorf("%w: %w", errArrival, reason.Errorf(reason.InfrastructureFault, "downloading it: %w", err))
}

// trimTrees keeps the trees of received packs from filling the disk. Those in
// use stay.
func (d *Daemon) trimTrees(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trimTimeout)
	defer cancel()
	if _, err := d.cache.Trim(ctx, packTrees); err != nil {
		d.log.Warn("trees of finished jobs could not be removed", "error", err)
	}
}
