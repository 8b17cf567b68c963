package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// applyTimeout bounds one git apply inside the sandbox.
const applyTimeout = time.Minute

// patchPaths lists the paths that a patch touches, in its order.
func patchPaths(patch string) ([]string, error) {
	out, err := gitApply("--numstat", "-z", patch)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w: %s", err, out)
	}
	var paths []string
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if fields := strings.SplitN(record, "\t", 3); len(fields) == 3 {
			paths = append(paths, fields[2])
		}
	}
	return paths, nil
}

// applyPath applies the part of the patch that touches one path.
func applyPath(patch, path string) (output string, code int) {
	out, err := gitApply("--include="+escapeGlob(path), "--whitespace=nowarn", patch)
	if err == nil {
		return out, 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, exit.ExitCode()
	}
	return err.Error(), 127
}

// gitApply runs git apply in the working directory, which is no repository.
func gitApply(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", append([]string{"apply"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// escapeGlob makes a path a pattern that matches only itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
