package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"remit/proof/evidence"
	"remit/proof/reason"
)

// markers are files in backend/ that say why an engine or what it depends on
// could not do its work, for a reader who looks at the raw output first.
var markers = map[reason.Code]string{
	reason.ProviderUnavailable: "provider-unavailable.txt",
	// Why a program that the user names does not start: the same fact, with a closer code.
	reason.ProgramNotFound:      "provider-unavailable.txt",
	reason.ProgramNotExecutable: "provider-unavailable.txt",
	reason.ProgramLineEndings:   "provider-unavailable.txt",
	reason.InterpreterNotFound:  "provider-unavailable.txt",

	reason.Timeout:             "provider-timeout.txt",
	reason.ModelNotAdmitted:    "provider-model-not-admitted.txt",
	reason.LocalConfigMissing:  "provider-local-config-unavailable.txt",
	reason.ResponseShape:       "provider-response-shape.txt",
	reason.AgentProtocolFailed: "provider-agent-protocol.txt",
	reason.AuthUnavailable:     "provider-auth-unavailable.txt",
	reason.ModelMismatch:       "provider-model-mismatch.txt",
	reason.ProviderRefused:     "provider-refused.txt",
	reason.QuotaExhausted:      "provider-quota-exhausted.txt",
	reason.BudgetExhausted:     "provider-budget-exhausted.txt",
	reason.LifecycleTimeout:    "provider-lifecycle-timeout.txt",
	reason.Cancelled:           "run-cancelled.txt",
}

// mark writes the markers of the run's blockers. What the verifier ran into is
// not the engine's.
func (r *run) mark() error {
	for _, e := range r.w.Entries() {
		if e.Name == evidence.StepVerification {
			continue
		}
		for _, b := range evidence.BlockersOf(e) {
			name, marked := markerOf(b)
			if !marked || r.artifact[evidence.BackendDir+"/"+name] {
				continue
			}
			if err := r.writeMarker(evidence.BackendDir+"/"+name, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// reasoningOnly marks an answer without anything in it but what the model
// thought: of the wrong shapes the one that has a name of its own.
const reasoningOnly = "provider-reasoning-only.txt"

func markerOf(b evidence.Blocker) (name string, marked bool) {
	if b.Code == reason.ResponseShape && strings.Contains(b.Message, "reasoning") {
		return reasoningOnly, true
	}
	name, marked = markers[b.Code]
	return name, marked
}

func (r *run) writeMarker(name string, b evidence.Blocker) error {
	path := filepath.Join(r.session.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return writeFailure(name, err)
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s\n%s\n", b.Code, b.Message), 0o600); err != nil {
		return writeFailure(name, err)
	}
	return r.recordArtifact(name)
}
