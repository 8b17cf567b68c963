package board

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"remit/law/yamldoc"
	"remit/proof/form"
	"remit/proof/reason"
)

// Record is the front matter of a record.
type Record struct {
	Name           string // what other records call it, once in the folder
	Tier           string
	Status         string // one of [RecordStatuses]
	Owner          string
	Source         string // where it came from
	Created        string // a day
	LastReviewed   string // a day
	Classification string // one of [Classifications]
	Promotion      string // [NotPromoted], always: promotion is a decision that no record makes
	Description    string
	ReviewBy       string // a day; "": [ReviewAge] after the last review

	file  string
	lines map[string]int // of the fields
	line  int            // of the front matter
	body  string
	first int // line of the body
}

// NotPromoted is the only promotion status that a record may have.
const NotPromoted = "not-promoted"

// ReviewAge is how long a review holds where the record names no day.
const ReviewAge = 365 * 24 * time.Hour

// RecordStatuses are the values of status.
func RecordStatuses() []string { return []string{"draft", "candidate", "blocked", validated} }

// Classifications are the values of lifecycle_classification.
func Classifications() []string { return []string{"planning", "sot", "evidence", "decision"} }

var (
	word = form.Lazy(`^[a-z0-9][a-z0-9-]{0,63}$`)
	// activation is a line that claims a default which no evidence makes.
	activation = form.Lazy(`(?i)^[\s>*+-]*["'\x60]?runtime[ _-]default[ _-]activation["'\x60]?\s*[:=]\s*["'\x60]?(?:true|on|yes|active)\b`)
	// passClaim is a line that claims a pass.
	passClaim = form.Lazy(`(?i)^[\s>*+-]*["'\x60]?[\w .-]*(?:status|result|verdict)["'\x60]?\s*[:=]\s*["'\x60]?pass(?:ed)?\b`)
)

const fence = "---"

// front reads the front matter of a record, nil after findings.
func front(file string, src []byte, out *findings) *Record {
	refuse := func(line int, format string, args ...any) *Record {
		out.add(file, line, "record.front_matter", reason.RecordInvalid, format, args...)
		return nil
	}
	text := strings.ReplaceAll(string(bytes.TrimPrefix(src, []byte("\ufeff"))), "\r\n", "\n")
	lines := strings.Split(text, "\n")
	if strings.TrimRight(lines[0], " \t") != fence {
		return refuse(1, "does not begin with front matter: a line %q, the fields, and a line %q", fence, fence)
	}
	end := 0
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t") == fence {
			end = i + 1
			break
		}
	}
	if end == 0 {
		return refuse(1, "the front matter has no end: a line %q", fence)
	}
	// A line before the text keeps the line numbers of the file.
	m := document(file, []byte("\n"+strings.Join(lines[1:end], "\n")+"\n"), "record.front_matter", reason.RecordInvalid, out)
	if m == nil {
		return nil
	}
	r := &Record{file: file, line: 1, body: strings.Join(lines[end+1:], "\n"), first: end + 2, lines: map[string]int{}}
	r.decode(m, out)
	return r
}

func (r *Record) decode(m *ast.MappingNode, out *findings) {
	d := &decoder{file: r.file, rule: "record.fields", code: reason.RecordInvalid, out: out}
	d.mapping(m, r.lines, map[string]func(ast.Node){
		"name": d.line(&r.Name), "tier": d.line(&r.Tier), "status": d.line(&r.Status), "owner": d.line(&r.Owner), "source": d.line(&r.Source),
		"created": d.line(&r.Created), "last_reviewed": d.line(&r.LastReviewed), "lifecycle_classification": d.line(&r.Classification),
		"core_promotion_status": d.line(&r.Promotion), "description": d.line(&r.Description), "review_by": d.line(&r.ReviewBy),
	}, "review_by")
}

// check judges the values of the fields.
func (r *Record) check(now time.Time, out *findings) {
	bad := func(field, rule string, code reason.Code, format string, args ...any) {
		out.add(r.file, max(r.lines[field], r.line), rule, code, "%s: "+format, append([]any{field}, args...)...)
	}
	oneOf := func(field, value string, words []string) {
		if value != "" && !slices.Contains(words, value) {
			bad(field, "record.fields", reason.RecordInvalid, "%q is none of %s", value, strings.Join(words, ", "))
		}
	}
	oneOf("status", r.Status, RecordStatuses())
	oneOf("lifecycle_classification", r.Classification, Classifications())
	oneOf("core_promotion_status", r.Promotion, []string{NotPromoted})
	if r.Tier != "" && !word().MatchString(r.Tier) {
		bad("tier", "record.fields", reason.RecordInvalid, "%q is no word of small letters, digits and dashes", r.Tier)
	}
	created, hasCreated := day(r.Created)
	reviewed, hasReviewed := day(r.LastReviewed)
	for _, d := range []struct {
		field, value string
		valid        bool
	}{{"created", r.Created, hasCreated}, {"last_reviewed", r.LastReviewed, hasReviewed}} {
		if d.value != "" && !d.valid {
			bad(d.field, "record.fields", reason.RecordInvalid, "%q is no day: write 2026-01-31", d.value)
		}
	}
	if hasCreated && hasReviewed && reviewed.Before(created) {
		bad("last_reviewed", "record.fields", reason.RecordInvalid, "%s is before the record was created, %s", r.LastReviewed, r.Created)
	}
	for field, at := range map[string]time.Time{"created": created, "last_reviewed": reviewed} {
		if at.After(now.Add(24 * time.Hour)) { // it may be tomorrow already elsewhere
			bad(field, "record.fields", reason.RecordInvalid, "lies in the future")
		}
	}
	due := reviewed.Add(ReviewAge)
	if r.ReviewBy != "" {
		var ok bool
		if due, ok = day(r.ReviewBy); !ok {
			bad("review_by", "record.fields", reason.RecordInvalid, "%q is no day: write 2026-01-31", r.ReviewBy)
			return
		}
	} else if !hasReviewed {
		return
	}
	if now.After(due.Add(24 * time.Hour)) {
		bad("last_reviewed", "record.review", reason.ReviewOverdue, "%s: a review was due by %s", r.LastReviewed, due.Format(time.DateOnly))
	}
}

func day(text string) (time.Time, bool) {
	t, err := time.Parse(time.DateOnly, text)
	return t, err == nil
}

// statements holds the body against what the workboard requires, and against
// what no record may say.
func (r *Record) statements(required []string, out *findings) {
	flat := " " + strings.Join(strings.Fields(r.body), " ") + " "
	for _, s := range required {
		if !strings.Contains(flat, strings.Join(strings.Fields(s), " ")) {
			out.add(r.file, r.first, "record.statement", reason.StatementMissing, "does not say %q", s)
		}
	}
	for i, line := range strings.Split(r.body, "\n") {
		if activation().MatchString(line) {
			out.add(r.file, r.first+i, "record.activation", reason.RecordInvalid, "claims that a default is activated: no record and no evidence does that")
		}
	}
}

// claimsPass returns the line on which the body claims a pass, 0 for none.
func (r *Record) claimsPass() int {
	for i, line := range strings.Split(r.body, "\n") {
		if passClaim().MatchString(line) {
			return r.first + i
		}
	}
	return 0
}

// limits bound front matter and the workboard for the recursive parser.
var limits = yamldoc.Limits{Bytes: MaxRecordBytes, Tokens: 50_000, Depth: 8}

// document parses the one mapping of a YAML text, nil after a finding.
func document(file string, src []byte, rule string, code reason.Code, out *findings) *ast.MappingNode {
	body, bad := yamldoc.Parse(src, limits)
	if bad != nil {
		out.add(file, max(bad.Line, 1), rule, code, "%s", bad.Message)
		return nil
	}
	m, ok := body.(*ast.MappingNode)
	if !ok {
		out.add(file, max(yamldoc.PlaceOf(body).Line, 1), rule, code, "expected `key: value` lines")
		return nil
	}
	return m
}

// decoder reads the values of one document into Go values. What does not fit is
// a finding.
type decoder struct {
	file, rule string
	code       reason.Code
	out        *findings
}

func (d *decoder) bad(n ast.Node, format string, args ...any) {
	d.out.add(d.file, max(yamldoc.PlaceOf(n).Line, 1), d.rule, d.code, format, args...)
}

// mapping reads each known key once. Keys that are not optional must stand there.
func (d *decoder) mapping(m *ast.MappingNode, lines map[string]int, keys map[string]func(ast.Node), optional ...string) {
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		read, known := keys[name]
		switch _, twice := lines[name]; {
		case twice:
			d.bad(entry.Key, "%q stands here twice", name)
		case !known:
			d.bad(entry.Key, "unknown key %q: the keys are %s", name, strings.Join(sortedKeys(keys), ", "))
		default:
			lines[name] = yamldoc.PlaceOf(entry.Key).Line
			read(entry.Value)
		}
	}
	for _, name := range sortedKeys(keys) {
		if _, there := lines[name]; !there && !slices.Contains(optional, name) {
			d.bad(m, "%s is missing", name)
		}
	}
}

func sortedKeys(keys map[string]func(ast.Node)) []string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// line reads a text of one line that is not empty.
func (d *decoder) line(to *string) func(ast.Node) {
	return func(n ast.Node) {
		text, ok := yamldoc.Text(n)
		switch text = strings.TrimSpace(text); {
		case !ok:
			d.bad(n, "expected a text")
		case text == "":
			d.bad(n, "is empty")
		case strings.ContainsAny(text, "\r\n"):
			d.bad(n, "expected one line")
		default:
			*to = text
		}
	}
}

// texts reads a list of texts, or one text.
func (d *decoder) texts(to *[]string) func(ast.Node) {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			var one string
			if d.line(&one)(n); one != "" {
				*to = []string{one}
			}
			return
		}
		for _, item := range seq.Values {
			var text string
			d.line(&text)(item)
			if text != "" {
				*to = append(*to, text)
			}
		}
	}
}

// list reads a list of mappings.
func (d *decoder) list(each func(m *ast.MappingNode)) func(ast.Node) {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			d.bad(n, "expected a list")
			return
		}
		for _, item := range seq.Values {
			if m, ok := item.(*ast.MappingNode); ok {
				each(m)
			} else {
				d.bad(item, "expected a mapping")
			}
		}
	}
}
