//go:build linux

package sandbox

import (
	"io"
	"time"

	"remit/proof/reason"
)

// serviceLogs carry what the services of one command print to this process, which
// keeps a part of it. It must not stop reading: a service waits when its pipe is full.
type serviceLogs struct {
	out   *outputs
	texts []*excerpt
}

func (r *run) openServiceLogs(stop func()) (*serviceLogs, error) {
	l := &serviceLogs{}
	var writers []io.Writer
	for range r.spec.Services {
		l.texts = append(l.texts, &excerpt{})
		writers = append(writers, l.texts[len(l.texts)-1])
	}
	var err error
	l.out, err = openOutputs(r.spec.Limits.OutputBytes, stop, writers...)
	return l, err
}

// failure is the error of a service that was not started.
func (l *serviceLogs) failure(services []Service, f *serviceFailure) error {
	if f.Index < 0 || f.Index >= len(services) {
		return reason.Errorf(reason.InfrastructureFault, "sandbox: the keeper names a service that there is not")
	}
	s := services[f.Index]
	said := endOf(l.texts[f.Index].String())
	switch {
	case f.Step == stepReady:
		return reason.Errorf(reason.ServiceNotReady, "sandbox: service %s was not ready within %s: %q did not succeed; %s", s.Name, s.Timeout, s.Ready, said).
			WithHint("try the lines by hand: data and sockets belong below /tmp, and the address is 127.0.0.1; timeout of the service can be raised")
	case f.Late:
		return reason.Errorf(reason.ServiceFailed, "sandbox: preparing service %s took longer than %s; %s", s.Name, s.Timeout, said).
			WithHint("raise timeout of the service, or prepare less")
	case f.Step == stepPrepare:
		return reason.Errorf(reason.ServiceFailed, "sandbox: preparing service %s ended with exit code %d; %s", s.Name, f.Exit, said).
			WithHint("try %q by hand: the repository is read-only there, and only /tmp can be written", s.Prepare)
	}
	return reason.Errorf(reason.ServiceFailed, "sandbox: service %s ended before it was ready, with exit code %d; %s", s.Name, f.Exit, said).
		WithHint("have it stay in the foreground: a program that goes to the background is stopped with the line that started it")
}

// flooded is the error of services that were stopped before a command began.
func (l *serviceLogs) flooded() error {
	return reason.Errorf(reason.ServiceFailed, "sandbox: before they were ready the services wrote more than the output limit of %d bytes", l.out.limit).
		WithHint("have them log less")
}

// results say what became of the services behind the command.
func (l *serviceLogs) results(services []Service, answers []serviceAnswer) []ServiceResult {
	var out []ServiceResult
	for i, s := range services {
		if i >= len(answers) {
			break // the time was over before all of them were ready
		}
		a := answers[i]
		out = append(out, ServiceResult{Name: s.Name, Ended: a.Ended, ExitCode: a.Exit, OutputExceeded: l.out.exceeded.Load(),
			Ready: time.Duration(a.Micros) * time.Microsecond, LogBytes: l.texts[i].total, Log: l.texts[i].String()})
	}
	return out
}
