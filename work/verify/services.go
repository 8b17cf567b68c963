package verify

import (
	"fmt"

	"remit/proof/reason"
	"remit/work/sandbox"
)

// ServicesOf are the services of one command of a run.
type ServicesOf struct {
	Phase, Tree         string
	Repetition, Command int // 1-based
	Services            []sandbox.ServiceResult
}

// tellServices passes on what the services of a view printed.
func (p *Plan) tellServices(j job, v view, result *sandbox.Result) {
	if p.OnServices == nil || result == nil {
		return
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	for i, c := range result.Commands {
		if len(c.Services) > 0 {
			p.OnServices(ServicesOf{j.phase, j.tree, j.repetition, v.first + i + 1, c.Services})
		}
	}
}

// lostService is the fault of a run in which a service was over before its command:
// whatever answered the tests from then on, if anything did, was not the service.
//
// On the base nothing can be said of the change then. On the patched tree, with the
// tests as they are, it can: the base phase has no result unless the same service
// was there to the end of the same commands. Where tests are edited, or a part of
// the change is taken back, the edit may be the cause, and where the kernel had to
// make room, the limit is.
func lostService(j job, v view, result *sandbox.Result) *reason.Finding {
	for i, c := range result.Commands {
		lost := c.Lost()
		if lost == "" {
			continue
		}
		f := &reason.Finding{Code: reason.ServiceEnded, Path: logName, Detail: fmt.Sprintf("while %q ran: %s", j.commands[v.first+i].given, lost)}
		switch {
		case result.OOMKilled:
			f.Code, f.Detail = reason.ResourceLimit, "a process was killed for lack of memory; "+f.Detail
		case j.phase == PhaseHead && (j.tree == TreeHead || j.tree == TreeUnedited):
			f.Code = reason.ServiceEndedByChange
		}
		return f
	}
	return nil
}
