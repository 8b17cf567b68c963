package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"remit/proof/reason"
)

// Issue is an issue as its forge tells it: written by strangers, and read as text.
type Issue struct {
	Number    int      `json:"number"`
	URL       string   `json:"url"`
	Title     string   `json:"title"`
	Author    string   `json:"author"`
	Labels    []string `json:"labels"`
	Assignees []string `json:"assignees"`
	Body      string   `json:"-"`
	Closed    bool     `json:"-"`
}

// issue is its form at both forges.
type issue struct {
	Number    int     `json:"number"`
	Title     string  `json:"title"`
	Body      string  `json:"body"`
	State     string  `json:"state"`
	Labels    []label `json:"labels"`
	Assignees []user  `json:"assignees"`
	User      user    `json:"user"`
	Pull      *any    `json:"pull_request"` // of what is none
}

type user struct {
	Login string `json:"login"`
}

// label is one of an issue or a repository. GitHub may write one as its name alone.
type label struct {
	ID   int64
	Name string
}

// UnmarshalJSON reads both forms.
func (l *label) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &l.Name) == nil {
		return nil
	}
	var doc struct {
		ID   int64  `json:"id"`
		Name string `json:"name"`
	}
	err := json.Unmarshal(text, &doc)
	l.ID, l.Name = doc.ID, doc.Name
	return err
}

func (i *issue) told(a Address) Issue {
	out := Issue{Number: i.Number, URL: a.Issue(i.Number), Title: i.Title, Author: i.User.Login, Labels: []string{}, Assignees: []string{},
		Body: i.Body, Closed: i.State != "open"}
	for _, l := range i.Labels {
		out.Labels = append(out.Labels, l.Name)
	}
	for _, u := range i.Assignees {
		out.Assignees = append(out.Assignees, u.Login)
	}
	return out
}

// Issue is the page of an issue.
func (a Address) Issue(number int) string { return fmt.Sprintf("%s/issues/%d", a, number) }

// ParseIssue reads the address of the page of an issue. It looks the same at both kinds
// of forges, so kind says which it is; "" is enough at github.com.
func ParseIssue(kind Kind, text string) (a Address, number int, err error) {
	repository, word, number := page(text)
	if word != "issues" {
		return a, 0, reason.Errorf(reason.ForgeUnknown, "%.200q is no address of an issue", text).
			WithHint("write https://HOST/OWNER/NAME/issues/N")
	}
	a, err = ParseAddress(cmp.Or(kind, GitHub), repository)
	if err == nil && kind == "" && !a.Public() {
		err = reason.Errorf(reason.ForgeUnknown, "the address does not say which interface %s has", a.Web).
			WithHint("add --forge-kind github or --forge-kind gitea")
	}
	return a, number, err
}

// Issue asks for one issue.
func (c *Client) Issue(ctx context.Context, number int) (Issue, error) {
	var doc issue
	if err := c.get(ctx, c.path(fmt.Sprintf("/issues/%d", number)), &doc); err != nil {
		return Issue{}, err
	}
	switch {
	case doc.Number != number || doc.Title == "":
		return Issue{}, unreachable("its answer about issue %d has no title, or is about another one", number)
	case doc.Pull != nil:
		return Issue{}, reason.Errorf(reason.ForgeUnknown, "%d is a pull request, and no issue", number).
			WithHint("`remit check --pr %d` verifies it", number)
	}
	return doc.told(c.Address), nil
}

// Issues lists the open issues that have all the labels and the assignee, "" for any:
// the newest first, at most so many.
func (c *Client) Issues(ctx context.Context, labels []string, assignee string, most int) ([]Issue, error) {
	q := url.Values{"state": {"open"}}
	if len(labels) > 0 {
		q.Set("labels", strings.Join(labels, ","))
	}
	if assignee != "" {
		q.Set(map[Kind]string{GitHub: "assignee", Gitea: "assigned_by"}[c.Kind], assignee)
	}
	if c.Kind == Gitea {
		q.Set("type", "issues")
	}
	out := []Issue{}
	err := eachPage(ctx, c, "/issues", q, func(list []issue) bool {
		for _, doc := range list {
			i := doc.told(c.Address)
			// Asked again here: a forge that does not know a filter leaves it out.
			if doc.Pull != nil || len(out) == most || assignee != "" && !slices.ContainsFunc(i.Assignees, func(name string) bool { return strings.EqualFold(name, assignee) }) {
				continue
			}
			if !slices.ContainsFunc(labels, func(want string) bool {
				return !slices.ContainsFunc(i.Labels, func(l string) bool { return strings.EqualFold(l, want) })
			}) {
				out = append(out, i)
			}
		}
		return len(out) >= most
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// SetLabel sets a label of an issue or pull request, and makes it where the repository
// has none of this name.
func (c *Client) SetLabel(ctx context.Context, number int, name string) (changed bool, err error) {
	if found, err := c.labelled(ctx, number, name); found != nil || err != nil {
		return false, err
	}
	of, err := c.labelOf(ctx, name)
	if err != nil {
		return false, err
	}
	doc := map[string]any{"labels": []string{name}}
	if c.Kind == Gitea {
		doc["labels"] = []int64{of.ID}
	}
	return true, c.create(ctx, c.path(fmt.Sprintf("/issues/%d/labels", number)), doc, nil, func() (bool, error) {
		found, err := c.labelled(ctx, number, name)
		return found != nil, err
	})
}

// RemoveLabel takes a label of an issue away, if it is there.
func (c *Client) RemoveLabel(ctx context.Context, number int, name string) error {
	return c.again(ctx, func() error {
		found, err := c.labelled(ctx, number, name)
		if found == nil || err != nil {
			return err
		}
		which := url.PathEscape(found.Name)
		if c.Kind == Gitea {
			which = fmt.Sprint(found.ID)
		}
		return c.once(ctx, http.MethodDelete, c.path(fmt.Sprintf("/issues/%d/labels/%s", number, which)), nil, nil)
	})
}

func (c *Client) labelled(ctx context.Context, number int, name string) (*label, error) {
	var list []label
	err := c.get(ctx, c.path(fmt.Sprintf("/issues/%d/labels?per_page=100&limit=50", number)), &list)
	return named(list, name), err
}

func named(list []label, name string) *label {
	if i := slices.IndexFunc(list, func(l label) bool { return strings.EqualFold(l.Name, name) }); i >= 0 {
		return &list[i]
	}
	return nil
}

// labelColour is that of a label that is made here.
const labelColour = "5319e7"

// labelOf is a label of the repository, made if it is not there.
func (c *Client) labelOf(ctx context.Context, name string) (label, error) {
	var made label
	find := func() (there bool, err error) {
		err = eachPage(ctx, c, "/labels", url.Values{}, func(list []label) bool {
			found := named(list, name)
			if there = found != nil; there {
				made = *found
			}
			return there
		})
		return there, err
	}
	err := c.create(ctx, c.path("/labels"), map[string]string{"name": name, "color": labelColour, "description": "set by remit"}, &made, find)
	var refused *refusedError
	if errors.As(err, &refused) { // it was made meanwhile
		if found, again := find(); found || again != nil {
			return made, again
		}
	}
	return made, err
}

// CommitOf is what a forge says of a commit, which no branch has to reach.
func (c *Client) CommitOf(ctx context.Context, id string) (message string, at time.Time, err error) {
	type said struct {
		Message   string `json:"message"`
		Committer struct {
			Date time.Time `json:"date"`
		} `json:"committer"`
	}
	var doc struct {
		said
		Commit said `json:"commit"` // Gitea's place for it
	}
	if err = c.get(ctx, c.path("/git/commits/"+id), &doc); err != nil {
		return "", at, err
	}
	if doc.Commit.Message != "" {
		doc.said = doc.Commit
	}
	return doc.Message, doc.Committer.Date, nil
}
