package panel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"remit/law/admission"
	"remit/law/health"
	"remit/nexus/api"
	"remit/proof/reason"
)

// recordsPage is what was decided on the machine of the nexus.
type recordsPage struct {
	Records []recordLine
	Counts  []chip // by state, as filters
	State   string
	Soon    int // whose review is due within soon
}

// recordLine is one record.
type recordLine struct {
	admission.Line
	Mark, Word string
	Soon       bool
	Latest     admission.Past
}

// recordWords are the mark and the word of a state, in the order of the page.
var recordWords = []struct{ state, mark, word string }{{admission.Damaged, "fail", "Damaged"}, {admission.Stale, "block", "Stale"},
	{admission.Standing, "pass", "Stands"}, {admission.NotAdmitting, "none", "Admits nothing"}}

// soon is how long before its review a record is marked.
const soon = 14 * 24 * time.Hour

// ofMachine reads a document of the machine of the nexus, for who is at it. command
// shows it there.
func ofMachine[D any](r *http.Request, v *viewer, op api.Query[api.None, json.RawMessage], command string) (d D, err error) {
	if !v.Here {
		return d, reason.Errorf(reason.NotFound, "this nexus shows nothing of the machine that it runs on").
			WithHint("`%s` shows it there", command)
	}
	text, err := op.Get(r.Context(), v.client, api.None{})
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read what `%s` says: %w", command, err)
	}
	return d, nil
}

func (p *Panel) records(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	all, err := ofMachine[admission.Overview](r, v, api.GetAdmissions, "remit admit list")
	if err != nil {
		return nil, err
	}
	d, counts := recordsPage{State: clip(40, r.URL.Query().Get("state"))}, map[string]int{}
	for _, one := range all.Records {
		counts[one.State]++
		l := recordLine{Line: one, Mark: "none", Word: one.State, Soon: one.Due(p.opt.Clock().Add(soon))}
		for _, w := range recordWords {
			if w.state == one.State {
				l.Mark, l.Word = w.mark, w.word
			}
		}
		if len(one.History) > 0 {
			l.Latest = one.History[0]
		}
		if l.Soon {
			d.Soon++
		}
		if d.State == "" || d.State == one.State {
			d.Records = append(d.Records, l)
		}
	}
	d.Counts = []chip{{Name: "All", Count: len(all.Records), Href: "/records", On: d.State == ""}}
	for _, w := range recordWords {
		d.Counts = append(d.Counts, chip{Name: w.word, Mark: w.mark, Count: counts[w.state], Href: withQuery("/records", "state", w.state),
			On: d.State == w.state})
	}
	return &page{name: "records", Title: "Records", Nav: "records", Data: d}, nil
}

// healthPage is what the replica says of itself, and what the validators say of the
// machine that it runs on.
type healthPage struct {
	api.Health
	Ready   bool
	Uptime  string
	Read    int
	All     int
	Machine *health.Report // nil until it is asked for
}

func (p *Panel) health(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	got, err := api.GetHealth.Get(r.Context(), v.client, api.None{})
	if err != nil {
		return nil, err
	}
	_, notReady := api.GetReady.Get(r.Context(), v.client, api.None{})
	d := healthPage{Health: got, Ready: notReady == nil, Uptime: took(time.Duration(got.UptimeSeconds) * time.Second)}
	if v.home {
		list, all, err := p.opt.Home.List(r.Context())
		if err != nil {
			return nil, err
		}
		d.Read, d.All = len(list), all
	}
	if r.URL.Query().Has("check") {
		report, err := ofMachine[health.Report](r, v, api.GetMachineHealth, "remit health")
		if err != nil {
			return nil, err
		}
		d.Machine = &report
	}
	return &page{name: "health", Title: "Health", Nav: "health", Data: d}, nil
}

// Causes are those of one check.
func (d healthPage) Causes(check string) (out []health.Cause) {
	for _, c := range d.Machine.Causes {
		if c.Check == check {
			out = append(out, c)
		}
	}
	return out
}
