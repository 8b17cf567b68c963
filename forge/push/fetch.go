package push

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"remit/proof/reason"
)

// MaxFetch bounds a pack that is fetched, in bytes.
const MaxFetch = 1 << 30

// Offered asks what can be fetched.
func (r Remote) Offered(ctx context.Context) (Refs, error) { return r.refs(ctx, uploadPack) }

// Fetch writes a pack with what the commit want reaches and those of have do not. Refs
// are what the other side offers: want has to be one of them. What the pack holds is
// for the receiver to check.
func (r Remote) Fetch(ctx context.Context, refs Refs, want string, have []string, w io.Writer) error {
	var ask bytes.Buffer
	if !refs.Format.IsID(want) {
		return fmt.Errorf("fetching: %.100q is not a full commit id", want)
	}
	err := writeLine(&ask, "want "+want+" ofs-delta no-progress object-format="+string(refs.Format)+" agent=remit\n")
	ask.WriteString(flush)
	for _, id := range have {
		if !refs.Format.IsID(id) {
			return fmt.Errorf("fetching: %.100q is not a full commit id", id)
		}
		err = errors.Join(err, writeLine(&ask, "have "+id+"\n"))
	}
	if err = errors.Join(err, writeLine(&ask, "done\n")); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.URL, "/")+"/"+uploadPack, &ask)
	if err != nil {
		return unreachable("its address is no URL")
	}
	req.Header.Set("Content-Type", "application/x-"+uploadPack+"-request")
	resp, err := r.open(req, "application/x-"+uploadPack+"-result")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := bufio.NewReader(io.LimitReader(resp.Body, MaxFetch+1))
	if err := acknowledged(body); err != nil {
		return err
	}
	n, err := io.Copy(w, body)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return unreachable("the commits of %s were cut off", req.URL.Host)
	case n > MaxFetch:
		return reason.Errorf(reason.ChangeTooLarge, "%s sends more than %d MiB of commits", req.URL.Host, MaxFetch>>20)
	}
	return nil
}

// acknowledged reads what the other side says of the commits that are here already, up
// to the pack.
func acknowledged(body *bufio.Reader) error {
	for {
		head, err := body.Peek(4)
		if err != nil {
			return unreachable("its answer has no commits")
		}
		if string(head) == "PACK" {
			return nil
		}
		var n int
		if _, err := fmt.Sscanf(string(head), "%04x", &n); err != nil || n > 0 && n <= 4 || n > maxLine+4 {
			return unreachable("its answer is not git's")
		}
		line := make([]byte, max(n, 4))
		if _, err := io.ReadFull(body, line); err != nil {
			return unreachable("its answer was cut off")
		}
		switch text := strings.TrimSuffix(string(line[4:]), "\n"); {
		case n == 0, text == "NAK", strings.HasPrefix(text, "ACK "):
		case strings.HasPrefix(text, "ERR "):
			return reason.Errorf(reason.ForgeDenied, "the forge sends no commits: %q", clip(text[4:]))
		default:
			return unreachable("its answer is not git's")
		}
	}
}
