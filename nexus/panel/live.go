package panel

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"remit/proof/reason"
)

// A page that is live has a socket, over which the server says a number: that of
// the state behind the page. When it changes the page is fetched again, as the one
// who looks. So the socket gives nothing away, and no state is lost with
// a connection.

// Bounds of sockets.
const (
	livePause = 200 * time.Millisecond // between two looks at a journal
	liveLook  = 20 * time.Second       // between two looks whether the viewer still may
	liveWrite = 10 * time.Second
	// liveLong is how long a socket lasts. What it asks counts as use of the session,
	// and a page that is not looked at must not keep one open.
	liveLong = 30 * time.Minute
)

// liveTopic names what a page follows.
func liveTopic(kind, id string) string {
	if id == "" {
		return kind
	}
	return kind + ":" + id
}

// news is what a socket says.
type news struct {
	Seq int64 `json:"seq"`
}

// live serves the socket of a page.
func (p *Panel) live(w http.ResponseWriter, r *http.Request) {
	protect(w)
	v, err := p.viewer(r)
	if err == nil {
		_, err = p.state(r.Context(), v, r.URL.Query().Get("topic"))
	}
	if err != nil {
		p.fail(w, r, nil, err)
		return
	}
	// Accept refuses pages of other origins.
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow() //nolint:errcheck // the reader has left
	ctx, cancel := context.WithTimeout(conn.CloseRead(r.Context()), liveLong)
	defer cancel()
	if err := p.tell(ctx, r, v, conn); err != nil {
		_ = conn.Close(websocket.StatusPolicyViolation, "follow it again by loading the page")
	}
}

// tell says every new state, until the reader leaves.
func (p *Panel) tell(ctx context.Context, r *http.Request, v *viewer, conn *websocket.Conn) error {
	topic := r.URL.Query().Get("topic")
	tick := time.NewTicker(livePause)
	defer tick.Stop()
	said, looked := int64(-1), p.opt.Clock()
	for {
		if p.opt.Clock().Sub(looked) >= liveLook {
			looked = p.opt.Clock()
			now, err := p.viewer(r)
			if err != nil {
				return err
			}
			v = now
		}
		seq, err := p.state(ctx, v, topic)
		if err != nil {
			return err
		}
		if seq != said {
			said = seq
			text, err := json.Marshal(news{seq})
			if err != nil {
				return fmt.Errorf("encode the news: %w", err)
			}
			writing, cancel := context.WithTimeout(ctx, liveWrite)
			err = conn.Write(writing, websocket.MessageText, text)
			cancel()
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// state is the number of what a topic shows.
func (p *Panel) state(ctx context.Context, v *viewer, topic string) (int64, error) {
	kind, id, _ := strings.Cut(topic, ":")
	if kind != "home" || !v.home {
		return 0, reason.Errorf(reason.NotFound, "there is nothing to follow under this name")
	}
	if id == "" {
		list, _, err := p.opt.Home.List(ctx)
		return fingerprint(list), err
	}
	version, running, err := p.opt.Home.Version(ctx, id)
	if !running {
		version = -version // the end is news, too
	}
	return version, err
}

// fingerprint differs when a list does.
func fingerprint(list []Summary) int64 {
	sum := int64(len(list))
	for _, s := range list {
		for _, c := range []byte(s.ID[max(0, len(s.ID)-6):] + s.Status + s.Outcome) {
			sum = sum*31 + int64(c)
		}
	}
	return sum & (1<<52 - 1) // a number that a script has exactly
}
