package evidence

import (
	"remit/proof/reason"
)

// The engine's raw output, as every session of a started engine has it.
const (
	engineStdout = BackendDir + "/stdout.log"
	engineStderr = BackendDir + "/stderr.log"
)

// checkOutput holds the digests that engine.run has of its outputs against the
// artifacts that hold them.
func (r *run) checkOutput() []reason.Finding {
	if r.engine == nil || !r.engine.ProcessStarted || r.engine.OutputExceeded || r.redacted() {
		return nil
	}
	var out []reason.Finding
	passes := r.completed != nil && r.completed.Status == StatusPass
	for _, s := range []struct {
		path, sha256 string
		bytes        int64
	}{{engineStdout, r.engine.StdoutSHA256, r.engine.StdoutBytes}, {engineStderr, r.engine.StderrSHA256, r.engine.StderrBytes}} {
		found := false
		for _, a := range r.artifacts {
			if a.Path != s.path {
				continue
			}
			found = true
			if (a.SHA256 != s.sha256 || a.Bytes != s.bytes) && !r.wroteShort() {
				out = append(out, reason.Finding{Code: reason.OutputMismatch, Path: s.path, Detail: "is not the output that engine.run has the digest of"})
			}
		}
		if !found && passes {
			out = append(out, reason.Finding{Code: reason.OutputMismatch, Path: s.path, Detail: "is not recorded, and the engine ran"})
		}
	}
	return out
}

// wroteShort reports whether an artifact could not be written in full.
func (r *run) wroteShort() bool {
	for _, b := range r.blockers {
		if b.Code == reason.ArtifactWriteFailure {
			return true
		}
	}
	return false
}
