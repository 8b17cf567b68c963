package task

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// FromIssue makes a contract from an issue in Markdown. The issue says what is
// to be done; what may be touched comes from the policy, which may be nil, and
// from the command line. An issue is written by strangers: nothing in it is
// ever taken for a rule.
//
// The title is that of the front matter, or the first heading, or the first
// line. The number is that of the front matter, or of the source ("#12",
// ".../issues/12"), or the "#12" of the title. The instructions are the whole
// text without the front matter. The contract is complete only after [Narrow]:
// when the policy states no allowed paths, the command line has to.
func FromIssue(md []byte, source string, policy *Policy) (*Contract, error) {
	return fromIssue(md, source, nil, policy)
}

// ForgeIssue is an issue as a forge has it.
type ForgeIssue struct {
	Number int64
	URL    string // of its page
	Title  string
	Body   string
}

// FromForge makes a contract from an issue of a forge, by the rules of [FromIssue]. What
// the forge says of title, number and address counts, whatever the text says of them.
// What the page does not show, comments of HTML, is left out: a reader of the page has not seen it.
func FromForge(issue ForgeIssue, policy *Policy) (*Contract, error) {
	return fromIssue([]byte(issue.Body), issue.URL, &issue, policy)
}

// fromIssue takes title, number and address from at where that is given.
func fromIssue(md []byte, source string, at *ForgeIssue, policy *Policy) (*Contract, error) {
	r := newReport(nameOfSource(source))
	if len(md) > MaxSourceBytes {
		r.add(place{}, "", reason.ContractTooLarge, "", "%d bytes, at most %d", len(md), MaxSourceBytes)
		return nil, r.err()
	}
	md = bytes.TrimPrefix(bytes.ReplaceAll(md, []byte("\r\n"), []byte("\n")), []byte("\ufeff"))
	front, body := cutFrontMatter(string(md))
	issue := &Issue{Source: source}
	title := r.frontMatter(front, issue)
	if err := r.err(); err != nil {
		return nil, err
	}
	if at != nil {
		title, issue.Number, issue.URL = strings.TrimSpace(at.Title), &at.Number, at.URL
		body = "# " + title + "\n\n" + withoutComments(body)
	}
	if title == "" {
		title = markdownTitle(body)
	}
	if issue.Number == nil {
		issue.Number = issueNumber(source, title)
	}
	if issue.URL == "" && (strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")) {
		issue.URL = source
	}
	c := policy.contract()
	c.anyMode = policy == nil || policy.MutationMode == nil
	c.Issue, c.Title, c.Instructions = issue, firstRunes(title, MaxLineRunes), strings.TrimSpace(body)
	c.TaskID = Slug(title)
	checkIdentity(r, c)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// nameOfSource is the source for messages. An address may carry a credential,
// which no message may repeat.
func nameOfSource(source string) string {
	if strings.Contains(source, "://") && strings.Contains(source, "@") {
		return "issue"
	}
	return source
}

// cutFrontMatter splits off a YAML block between two lines "---" at the very
// beginning. A "---" that is never closed is a rule, not front matter.
func cutFrontMatter(md string) (front, body string) {
	rest, ok := strings.CutPrefix(md, "---\n")
	if !ok {
		return "", md
	}
	if front, body, ok = strings.Cut(rest, "\n---\n"); ok {
		return front, body
	}
	if front, ok = strings.CutSuffix(rest, "\n---"); ok {
		return front, ""
	}
	return "", md
}

// frontMatter reads number, title and url; other keys (labels, author) are for
// other readers.
func (r *report) frontMatter(front string, issue *Issue) (title string) {
	if strings.TrimSpace(front) == "" {
		return ""
	}
	// The newline in front keeps line numbers those of the file.
	top := r.document([]byte("\n" + front + "\n"))
	if top == nil {
		return ""
	}
	mapping([]key{
		{"number", optional(&issue.Number, integer)},
		{"issue", optional(&issue.Number, integer)},
		{"title", text(&title)},
		{"url", text(&issue.URL)},
	}, true)(r, "", top)
	return strings.TrimSpace(title)
}

// withoutComments leaves out the comments of HTML that are not in a block of code. One
// that is never closed goes to the end, as on the page.
func withoutComments(body string) string {
	var out strings.Builder
	hidden, fence := false, ""
	for line := range strings.Lines(body) {
		if mark := fenceMark(line); !hidden && mark != "" {
			if fence == "" {
				fence = mark
			} else if strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
				fence = ""
			}
		}
		for fence == "" {
			sep := map[bool]string{false: "<!--", true: "-->"}[hidden]
			before, after, found := strings.Cut(line, sep)
			if !found {
				break
			}
			if !hidden {
				out.WriteString(before)
			}
			hidden, line = !hidden, after
		}
		if !hidden {
			out.WriteString(line)
		}
	}
	return out.String()
}

// fenceMark is the run of ` or ~ that begins a line of a fenced block of code, "" for
// another line.
func fenceMark(line string) string {
	line = strings.TrimLeft(line, " ")
	for _, c := range []string{"`", "~"} {
		if mark := line[:len(line)-len(strings.TrimLeft(line, c))]; len(mark) >= 3 {
			return mark
		}
	}
	return ""
}

// markdownTitle is the first heading, or else the first line that is not
// empty.
func markdownTitle(body string) string {
	first, fenced := "", false
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fenced = !fenced
			continue
		}
		if first == "" {
			first = line
		}
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		if !fenced && marks >= 1 && marks <= 6 && strings.HasPrefix(line[marks:], " ") {
			return strings.TrimSpace(strings.TrimRight(line[marks:], "# "))
		}
	}
	return first
}

var (
	numberInSource = form.Lazy(`(?:^|[A-Za-z0-9_.-])#([1-9][0-9]{0,14})$|/(?:issues|pulls?)/([1-9][0-9]{0,14})/?$`)
	numberInTitle  = form.Lazy(`(?:^|[\s(\[])#([1-9][0-9]{0,14})(?:$|[\s:)\].,])`)
)

// issueNumber finds the number in the source or the title. Numbers in the text
// are about other issues.
func issueNumber(source, title string) *int64 {
	for _, found := range [][]string{numberInSource().FindStringSubmatch(source), numberInTitle().FindStringSubmatch(title)} {
		for _, digits := range found[min(1, len(found)):] {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}

// maxSlug bounds a slug, so that session ids stay short.
const maxSlug = 48

// Slug makes a directory name from any text: lower-case ASCII letters and
// digits with single dashes between, at most 48 bytes, never empty, never the
// name of a device. Accents are dropped.
func Slug(s string) string {
	var b strings.Builder
	for _, c := range norm.NFKD.String(firstRunes(s, 4*maxSlug)) {
		c = unicode.ToLower(c)
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case unicode.Is(unicode.Mn, c):
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	slug := strings.Trim(b.String()[:min(b.Len(), maxSlug)], "-")
	if slug == "" || isDeviceName(slug) {
		slug = strings.TrimSuffix("task-"+slug, "-")
	}
	return slug
}

// IDFor is the name itself where it can be a task id, else its [Slug].
func IDFor(name string) string {
	if taskIDForm().MatchString(name) && !isDeviceName(name) {
		return name
	}
	return Slug(name)
}

// isDeviceName reports the names that Windows keeps for devices, with any
// extension.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) && stem[3] >= '0' && stem[3] <= '9'
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// MaxInstructionsFrom bounds the file of the base commit that is given to the agent.
const MaxInstructionsFrom = 64 << 10

// InstructionsFrom is a file of the base commit, such as AGENTS.md, whose text an
// engine is given beside the instructions.
type InstructionsFrom struct {
	Path   string `json:"path"`   // relative to the tree
	SHA256 string `json:"sha256"` // of its content; "" until [Contract.BindInstructions]
}

// BindInstructions is the contract with the digest of the file's content. One that
// has a digest already keeps to it.
func (c *Contract) BindInstructions(content []byte) (*Contract, error) {
	from := *c.InstructionsFrom
	if _, err := from.quoted(content); err != nil {
		return nil, err
	}
	digest := canon.Digest(content)
	if from.SHA256 != "" && from.SHA256 != digest {
		r := newReport(from.Path)
		r.add(place{}, "instructions_from", reason.ContractValue, "the base commit is another one than the contract was written for", "the file is %s, the contract says %s", digest, from.SHA256)
		return nil, r.err()
	}
	from.SHA256 = digest
	out := c.clone()
	out.InstructionsFrom = &from
	return out, nil
}

// Assignment returns the text that an engine gets: the instructions and, where the
// contract names a file, its content. Each line of the file is quoted, so that text of
// the repository cannot pass for text of the task.
func (c *Contract) Assignment(content []byte) (string, error) {
	if c.InstructionsFrom == nil {
		return c.Instructions, nil
	}
	text, err := c.InstructionsFrom.quoted(content)
	if err != nil {
		return "", err
	}
	if canon.Digest(content) != c.InstructionsFrom.SHA256 {
		return "", reason.Errorf(reason.ContractValue, "%s is not the file that the contract names", c.InstructionsFrom.Path)
	}
	return strings.TrimRight(c.Instructions, "\n") + "\n\n" +
		fmt.Sprintf("What this repository tells agents, from %s of the base commit (%s), quoted:\n\n", c.InstructionsFrom.Path, c.InstructionsFrom.SHA256) + text, nil
}

func (i InstructionsFrom) quoted(content []byte) (string, error) {
	r := newReport(i.Path + " of the base commit")
	text := strings.TrimRight(strings.ReplaceAll(strings.TrimPrefix(string(content), "\ufeff"), "\r\n", "\n"), "\n")
	switch {
	case len(content) > MaxInstructionsFrom:
		r.add(place{}, "instructions_from", reason.ContractTooLarge, "name a shorter file in "+PolicyFile, "%d bytes, at most %d", len(content), MaxInstructionsFrom)
	case strings.TrimSpace(text) == "":
		r.add(place{}, "instructions_from", reason.ContractMissingKey, "write the file, or take instructions_from out of "+PolicyFile, "it says nothing")
	default:
		checkText(r, "instructions_from", text, true)
	}
	return quote(text), r.err()
}

// checkInstructionsFrom holds the name of the file to the form of a path.
func checkInstructionsFrom(r *report, i *InstructionsFrom) {
	if i == nil {
		return
	}
	const field = "instructions_from"
	code, why := badName(i.Path)
	switch {
	case code != "" || strings.Contains(i.Path, `\`):
		r.field(field, reason.ContractValue, "a relative, slash-separated file name, as in AGENTS.md", "%q: %s", i.Path, why)
	case slices.Contains(strings.Split(fold(i.Path), "/"), ".git"):
		r.field(field, reason.ContractValue, "a file of the tree, as in AGENTS.md", "%q is git's own data", i.Path)
	}
	checkText(r, field, i.Path, false)
	if i.SHA256 != "" && !canon.ValidDigest(i.SHA256) {
		r.field(field, reason.ContractValue, "sha256: and 64 lower-case hex digits", "%q is not a digest", i.SHA256)
	}
}
