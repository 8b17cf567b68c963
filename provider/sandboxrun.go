package provider

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"remit/law/job"
	"remit/nexus/api"
	"remit/proof/canon"
	"remit/proof/reason"
	"remit/work/sandbox"
)

// hostImage is what every daemon has: the root of its own host, read-only.
const hostImage = "host"

// refusedExit is the exit code of a job that could not begin for a reason of
// its own, as git and shells use it for fatal errors.
const refusedExit = 128

// sandboxRun is one execution of oa.sandbox_run.v1.
type sandboxRun struct {
	*Daemon
	req      job.SandboxRunRequest
	caps     api.Caps // what binds this job
	runID    string   // whose artifacts it may read
	dir      string   // of the spool
	layers   []job.Layer
	services []job.Service
	streams  []*stream // stdout and stderr of each command, one after the other
}

// run executes the request. The response is complete whatever happened; the
// error is a failure to keep output.
func (r *sandboxRun) run(ctx context.Context) (job.SandboxRunResponse, []File, error) {
	defer r.closeStreams()
	started := r.clock()
	resp := job.SandboxRunResponse{
		EnvInfo: job.EnvInfo{ImageDigest: hostImage}, Runs: []job.Run{}, Artifacts: []job.Artifact{}, Status: job.Errored,
		Provenance: r.provenance(started), Provider: r.describe(), Platform: r.platform(),
	}
	for i := range r.req.Commands {
		for _, name := range []string{"stdout", "stderr"} {
			f, err := os.OpenFile(filepath.Join(r.dir, fmt.Sprintf("%s.%d", name, i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return resp, nil, fmt.Errorf("making the spool: %w", err)
			}
			r.streams = append(r.streams, &stream{file: f, hash: sha256.New()})
		}
	}
	result, err := r.execute(ctx)
	if result != nil {
		r.fill(&resp, result)
	}
	switch {
	case ctx.Err() != nil:
		resp.Status = job.Cancelled
	case err != nil && reason.CodeOf(err) != "" && (result == nil || unserved(err)) && blamesJob(err):
		r.log.Warn("a job was refused", "error", err, "hint", hintOf(err))
		r.refuse(&resp, err)
	case err != nil:
		text := "the sandbox could not run the job"
		if code := reason.CodeOf(err); code != "" {
			text += ": " + string(code)
		}
		resp.Error = &text // the error itself may name paths of this host
		r.log.Error("a job could not be run", "error", err)
	}
	var files []File
	for i, s := range r.streams[:2*len(resp.Runs)] {
		if s.err != nil {
			return resp, nil, fmt.Errorf("keeping output: %w", s.err)
		}
		if err := s.file.Sync(); err != nil {
			return resp, nil, fmt.Errorf("keeping output: %w", err)
		}
		name := fmt.Sprintf("%s.%d", []string{"stdout", "stderr"}[i%2], i/2)
		files = append(files, File{name, s.digest(), s.bytes})
		mime := "text/plain"
		resp.Artifacts = append(resp.Artifacts, job.Artifact{Path: name, SHA256: s.digest(), SizeBytes: uint64(s.bytes), MimeType: &mime})
	}
	took := uint64(max(0, r.clock().Sub(started).Milliseconds()))
	resp.Provenance.DurationMS = &took
	if digest, err := canon.DigestOf(struct {
		Runs   []job.Run  `json:"runs"`
		Status job.Status `json:"status"`
	}{resp.Runs, resp.Status}); err == nil {
		resp.Provenance.OutputSHA256 = &digest
	}
	return resp, files, nil
}

// blamesJob tells what a job asked for in vain from what this machine could
// not do.
func blamesJob(err error) bool {
	switch reason.CodeOf(err) {
	case reason.SandboxUnavailable, reason.InfrastructureFault, reason.ArtifactWriteFailure, reason.ResourceLimit,
		reason.TreeMismatch, reason.HomeUnusable, reason.FileUnusable:
		return false
	}
	return true
}

// execute runs the commands in the sandbox.
func (r *sandboxRun) execute(ctx context.Context) (*sandbox.Result, error) {
	scratch, err := os.MkdirTemp(r.scratch, scratchName)
	if err != nil {
		return nil, fmt.Errorf("making a work directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	t, err := r.checkout(ctx, r.runID, r.req.Repo, scratch)
	if err != nil {
		return nil, err
	}
	defer t.close()
	around, err := r.surround(ctx, t, scratch)
	if err != nil {
		return nil, err
	}
	defer r.trimLayers()
	defer around.close()
	r.layers, r.services = around.layers, around.services
	env := maps.Clone(around.prepared.Variables())
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, r.req.Env)
	spec := sandbox.Spec{Lower: t.dir, Layers: around.prepared.Mounts(), PathDirs: around.prepared.Programs(), StopOnFailure: true,
		Env: env, Limits: r.limits(), Services: around.prepared.Served()}
	if around.base != nil {
		spec.ServedTree = around.base.dir // a change edits no script or configuration of a service
	}
	for i, c := range r.req.Commands {
		dir := ""
		if c.Workdir != nil {
			dir = *c.Workdir
		}
		spec.Commands = append(spec.Commands, sandbox.Command{
			// Without the dashes a command that begins with one would be options of the shell.
			Argv: []string{"sh", "-c", "--", c.Cmd}, Dir: dir, ContinueOnFailure: c.ContinueOnFail, Stdout: r.streams[2*i], Stderr: r.streams[2*i+1],
		})
	}
	return around.sandbox.Run(ctx, spec)
}

// limits are what the job asked for, within what binds it. What it says nothing
// about is the usual, and never more than that.
func (r *sandboxRun) limits() sandbox.Limits {
	n := r.req.Needs()
	l := sandbox.Limits{CPUsMilli: bounded(n.CPUMillis, r.caps.CPUMillis), MemoryMB: bounded(n.MemoryMB, r.caps.MemoryMb),
		DiskMB: bounded(cmp.Or(n.DiskMB, sandbox.DefaultDiskMB), r.caps.DiskMb), Pids: bounded(cmp.Or(r.caps.Pids, sandbox.DefaultPids), 0),
		Wall: time.Duration(bounded(n.TimeoutSecs, r.caps.TimeoutSecs)) * time.Second}
	return l
}

// fill takes over what the sandbox saw.
func (r *sandboxRun) fill(resp *job.SandboxRunResponse, result *sandbox.Result) {
	resp.Status, resp.EnvInfo.ImageDigest, resp.EnvInfo.Layers = job.Success, r.req.Sandbox.ImageDigest, r.layers
	resp.EnvInfo.Services = r.services
	for i, c := range result.Commands {
		out, errs := r.streams[2*i], r.streams[2*i+1]
		if why := killedFor(c, result, r.limits(), i == len(result.Commands)-1); why != "" {
			errs.explain(why)
		}
		if lost := c.Lost(); lost != "" && !c.TimedOut {
			// What the command says of the tree is worth nothing, whichever way it came out.
			errs.explain(string(reason.ServiceEnded) + ": " + lost)
			c.ExitCode = refusedExit
		}
		resp.Runs = append(resp.Runs, job.Run{
			Cmd: r.req.Commands[i].Cmd, ExitCode: int32(c.ExitCode),
			DurationMS:   uint64(max(0, c.Duration.Milliseconds())),
			StdoutSHA256: out.digest(), StderrSHA256: errs.digest(), StdoutPreview: out.preview(), StderrPreview: errs.preview(),
		})
		if c.TimedOut {
			resp.Status = job.Timeout
		} else if c.ExitCode != 0 && resp.Status == job.Success {
			resp.Status = job.Failed
		}
	}
	l := r.limits()
	resp.Caps = &job.CapsApplied{CPUMillis: int64(l.CPUsMilli), MemoryMB: int64(l.MemoryMB), DiskMB: int64(l.DiskMB), Pids: int64(l.Pids),
		TimeoutSecs: int64(l.Wall / time.Second), Network: job.NetworkNone}
	resp.Usage = &job.Usage{CPUMillis: result.Usage.CPUMillis, PeakMemoryBytes: result.Usage.PeakMemoryBytes,
		WallMillis: result.Usage.WallMillis}
	for _, c := range result.Caps {
		// A limit that is not enforced is none.
		switch {
		case c.Enforced:
		case c.Name == "cpu":
			resp.Caps.CPUMillis = 0
		case c.Name == "memory":
			resp.Caps.MemoryMB = 0
		case c.Name == "disk":
			resp.Caps.DiskMB = 0
		case c.Name == "pids":
			resp.Caps.Pids = 0
		}
		if c.Name == "disk" && c.Observed > 0 {
			resp.Usage.DiskWriteBytes = c.Observed
		}
	}
}

// unserved reports whether a service could not be started for a command, before which
// others may have run.
func unserved(err error) bool {
	code := reason.CodeOf(err)
	return code == reason.ServiceFailed || code == reason.ServiceNotReady
}

// refuse answers a job that asks for what it cannot have: its next command, of most
// jobs the first, fails before it starts.
func (r *sandboxRun) refuse(resp *job.SandboxRunResponse, err error) {
	n := len(resp.Runs)
	out, s := r.streams[2*n], r.streams[2*n+1]
	s.explain(messageOf(err))
	resp.EnvInfo.ImageDigest = r.req.Sandbox.ImageDigest // the refused command ran in no image
	resp.Status = job.Failed
	resp.Runs = append(resp.Runs, job.Run{Cmd: r.req.Commands[n].Cmd, ExitCode: refusedExit,
		StdoutSHA256: out.digest(), StderrSHA256: s.digest(), StderrPreview: s.preview()})
}

// messageOf is the message without what it was caused by: causes may tell
// paths of this host.
func messageOf(err error) string {
	if e, ok := errors.AsType[*reason.Error](err); ok {
		return string(e.Code) + ": " + e.Message
	}
	return "the job could not begin"
}

func (r *sandboxRun) closeStreams() {
	for _, s := range r.streams {
		_ = s.file.Close() // synced where it matters
	}
}

func (d *Daemon) provenance(at time.Time) job.Provenance {
	seconds := at.Unix()
	return job.Provenance{ModelID: "none", ExecutedAt: &seconds}
}

// describe is the environment manifest's part about this machine.
func (d *Daemon) describe() *job.ProviderInfo {
	return &job.ProviderInfo{ID: d.id.ProviderID, Version: d.version, OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernel()}
}

// platform is the part about the sandbox.
func (d *Daemon) platform() *job.SandboxInfo {
	s := d.driver.Describe()
	return &job.SandboxInfo{Driver: s.Driver, Version: s.Version, Layer: s.Layer, NotEnforced: s.NotEnforced, Config: s.Config}
}
