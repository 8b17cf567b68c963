//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"remit/proof/reason"
	"remit/work/tree"
)

// run is one use of a keeper, the same for all drivers.
type run struct {
	spec    Spec
	conf    *setup
	userns  []*os.File
	group   *group
	held    map[string]string // caps that cgroups hold
	scan    bool
	collect time.Duration // that reading the changes, or the build cache, may take
	kept    *os.Root      // Spec.KeepCache, nil if there is none

	session *session
	built   answer
	result  *Result
	begun   time.Time
	cpu     time.Duration
	rss     int64
	disk    int64
	peakOut int64
}

// do runs everything; the result holds what was reached even with an error.
func (r *run) do(ctx context.Context) error {
	var err error
	if r.session, err = obtainKeeper(r.conf.Confined); err != nil {
		return startError(err)
	}
	defer r.session.end()
	if r.scan {
		if err := refuseSockets(ctx, r.spec); err != nil {
			return err
		}
	}
	if r.built, err = r.session.build(ctx, r.conf, r.userns, r.spec.Apply); err != nil {
		return err
	}
	if r.spec.Loopback != nil {
		l, err := r.listener(ctx)
		if err != nil {
			return err
		}
		defer l.end()
		r.spec.Loopback(l)
	}
	r.begun, r.result = time.Now(), &Result{Layer: r.built.Layer, GoCache: GoCache{Lent: r.built.Lent, NotLent: r.built.NotLent}}
	runErr := r.commands(ctx)
	if r.spec.More && r.conf.Confined && ctx.Err() == nil {
		startStandby() // ready when the next Run begins, and not in the way of a command
	}
	if r.spec.Capture {
		// Also after a cancellation: work that was paid for is kept.
		runErr = errors.Join(runErr, r.capture())
	}
	r.account()
	if r.kept != nil {
		r.keepCache(ctx, runErr)
	}
	return runErr
}

func startError(err error) error {
	e := reason.Errorf(reason.SandboxUnavailable, "sandbox: start keeper: %w", err)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return e.WithHint("this host does not let an ordinary user make user namespaces: look at the sysctls " +
			"kernel.unprivileged_userns_clone, user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns")
	}
	return e
}

// refuseSockets looks for unix sockets in everything that the caller lends.
func refuseSockets(ctx context.Context, s Spec) error {
	lent := []string{s.Lower}
	if s.ServedTree != "" {
		lent = append(lent, s.ServedTree)
	}
	for _, b := range s.Binds {
		if info, err := os.Stat(b.Host); err == nil && info.IsDir() {
			lent = append(lent, b.Host)
		}
	}
	for _, dir := range lent {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		found, err := tree.Sockets(ctx, root)
		root.Close()
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		if len(found) > 0 {
			return reason.Errorf(reason.SandboxUnavailable, "sandbox: unix socket %q in %q would be a way out", found[0], dir).
				WithHint("remove the socket, or stop the program that listens on it")
		}
	}
	return nil
}

func (r *run) commands(ctx context.Context) error {
	for _, c := range r.spec.Commands {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		wall := r.spec.wallFor(c, time.Since(r.begun))
		if wall <= 0 {
			r.result.Commands = append(r.result.Commands, CommandResult{TimedOut: true, ExitCode: -1})
			return nil
		}
		done, err := r.command(ctx, c, wall)
		if done != nil {
			r.result.Commands = append(r.result.Commands, *done)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if r.spec.StopOnFailure && !c.ContinueOnFailure && (done.ExitCode != 0 || !done.Started) {
			return nil
		}
	}
	return nil
}

// command runs one command to its end.
func (r *run) command(ctx context.Context, c Command, wall time.Duration) (*CommandResult, error) {
	var stopped atomic.Bool
	stop := func() {
		stopped.Store(true)
		_ = r.session.send(request{Op: opStop}) // a dead keeper needs none
	}
	merge := sameWriter(c.Stdout, c.Stderr)
	writers := []io.Writer{c.Stdout, c.Stderr}
	if merge {
		writers = writers[:1]
	}
	out, err := openOutputs(r.spec.Limits.OutputBytes, stop, writers...)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	logs, err := r.openServiceLogs(stop)
	if err != nil {
		out.closeAll()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	err = r.session.send(request{Op: opRun, Argv: c.Argv, Dir: c.Dir, Wall: wall.Microseconds(), Merge: merge})
	if err == nil {
		err = passFiles(int(r.session.pass.Fd()), append(out.writeEnds(), logs.out.writeEnds()...)...)
	}
	if err != nil {
		out.closeAll()
		logs.out.closeAll()
		return nil, r.session.lost(err)
	}
	out.begin()
	logs.out.begin()
	release := context.AfterFunc(ctx, stop)
	var a answer
	err = r.session.receive(&a, wall+answerGrace)
	release()
	outErr := errors.Join(out.finish(), logs.out.finish())
	if err != nil {
		return nil, err
	}
	if logs.out.exceeded.Load() && !a.Started {
		return nil, logs.flooded()
	}
	if a.NotServed != nil {
		return nil, logs.failure(r.spec.Services, a.NotServed)
	}
	done, err := r.ended(c, a, out, stopped.Load())
	if done != nil {
		done.Services = logs.results(r.spec.Services, a.Services)
	}
	if outErr != nil {
		err = errors.Join(err, reason.Errorf(reason.ArtifactWriteFailure, "sandbox: write output: %w", outErr))
	}
	return done, err
}

// ended turns the keeper's answer into a result. An end without a cause
// inside is an error of ours, never a failed command.
func (r *run) ended(c Command, a answer, out *outputs, stopped bool) (*CommandResult, error) {
	if a.Failure != nil {
		return nil, a.Failure.err("run command")
	}
	done := &CommandResult{
		Started: a.Started, ExitCode: a.Exit, TimedOut: a.TimedOut, OutputExceeded: out.exceeded.Load(),
		Duration: time.Duration(a.Micros) * time.Microsecond, StdoutBytes: out.pipes[0].count,
	}
	if len(out.pipes) > 1 {
		done.StderrBytes = out.pipes[1].count
	}
	r.cpu += time.Duration(a.CPUMicros) * time.Microsecond
	r.rss, r.disk = max(r.rss, a.MaxRSSBytes), max(r.disk, a.DiskBytes)
	r.peakOut = max(r.peakOut, out.used.Load())
	said := out.pipes[len(out.pipes)-1].head.String()
	switch {
	case a.Started:
		done.Signal = signalName(a.Exit)
	case a.Missing, strings.HasPrefix(said, "bwrap: execvp "), strings.HasPrefix(said, "bwrap: Can't chdir to "):
		done.ExitCode = 127
	case a.TimedOut, stopped:
		// Killed before it began, or with bwrap, which had no time to say how it
		// ended. What has printed had begun.
		if done.Started = out.used.Load() > 0 && !strings.HasPrefix(said, "bwrap: "); done.Started {
			done.Signal = signalName(a.Exit)
		}
	case r.group.observe().oomKills > 0: // the kernel chose bwrap itself
	default:
		return nil, reason.Errorf(reason.InfrastructureFault, "sandbox: set up command %q: exit code %d: %s",
			c.Argv[0], a.Exit, strings.TrimSpace(said))
	}
	return done, nil
}

// signalName decodes an exit code of 128+n.
func signalName(code int) string {
	if code <= 128 || code > 128+64 {
		return ""
	}
	return nameOf(syscall.Signal(code - 128))
}

func (r *run) capture() error {
	spool, err := tree.NewSpool(r.spec.SpoolDir)
	if err != nil {
		return reason.Errorf(reason.ArtifactWriteFailure, "sandbox: %w", err)
	}
	r.collect = collectStopped(r.collect, r.result.Commands)
	if r.result.Changes, err = r.session.collect(spool, r.collect); err != nil {
		spool.Discard()
		return fmt.Errorf("sandbox: collect changes: %w", err)
	}
	if len(r.spec.Layers) > 0 {
		if r.result.Layers, err = r.session.layerChanges(r.collect); err != nil {
			return errors.Join(fmt.Errorf("sandbox: compare the layers: %w", err), spool.Close())
		}
	}
	return spool.Close()
}
