package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"remit/proof/reason"
)

// Delivery is one request of a client and what it got: the body of a file or an
// index, or a refusal.
type Delivery struct {
	Ecosystem Ecosystem `json:"ecosystem,omitempty"` // "" when the path has none
	Name      string    `json:"name,omitempty"`      // of the package, or of what else was asked for, such as "sumdb/sum.golang.org"
	Version   string    `json:"version,omitempty"`
	// Path is what was asked for: in the form of the grammar, or, of a refused
	// request, the first bytes as they came, quoted when they are not plain.
	Path    string      `json:"path"`
	SHA256  string      `json:"sha256,omitempty"` // of the body as delivered, in hex; "" for HEAD and refusals
	Bytes   int64       `json:"bytes"`            // of the body that were delivered, of a part too
	Refused reason.Code `json:"refused,omitempty"`
	Why     string      `json:"why,omitempty"`
	SHA1    string      `json:"-"` // of a file, for lock files that have nothing better
}

// recordedPath is how much of a refused path is kept.
const recordedPath = 200

// record collects deliveries.
type record struct {
	mu     sync.Mutex
	most   int
	kept   []Delivery
	beyond int
}

// room counts a request, and says whether it can still be recorded.
func (r *record) room() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most == 0 {
		r.beyond++
		return false
	}
	r.most--
	return true
}

func (r *record) add(d Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, d)
}

// list returns the deliveries in an order that does not depend on time.
func (r *record) list() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Clone(r.kept)
	if r.beyond > 0 {
		out = append(out, Delivery{Path: "/", Refused: reason.RegistryTooLarge,
			Why: fmt.Sprintf("%d requests more than a fetch may make were refused without a record of each", r.beyond)})
	}
	slices.SortFunc(out, func(a, b Delivery) int {
		return cmp.Or(cmp.Compare(a.Ecosystem, b.Ecosystem), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Refused, b.Refused), cmp.Compare(a.SHA256, b.SHA256),
			cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Why, b.Why))
	})
	return out
}

// plain returns text of a client or a registry in a form that can be recorded: short
// and in printable ASCII.
func plain(text string, most int) string {
	cut := len(text) > most
	if cut {
		text = text[:most]
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			quoted := strconv.QuoteToASCII(text)
			text = quoted[1 : len(quoted)-1]
			break
		}
	}
	if cut {
		text += "…"
	}
	return text
}
