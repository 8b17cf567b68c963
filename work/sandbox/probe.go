//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// describe fills in what is known before the probe.
func describe(path string) (Description, error) {
	digest, err := fileDigest(path)
	if err != nil {
		return Description{}, fmt.Errorf("sandbox: %w", err)
	}
	d := Description{
		Driver: DriverBwrap, Root: os.Geteuid() == 0,
		Config: map[string]string{"bwrap_sha256": digest, "run_uid": strconv.Itoa(runUID), "workspace": WorkspacePath},
	}
	if filter := seccompProgram(); filter != nil {
		d.Config["seccomp_sha256"] = fmt.Sprintf("sha256:%x", sha256.Sum256(filter))
	} else {
		d.NotEnforced = append(d.NotEnforced, "seccomp: no filter for this architecture")
	}
	if !d.Root {
		d.NotEnforced = append(d.NotEnforced, notHeldForLogin)
		if kept := keptGroups(); kept != "" {
			d.NotEnforced = append(d.NotEnforced, kept)
		}
	}
	return d, nil
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// The scripts of the probe. The negative one ends with 0 only if each attempt
// was refused.
const (
	probeWorks   = `echo ok >probe && read x <probe && [ "$x" = ok ] && [ "$(cat base)" = base ] && [ "$(id -u)" = "$1" ]`
	probeRefused = `(: >/usr/remit-probe) 2>/dev/null && exit 11
(: >/remit-probe) 2>/dev/null && exit 12
[ -e "$1" ] && exit 13
[ -r /etc/shadow ] && exit 14
[ "$(ls /proc/self/fd | wc -l)" -le 4 ] || exit 15
exit 0`
)

// probe runs a command, one that must work and one whose attempts must fail,
// and notes what the host cannot enforce.
func (d *bwrap) probe(ctx context.Context, stateDir string) error {
	dir, err := os.MkdirTemp(stateDir, "remit-probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // ours, and nothing hostile was in it
	lower, canary := filepath.Join(dir, "lower"), filepath.Join(dir, "canary")
	if err := os.Mkdir(lower, 0o755); err != nil {
		return err
	}
	for path, text := range map[string]string{filepath.Join(lower, "base"): "base\n", canary: "secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	limits := DefaultLimits()
	limits.Wall, limits.OutputBytes = 20*time.Second, 64<<10
	r, err := d.run(ctx, Spec{
		Lower: lower, Limits: limits, Capture: true, SpoolDir: dir,
		Commands: []Command{
			{Argv: []string{"/bin/true"}, Stdout: &out, Stderr: &out},
			{Argv: []string{"/bin/sh", "-c", probeWorks, "sh", strconv.Itoa(runUID)}, Stdout: &out, Stderr: &out},
			{Argv: []string{"/bin/sh", "-c", probeRefused, "sh", canary}, Stdout: &out, Stderr: &out},
		},
	})
	if err != nil {
		return err
	}
	result := r.result
	for i, name := range []string{"/bin/true", "a command that must work", "the attempts that must be refused"} {
		if i >= len(result.Commands) {
			return fmt.Errorf("%s was not reached", name)
		}
		if c := result.Commands[i]; !c.Started || c.ExitCode != 0 {
			return fmt.Errorf("%s ended with exit code %d: %s", name, c.ExitCode, out.String())
		}
	}
	if len(result.Changes) != 1 || result.Changes[0].Path != "probe" {
		return fmt.Errorf("the collected changes are wrong: %d instead of 1", len(result.Changes))
	}
	if text, err := os.ReadDir(lower); err != nil || len(text) != 1 {
		return fmt.Errorf("the base tree was written to")
	}
	d.desc.Layer = result.Layer
	d.desc.Config["go_build_cache"] = r.built.Cache
	if r.built.LayerNote != "" {
		d.desc.Config["layer_note"] = r.built.LayerNote
	}
	if r.built.LoginNote != "" {
		d.desc.NotEnforced = append(d.desc.NotEnforced, r.built.LoginNote)
	}
	for _, c := range result.Caps {
		if !c.Enforced {
			d.desc.NotEnforced = append(d.desc.NotEnforced, c.Name+": "+c.How)
		}
	}
	return nil
}
