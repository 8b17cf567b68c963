// Package push sends commits to a git repository behind HTTP, and gets them from there,
// in the smart protocol of git (gitprotocol-http(5), gitprotocol-pack(5)): the refs of the other side are
// read, a pack with what it lacks is made by the local git, and sent with the new
// values of refs.
//
// The credential stays in this process: git makes the pack and never sees the
// network. Redirects are not followed, since a credential must not go elsewhere.
package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"remit/forge/pull"
	"remit/proof/reason"
	"remit/work/git"
)

// Limits of what the other side says.
const (
	maxRefs   = 16 << 20 // bytes of its list of refs
	maxReport = 1 << 20  // bytes of its report
	maxHave   = 2000     // refs that a pack is made against
)

// Remote is a repository elsewhere.
type Remote struct {
	URL    string // http or https, without a credential
	User   string // of the credential, as the forge wants it
	Token  string // "" asks without one
	Client *http.Client
}

// Refs are what a repository has.
type Refs struct {
	Format git.Format
	Names  map[string]string // ref to object id
	report bool              // it reports on each update
}

// Update is the new value of a ref, the zero id to remove it. Old is what it must be
// before, the zero id where it must not be there.
type Update struct{ Ref, Old, New string }

const (
	receivePack = "git-receive-pack"
	uploadPack  = "git-upload-pack"
)

// Refs asks what there is. The error is [reason.ForgeDenied] where the credential
// counts for nothing, [reason.ForgeUnknown] where no forge answers, and
// [reason.ForgeUnreachable] for what else goes wrong.
func (r Remote) Refs(ctx context.Context) (Refs, error) { return r.refs(ctx, receivePack) }

func (r Remote) refs(ctx context.Context, service string) (Refs, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.URL, "/")+"/info/refs?service="+service, nil)
	if err != nil {
		return Refs{}, unreachable("its address is no URL")
	}
	body, err := r.do(req, "application/x-"+service+"-advertisement", maxRefs)
	if err != nil {
		return Refs{}, err
	}
	return parseRefs(body, service)
}

// Push sends commits of store, and then changes refs, all or none where the other
// side can do that. refs says which commits the other side has already.
func (r Remote) Push(ctx context.Context, store git.Dir, refs Refs, updates []Update) error {
	if refs.Format != store.Format {
		return unreachable("it has object ids of %s, and the change has those of %s", refs.Format, store.Format)
	}
	if !refs.report {
		return unreachable("it does not report what became of a push")
	}
	var want, have []string
	for _, u := range updates {
		if !git.ValidRef(u.Ref) {
			return fmt.Errorf("pushing: %q is not the name of a ref", u.Ref)
		}
		if u.New != store.Format.Zero() {
			want = append(want, u.New)
		}
	}
	for _, id := range refs.Names {
		have = append(have, id)
	}
	slices.Sort(have) // the same pack each time
	have = slices.Compact(have)
	spool, err := os.CreateTemp("", "remit-push-")
	if err != nil {
		return fmt.Errorf("making a pack: %w", err)
	}
	defer func() { _ = errors.Join(spool.Close(), os.Remove(spool.Name())) }() // a temporary file
	if err := writeRequest(ctx, spool, store, updates, want, have[:min(len(have), maxHave)]); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("making a pack: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.URL, "/")+"/"+receivePack, io.NopCloser(spool))
	if err != nil {
		return unreachable("its address is no URL")
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/x-"+receivePack+"-request")
	report, err := r.do(req, "application/x-"+receivePack+"-result", maxReport)
	if err != nil {
		return err
	}
	return judge(report, updates)
}

func writeRequest(ctx context.Context, w io.Writer, store git.Dir, updates []Update, want, have []string) error {
	for i, u := range updates {
		line := u.Old + " " + u.New + " " + u.Ref
		if i == 0 {
			line += "\x00 report-status object-format=" + string(store.Format) + " agent=remit"
		}
		if err := writeLine(w, line+"\n"); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, flush); err != nil {
		return fmt.Errorf("making a pack: %w", err)
	}
	if len(want) == 0 { // what only removes refs has no pack
		return nil
	}
	return store.PackNew(ctx, want, have, w)
}

// do sends a request with the credential and reads the answer.
func (r Remote) do(req *http.Request, kind string, limit int64) ([]byte, error) {
	resp, err := r.open(req, kind)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, unreachable("the answer of %s was cut off", req.URL.Host)
	}
	if int64(len(body)) > limit {
		return nil, unreachable("the answer of %s is longer than %d bytes", req.URL.Host, limit)
	}
	return body, nil
}

// open is do for an answer that is read as it comes.
func (r Remote) open(req *http.Request, kind string) (*http.Response, error) {
	if r.Token != "" {
		req.SetBasicAuth(r.User, r.Token)
	}
	req.Header.Set("User-Agent", "git/2 remit") // some servers answer nothing else
	req.Header.Set("Accept", kind)
	client := *r.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req) //nolint:gosec // G704: the operator names the address
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		return nil, unreachable("the connection to %s failed", req.URL.Host)
	}
	after, limited := limitOf(resp)
	elsewhere := pull.Elsewhere(resp, r.Token)
	switch {
	case limited:
		err = &limitError{after, unreachable("%s has had enough requests of git for now: status %d", req.URL.Host, resp.StatusCode)}
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound:
		err = reason.Errorf(reason.ForgeDenied, "%s answers git with status %d", req.URL.Host, resp.StatusCode).
			WithHint("the repository's name is wrong, or the token has no right to its contents")
	case elsewhere != nil:
		err = elsewhere
	case resp.StatusCode != http.StatusOK:
		err = unreachable("%s answers git with status %d", req.URL.Host, resp.StatusCode)
	case resp.Header.Get("Content-Type") != kind:
		err = unreachable("%s does not speak git's protocol at this address", req.URL.Host)
	}
	if err != nil {
		_ = resp.Body.Close() // nothing of it is wanted
		return nil, err
	}
	return resp, nil
}

// limitError is a request that the other side does not want for now.
type limitError struct {
	after time.Duration
	err   error
}

func (e *limitError) Error() string { return e.err.Error() }
func (e *limitError) Unwrap() error { return e.err }

// RetryAfter is how long it wants to be left alone, 0 where it does not say.
func (e *limitError) RetryAfter() time.Duration { return e.after }

// limitOf reports whether an answer asks for patience, and how much.
func limitOf(resp *http.Response) (time.Duration, bool) {
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	said := err == nil && after >= 0
	limited := resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode == http.StatusForbidden && (said || resp.Header.Get("X-Ratelimit-Remaining") == "0")
	if !limited || !said {
		return 0, limited
	}
	return time.Duration(after) * time.Second, true
}

func unreachable(format string, args ...any) error {
	return reason.Errorf(reason.ForgeUnreachable, "the forge: "+format, args...).
		WithHint("give the same command again: what is done already stays, and is found")
}

// parseRefs reads an advertisement.
func parseRefs(body []byte, service string) (Refs, error) {
	out := Refs{Format: git.SHA1, Names: map[string]string{}}
	invalid := unreachable("its list of refs cannot be read")
	lines := &reader{rest: body}
	first, ok := lines.next()
	if !ok || strings.TrimSuffix(first, "\n") != "# service="+service {
		return out, invalid
	}
	if _, ok := lines.next(); ok || lines.bad { // a flush
		return out, invalid
	}
	for begun := false; ; begun = true {
		line, ok := lines.next()
		if !ok {
			break
		}
		if !begun {
			var features string
			line, features, _ = strings.Cut(line, "\x00")
			for feature := range strings.FieldsSeq(features) {
				switch name, value, _ := strings.Cut(feature, "="); name {
				case "report-status":
					out.report = true
				case "object-format":
					out.Format = git.Format(value)
				}
			}
		}
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !out.Format.Valid() || !out.Format.IsID(id) {
			return out, invalid
		}
		if id != out.Format.Zero() { // an empty repository names its features at no ref
			out.Names[name] = id
		}
	}
	if lines.bad || len(lines.rest) > 0 {
		return out, invalid
	}
	return out, nil
}

// judge reads a report: each update has to be named as done.
func judge(report []byte, updates []Update) error {
	lines := &reader{rest: report}
	unpacked, _ := lines.next()
	done := map[string]bool{}
	var refused []string
	for {
		line, ok := lines.next()
		if !ok {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "ok "); ok {
			done[name] = true
		} else if text, ok := strings.CutPrefix(line, "ng "); ok {
			refused = append(refused, fmt.Sprintf("%q", clip(text)))
		}
	}
	switch {
	case lines.bad:
		return unreachable("its report of the push cannot be read")
	case strings.TrimSuffix(unpacked, "\n") != "unpack ok":
		return unreachable("it could not store the commits: %q", clip(strings.TrimSpace(unpacked)))
	case len(refused) > 0:
		return reason.Errorf(reason.ForgeDenied, "the forge refuses the push: %s", strings.Join(refused, ", ")).
			WithHint("a rule for branches or tags of the repository forbids it, or the token may not")
	}
	for _, u := range updates {
		if !done[u.Ref] {
			return unreachable("its report of the push does not name %q", u.Ref)
		}
	}
	return nil
}

// clip bounds a text of the other side.
func clip(s string) string { return s[:min(len(s), 200)] }

// flush ends a list of lines (gitprotocol-common(5), pkt-line).
const flush = "0000"

const maxLine = 65516 // bytes of a pkt-line's payload

func writeLine(w io.Writer, text string) error {
	if len(text) > maxLine {
		return errors.New("pushing: a line is too long for the protocol")
	}
	_, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
	return err
}

// reader takes pkt-lines apart. next is false at a flush, at the end, and where the
// text is no pkt-line: then bad says so.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) next() (string, bool) {
	if len(r.rest) == 0 {
		return "", false
	}
	n := uint64(0)
	if r.bad = len(r.rest) < 4; !r.bad {
		var err error
		n, err = strconv.ParseUint(string(r.rest[:4]), 16, 16)
		r.bad = err != nil || n > uint64(len(r.rest)) || n > 0 && n < 4
	}
	if r.bad {
		r.rest = nil
		return "", false
	}
	if n == 0 {
		r.rest = r.rest[4:]
		return "", false
	}
	line := string(r.rest[4:n])
	r.rest = r.rest[n:]
	return line, true
}
