package panel

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/jobs"
	"remit/proof/reason"
)

// pageSize is how many runs a page lists.
const pageSize = 50

// filter is what a list of runs shows, as its address says.
type filter struct {
	From                                          string // home or nexus
	Status, Engine, Model, Code, Repository, Text string
	State, Outcome, Since, Until                  string   // of runs of the nexus
	Before                                        string   // the id behind which the page begins
	Wrong                                         []string // what the address has that cannot be
}

func filterOf(q url.Values) filter {
	get := func(name string) string { return clip(200, q.Get(name)) }
	f := filter{From: get("from"), Status: get("status"), Engine: get("engine"), Model: get("model"), Code: get("code"),
		Repository: jobs.RepositoryName(get("repository")), Text: get("q"), Before: get("before")}
	if f.From != "nexus" {
		if f.From != "" && f.From != "home" {
			f.Wrong = append(f.Wrong, fmt.Sprintf("from=%s is no list of runs: it is home or nexus. Those of this machine are shown.", f.From))
			f.From = ""
		}
		f.check()
	} else {
		f.State, f.Outcome, f.Since, f.Until = get("state"), get("outcome"), get("since"), get("until")
	}
	return f
}

// marks are the words of a status that an address may have, with the mark of each.
var marks = map[string]string{"": "", "pass": "pass", "fail": "fail", "block": "block", "blocked": "block", "run": "run", "running": "run"}

// sessionID is how the id of a session begins.
var sessionID = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-`)

// check takes out what an address cannot have, and says so.
func (f *filter) check() {
	mark, known := marks[strings.ToLower(f.Status)]
	if !known {
		f.Wrong = append(f.Wrong, fmt.Sprintf("There is no status %q: it is pass, fail, blocked or running. All are shown.",
			f.Status))
	}
	f.Status = mark
	if f.Before != "" && !sessionID.MatchString(f.Before) {
		f.Wrong = append(f.Wrong, fmt.Sprintf("before=%s is not the id of a session. The newest are shown.", f.Before))
		f.Before = ""
	}
}

// parts are what an address says of a filter.
func (f filter) parts() []chip {
	return []chip{{Name: "from", Value: f.From}, {Name: "status", Value: f.Status}, {Name: "state", Value: f.State}, {Name: "engine", Value: f.Engine},
		{Name: "model", Value: f.Model}, {Name: "code", Value: f.Code}, {Name: "repository", Value: f.Repository},
		{Name: "outcome", Value: f.Outcome}, {Name: "since", Value: f.Since}, {Name: "until", Value: f.Until}, {Name: "q", Value: f.Text}}
}

// With is the address of the list with one filter changed, from its beginning.
func (f filter) With(name, value string) string {
	q := url.Values{}
	for _, c := range f.parts() {
		q.Set(c.Name, c.Value)
	}
	q.Set(name, value)
	for key := range q {
		if q.Get(key) == "" {
			q.Del(key)
		}
	}
	if len(q) == 0 {
		return "/"
	}
	return "/?" + q.Encode()
}

// Chips are the filters that are set, with the address without each.
func (f filter) Chips() []chip {
	var out []chip
	for _, c := range f.parts() {
		if c.Value != "" && c.Name != "from" && c.Name != "status" {
			c.Href = f.With(c.Name, "")
			out = append(out, c)
		}
	}
	return out
}

// Hidden are the filters that a search keeps.
func (f filter) Hidden() []chip {
	return slices.DeleteFunc(f.parts(), func(c chip) bool { return c.Value == "" || c.Name == "q" })
}

// Kept are those that the form of a nexus's filters keeps.
func (f filter) Kept() []chip {
	typed := []string{"engine", "model", "code", "repository", "since", "until"}
	return slices.DeleteFunc(f.parts(), func(c chip) bool { return c.Value == "" || slices.Contains(typed, c.Name) })
}

// Any reports whether a filter is set.
func (f filter) Any() bool { return f.Status != "" || len(f.Chips()) > 0 }

// chip is one filter.
type chip struct {
	Name, Value, Href, Mark string
	Count                   int
	On                      bool
}

func (f filter) takes(s *Summary, words []string) bool {
	return (f.Engine == "" || s.Engine == f.Engine) && (f.Model == "" || s.Model == f.Model) && (f.Code == "" || s.Code == f.Code) &&
		(f.Repository == "" || s.Repository == f.Repository) && s.has(words)
}

// runsPage is the list of runs.
type runsPage struct {
	Filter   filter
	Statuses []chip
	Choices  []choice
	Groups   []group
	Next     string // address of the next page, "" for none
	Matching int
	Read     int
	All      int
	Waiting  []api.Approval
	Now      time.Time
}

// choice is a filter that one can set, with the values that there are.
type choice struct {
	Name   string
	Values []chip
}

// group is the attempts at one task that stand on a page.
type group struct {
	Title, Repository string
	Runs              []Summary
	Passed            int
	Compare           string
}

// runs lists the runs of this machine, or those of the authority.
func (p *Panel) runs(_ http.ResponseWriter, r *http.Request, v *viewer) (*page, error) {
	q := r.URL.Query()
	if !v.home {
		q.Set("from", "nexus")
	}
	f := filterOf(q)
	data := runsPage{Filter: f, Now: p.opt.Clock()}
	waiting, err := p.waiting(r, v)
	if err != nil {
		return nil, err
	}
	data.Waiting = waiting
	live := ""
	if f.From == "nexus" {
		err = p.nexusRuns(r, v, &data)
	} else {
		err, live = p.homeRuns(r, &data), liveTopic("home", "")
	}
	return &page{name: "runs", Title: "Runs", Nav: "runs", Live: live, Data: data}, err
}

// waiting are the approvals that the viewer may decide.
func (p *Panel) waiting(r *http.Request, v *viewer) ([]api.Approval, error) {
	if !v.MayDo(authority.ScopeApprove) {
		return nil, nil
	}
	pending := api.ApprovalStatus("requested")
	got, err := api.ListApprovals.Get(r.Context(), v.client, api.ListApprovalsParams{Status: &pending})
	if reason.CodeOf(err) == reason.ScopeMissing {
		return nil, nil
	}
	return got.Items, err
}

func (p *Panel) homeRuns(r *http.Request, data *runsPage) error {
	list, all, err := p.opt.Home.List(r.Context())
	if err != nil {
		return err
	}
	f := data.Filter
	words := strings.Fields(strings.ToLower(f.Text))
	counts := map[string]int{}
	var shown []Summary
	choices := map[string]map[string]int{"engine": {}, "model": {}, "code": {}, "repository": {}}
	for i := range list {
		s := &list[i]
		if !f.takes(s, words) {
			continue
		}
		mark := s.Mark()
		counts[mark]++
		choices["engine"][s.Engine]++
		choices["model"][s.Model]++
		choices["code"][s.Code]++
		choices["repository"][s.Repository]++
		if f.Status == "" || f.Status == mark {
			data.Matching++
			if (f.Before == "" || s.ID < f.Before) && len(shown) <= pageSize {
				shown = append(shown, *s)
			}
		}
	}
	data.Read, data.All = len(list), all
	total := 0
	for _, n := range counts {
		total += n
	}
	data.Statuses = []chip{{Name: "All", Count: total, Href: f.With("status", ""), On: f.Status == ""}}
	for _, mark := range []string{"pass", "fail", "block", "run"} {
		names := map[string]string{"pass": "Pass", "fail": "Fail", "block": "Blocked", "run": "Running"}
		data.Statuses = append(data.Statuses, chip{Name: names[mark], Mark: mark, Count: counts[mark], Href: f.With("status", mark),
			On: f.Status == mark})
	}
	data.Choices = choicesOf(f, choices)
	if len(shown) > pageSize {
		shown = shown[:pageSize]
		data.Next = withQuery(f.With("", ""), "before", shown[pageSize-1].ID)
	}
	data.Groups = groupsOf(shown)
	return nil
}

// withQuery adds a parameter to an address of ours.
func withQuery(address, name, value string) string {
	u, err := url.Parse(address)
	if err != nil { // made here
		return address
	}
	q := u.Query()
	q.Del("")
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// maxChoices bounds what a menu offers; more is found by the search.
const maxChoices = 20

func choicesOf(f filter, values map[string]map[string]int) []choice {
	var out []choice
	for _, name := range []string{"engine", "model", "code", "repository"} {
		c := choice{Name: name}
		delete(values[name], "")
		for value, n := range values[name] {
			c.Values = append(c.Values, chip{Name: value, Count: n, Href: f.With(name, value)})
		}
		slices.SortFunc(c.Values, func(a, b chip) int {
			if a.Count != b.Count {
				return b.Count - a.Count
			}
			return strings.Compare(a.Name, b.Name)
		})
		if c.Values = c.Values[:min(len(c.Values), maxChoices)]; len(c.Values) > 1 {
			out = append(out, c)
		}
	}
	return out
}

// groupsOf puts attempts at one task together, where the newest of them stands.
func groupsOf(list []Summary) []group {
	var out []group
	at := map[string]int{}
	for _, s := range list {
		key := s.Contract + "\n" + s.Repository + "\n" + s.Title + "\n" + s.Task
		i, known := at[key]
		if !known {
			i = len(out)
			at[key] = i
			out = append(out, group{Title: s.Title, Repository: s.Repository})
		}
		g := &out[i]
		g.Runs = append(g.Runs, s)
		if s.Status == "pass" {
			g.Passed++
		}
	}
	for i := range out {
		if len(out[i].Runs) > 1 {
			out[i].Compare = compareHref(out[i].Runs)
		}
	}
	return out
}

// maxCompared bounds how many runs a comparison shows.
const maxCompared = 6

func compareHref(list []Summary) string {
	var ids []string
	for _, s := range list[:min(len(list), maxCompared)] {
		ids = append(ids, s.ID)
	}
	q := url.Values{"run": ids}
	if list[0].Nexus != nil {
		q.Set("from", "nexus")
	}
	return "/compare?" + q.Encode()
}
