package harness

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/depend"
	"remit/work/sandbox"
	"remit/work/verify"
)

// What the services of a run printed, one file for the engine and one for all runs
// of the verifier. Each command has a line for each of its services, and the
// beginning and the end of what that printed:
//
//	=== head tree=unedited repetition=1 command=1 service=db ready_ms=812 bytes=5120 kept=5120
//
// The line says how many bytes follow, so that no output can imitate one.
const (
	engineServices   = evidence.BackendDir + "/services.log"
	verifierServices = "services.log"

	maxServiceLogs = 4 << 20 // of one file; behind that there are lines only
)

// serve has what was prepared stand beside the services of the environment, whose
// variables every command and service sees.
func serve(env task.Environment, prepared *depend.Prepared) *depend.Prepared {
	if len(env.Services) == 0 {
		return prepared
	}
	all := maps.Clone(prepared.Env)
	if all == nil {
		all = map[string]string{}
	}
	for name, value := range env.Variables() {
		if _, ours := prepared.Env[name]; !ours {
			all[name] = value
		}
	}
	prepared.Env = all
	for _, s := range env.Services {
		prepared.Services = append(prepared.Services, sandbox.Service{
			Name: s.Name, Prepare: s.Prepare, Run: s.Run, Ready: s.Ready, Env: all, Timeout: s.Timeout()})
	}
	return prepared
}

// servable refuses services that would not be started, before anything costs.
func servable(env task.Environment, d sandbox.Driver) error {
	switch {
	case len(env.Services) == 0:
		return nil
	case d != nil && d.Describe().Driver == sandbox.DriverNone:
		return reason.Errorf(reason.ServiceFailed, "the policy has services, and without a sandbox they would listen on this host and outlive the run").
			WithHint("leave --sandbox %s out", sandbox.DriverNone)
	}
	return nil
}

// serviceFacts are services as the journal has them.
func serviceFacts(services []task.Service) ([]evidence.EnvironmentService, error) {
	var out []evidence.EnvironmentService
	for _, s := range services {
		digest, err := s.Digest()
		if err != nil {
			return nil, fmt.Errorf("digesting service %s: %w", s.Name, err)
		}
		out = append(out, evidence.EnvironmentService{Name: s.Name, SHA256: digest})
	}
	return out, nil
}

// servicesDiffer says how services differ from those of before, "" if they do not.
func servicesDiffer(was, now []evidence.EnvironmentService) string {
	if len(was) != len(now) {
		return fmt.Sprintf("the run had %d service(s), and here are %d", len(was), len(now))
	}
	for i := range now {
		if was[i] != now[i] {
			return fmt.Sprintf("service %s is defined otherwise than in the run", now[i].Name)
		}
	}
	return ""
}

// serviceLog collects what services print.
type serviceLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// add takes what the services of one command printed. Phases may go on side by side.
func (l *serviceLog) add(of verify.ServicesOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range of.Services {
		kept := s.Log
		if l.text.Len()+len(kept) > maxServiceLogs {
			kept = ""
		}
		ended := ""
		if s.Ended {
			ended = fmt.Sprintf(" ended=%d", s.ExitCode)
		}
		fmt.Fprintf(&l.text, "=== %s tree=%s repetition=%d command=%d service=%s ready_ms=%d%s bytes=%d kept=%d\n", of.Phase, of.Tree,
			of.Repetition, of.Command, s.Name, s.Ready/time.Millisecond, ended, s.LogBytes, len(kept))
		l.text.WriteString(kept)
		l.text.WriteByte('\n')
	}
}

// keepServiceLog writes one of the two files, if there is anything to write.
func (r *run) keepServiceLog(name string, l *serviceLog) error {
	if l.text.Len() == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(r.session.Dir, filepath.FromSlash(name)), l.text.Bytes(), 0o600); err != nil {
		return writeFailure(name, err)
	}
	return r.recordArtifact(name)
}

// keepEngineServices keeps the logs of the services that the engine had, and says if one
// was over before the engine was: its own tests may have failed for that.
func (r *run) keepEngineServices(res *sandbox.Result) error {
	if res == nil {
		return nil
	}
	l := &serviceLog{}
	for i, c := range res.Commands {
		if lost := c.Lost(); lost != "" {
			first, _, _ := strings.Cut(lost, "\n")
			r.tell("services", "failed", r.scrub("while the engine worked "+first))
		}
		l.add(verify.ServicesOf{Phase: "engine", Tree: "engine", Repetition: 1, Command: i + 1, Services: c.Services})
	}
	return r.keepServiceLog(engineServices, l)
}
