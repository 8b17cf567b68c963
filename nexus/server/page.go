package server

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"remit/proof/reason"
)

// Bounds of a page.
const (
	defaultLimit = 100
	maxLimit     = 500
)

// page is the part of a list that is asked for.
type page struct {
	list  string // what is listed; a cursor is good for this list only
	after string // the last item of the page before, "" at the start
	limit int
}

func listName(operation, path, owner string) string { return operation + " " + path + " " + owner }

// pageOf reads cursor and limit. Two lists differ if the operation, the path or
// the owner does.
func pageOf(r *request) (page, error) {
	p := page{list: listName(r.route.ID, r.URL.Path, r.caller.Owner), limit: defaultLimit}
	q := r.URL.Query()
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			return page{}, invalid("limit", "%.20q is not 1 to %d", text, maxLimit)
		}
		p.limit = n
	}
	if text := q.Get("cursor"); text != "" {
		after, ok := openCursor(p.list, text)
		if !ok {
			e := reason.Errorf(reason.CursorInvalid, "the cursor is not one of this list")
			e.Field = "cursor"
			return page{}, e
		}
		p.after = after
	}
	return p, nil
}

// seq is the cursor of a list that is ordered by number.
func (p page) seq() (int64, error) {
	if p.after == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(p.after, 10, 64)
	if err != nil || n < 0 {
		e := reason.Errorf(reason.CursorInvalid, "the cursor is not one of this list")
		e.Field = "cursor"
		return 0, e
	}
	return n, nil
}

// next is the cursor behind an item, if the page was full.
func (p page) next(found int, last func() string) *string {
	if found < p.limit {
		return nil
	}
	text := cursor(p.list, last())
	return &text
}

// itemsOf makes the items of a list; none is an empty list, not null.
func itemsOf[T, R any](list []T, form func(T) R) []R {
	out := make([]R, 0, len(list))
	for _, v := range list {
		out = append(out, form(v))
	}
	return out
}

// A cursor is a short digest of list and item, and the item, in base64url. The
// digest finds mistakes; what a caller may see is decided without it.
const cursorSum = 6

func cursor(list, item string) string {
	sum := sha256.Sum256([]byte(list + "\x00" + item))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorSum:cursorSum], item...))
}

func openCursor(list, text string) (item string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) <= cursorSum {
		return "", false
	}
	item = string(raw[cursorSum:])
	return item, strings.Compare(cursor(list, item), text) == 0
}
