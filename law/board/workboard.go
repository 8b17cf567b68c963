package board

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"remit/law/yamldoc"
	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// WorkboardFile is the name of the workboard in its folder.
const WorkboardFile = "WORKBOARD.yaml"

const validated = "validated"

// ItemStatuses are the values of an item's status.
func ItemStatuses() []string { return []string{"candidate", "blocked", validated} }

// ItemTypes are the values of an item's type: work that an agent can finish
// alone, and work that a person has to be in.
func ItemTypes() []string { return []string{"AFK", "HITL"} }

// MaxItems bounds a workboard.
const MaxItems = 5_000

// workboard is WORKBOARD.yaml.
type workboard struct {
	required []string
	items    []*Item
	byID     map[string]*Item
}

// Item is one piece of work.
type Item struct {
	ID        string
	Title     string
	Type      string // one of [ItemTypes]
	Status    string // one of [ItemStatuses]
	BlockedBy []string
	Validator string // the command that checks the work; it is never started here
	Evidence  []Pointer
	ReviewBy  string // a day; "": none

	lines map[string]int
	line  int
}

// Pointer names a file of the folder that shows something.
type Pointer struct {
	Path   string // relative to the folder, with slashes
	SHA256 string
	Claims string // "pass" where the file must be a report that says pass

	line int
}

var itemID = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// parseWorkboard reads the workboard, nil after findings that leave none.
func parseWorkboard(src []byte, out *findings) *workboard {
	m := document(WorkboardFile, src, "workboard.syntax", reason.WorkboardInvalid, out)
	if m == nil {
		return nil
	}
	b := &workboard{byID: map[string]*Item{}}
	d := &decoder{file: WorkboardFile, rule: "workboard.fields", code: reason.WorkboardInvalid, out: out}
	lines := map[string]int{}
	d.mapping(m, lines, map[string]func(ast.Node){
		"required_statements": d.texts(&b.required),
		"items":               d.list(func(m *ast.MappingNode) { b.items = append(b.items, d.item(m)) }),
	})
	if len(b.required) == 0 && lines["required_statements"] > 0 {
		out.add(WorkboardFile, lines["required_statements"], "workboard.fields", reason.WorkboardInvalid, "required_statements: name at least one")
	}
	if len(b.items) > MaxItems {
		out.add(WorkboardFile, lines["items"], "workboard.fields", reason.WorkboardInvalid, "more than %d items", MaxItems)
		return nil
	}
	for _, item := range b.items {
		if first := b.byID[item.ID]; item.ID != "" && first != nil {
			out.add(WorkboardFile, item.line, "workboard.id", reason.WorkboardInvalid, "item %s stands on line %d already", item.ID, first.line)
			continue
		}
		b.byID[item.ID] = item
	}
	return b
}

func (d *decoder) item(m *ast.MappingNode) *Item {
	i := &Item{lines: map[string]int{}, line: yamldoc.PlaceOf(m).Line}
	d.mapping(m, i.lines, map[string]func(ast.Node){
		"id": d.line(&i.ID), "title": d.line(&i.Title), "type": d.line(&i.Type), "status": d.line(&i.Status), "blocked_by": d.texts(&i.BlockedBy),
		"validator": d.line(&i.Validator), "review_by": d.line(&i.ReviewBy),
		"evidence": d.list(func(m *ast.MappingNode) { i.Evidence = append(i.Evidence, d.pointer(m)) }),
	}, "blocked_by", "evidence", "review_by")
	return i
}

func (d *decoder) pointer(m *ast.MappingNode) Pointer {
	p := Pointer{line: yamldoc.PlaceOf(m).Line}
	d.mapping(m, map[string]int{}, map[string]func(ast.Node){
		"path": d.line(&p.Path), "sha256": d.line(&p.SHA256), "claims": d.line(&p.Claims),
	}, "claims")
	return p
}

// check judges items by themselves and by those that they name.
func (b *workboard) check(now time.Time, out *findings) {
	for _, i := range b.items {
		bad := func(field, rule string, code reason.Code, format string, args ...any) {
			out.add(WorkboardFile, max(i.lines[field], i.line), rule, code, "item %s: "+format, append([]any{i.ID}, args...)...)
		}
		oneOf := func(field, value string, words []string) {
			if value != "" && !slices.Contains(words, value) {
				bad(field, "workboard.fields", reason.WorkboardInvalid, "%s: %q is none of %s", field, value, strings.Join(words, ", "))
			}
		}
		oneOf("type", i.Type, ItemTypes())
		oneOf("status", i.Status, ItemStatuses())
		if i.ID != "" && !itemID().MatchString(i.ID) {
			bad("id", "workboard.fields", reason.WorkboardInvalid, "an id is letters, digits, dots and dashes")
		}
		for _, p := range i.Evidence {
			if p.SHA256 != "" && !canon.ValidDigest(p.SHA256) {
				out.add(WorkboardFile, p.line, "workboard.fields", reason.WorkboardInvalid, "item %s: sha256: %q is no digest: write sha256: and 64 hex digits", i.ID, p.SHA256)
			}
			if p.Claims != "" && p.Claims != "pass" {
				out.add(WorkboardFile, p.line, "workboard.fields", reason.WorkboardInvalid, "item %s: claims: %q is not pass", i.ID, p.Claims)
			}
		}
		for _, id := range i.BlockedBy {
			switch blocker := b.byID[id]; {
			case blocker == nil:
				bad("blocked_by", "workboard.blocked_by", reason.WorkboardInvalid, "there is no item %s", id)
			case i.Status == validated && blocker.Status != validated:
				bad("status", "workboard.order", reason.BlockerNotValidated, "is validated, and %s, which blocks it, is %s", id, blocker.Status)
			}
		}
		if due, ok := day(i.ReviewBy); i.ReviewBy != "" && !ok {
			bad("review_by", "workboard.fields", reason.WorkboardInvalid, "review_by: %q is no day: write 2026-01-31", i.ReviewBy)
		} else if ok && now.After(due.Add(24*time.Hour)) {
			bad("review_by", "workboard.review", reason.ReviewOverdue, "a review was due by %s", i.ReviewBy)
		}
	}
	b.cycles(out)
}

// cycles reports every item that waits for itself, one finding a cycle. The walk
// keeps its own stack: a chain of items is as long as its author likes.
func (b *workboard) cycles(out *findings) {
	const visiting, done = 1, 2
	state := map[*Item]int{}
	type step struct {
		item *Item
		next int // the blocker that is looked at next
	}
	for _, start := range b.items {
		if state[start] != 0 {
			continue
		}
		stack := []step{{item: start}}
		state[start] = visiting
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(top.item.BlockedBy) {
				state[top.item] = done
				stack = stack[:len(stack)-1]
				continue
			}
			blocker := b.byID[top.item.BlockedBy[top.next]]
			top.next++
			switch {
			case blocker == nil:
			case state[blocker] == 0:
				state[blocker] = visiting
				stack = append(stack, step{item: blocker})
			case state[blocker] == visiting:
				from := slices.IndexFunc(stack, func(s step) bool { return s.item == blocker })
				var ids []string
				for _, s := range stack[from:] {
					ids = append(ids, s.item.ID)
				}
				const shown = 8
				if len(ids) > shown {
					ids = append(ids[:shown], "…")
				}
				out.add(WorkboardFile, max(blocker.lines["blocked_by"], blocker.line), "workboard.cycle", reason.WorkboardCycle,
					"item %s waits for itself: %s", blocker.ID, strings.Join(append(ids, blocker.ID), " → "))
			}
		}
	}
}
