package admission

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"remit/proof/reason"
)

// Way is how a run would ask a model.
type Way struct {
	Class      Class
	Credential string // one of [CredentialSources]
	BaseURL    string
}

// Through holds the way to an admitted model against its record: who runs it,
// where its key comes from, and how far the gateway reaches. A way that needs
// less than the record allows is fine. No detail repeats the address.
func (r Result) Through(rec *Model, w Way) Result {
	if !r.Admitted() || rec == nil {
		return r
	}
	refuse := func(format string, args ...any) Result {
		return Result{Status: StatusMismatch, Code: reason.ModelMismatch, RecordID: r.RecordID, Detail: fmt.Sprintf(format, args...)}
	}
	reach := w.Network()
	if !usable(w.BaseURL) {
		reach = NetworkClasses()[0] // it reaches nothing: the gateway says what is wrong with it
	}
	switch {
	case rec.Class != w.Class:
		return refuse("the record admits a %s model, and the run would ask a %s one", rec.Class, w.Class)
	case w.Credential != "none" && rec.CredentialSource != w.Credential:
		return refuse("the record has the key come from: %s, and the run would take it from: %s", rec.CredentialSource, w.Credential)
	case slices.Index(NetworkClasses(), reach) > slices.Index(NetworkClasses(), rec.Network):
		return refuse("the record lets the gateway reach: %s, and the model is on: %s", rec.Network, reach)
	}
	return r
}

// usable reports whether an address could be a provider's at all. A gateway
// takes no other, and it is the one to say so.
func usable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// Network is how far the gateway has to reach, one of [NetworkClasses]. No name is looked up: the answer
// could be another when it counts, and for a name below localhost it can come
// from anywhere. A name that says nothing of its place is on the internet, unless
// the model is said to be local.
func (w Way) Network() string {
	u, err := url.Parse(w.BaseURL)
	host := ""
	if err == nil {
		host = strings.ToLower(u.Hostname())
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && addr.Unmap().IsLoopback(), strings.TrimSuffix(host, ".") == "localhost":
		return "loopback"
	case err == nil && (addr.Unmap().IsPrivate() || addr.Unmap().IsLinkLocalUnicast()), err != nil && w.Class == Local && !disguised(host):
		return "private"
	}
	return "internet"
}

// disguised reports whether a host that is no address in its usual form could
// still be taken for one: resolvers read 134744072, 8.2056, 010.8.8.8, 0x8080808
// and digits of other scripts as addresses. No name ends in a number.
func disguised(host string) bool {
	host = strings.TrimRight(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	hex, isHex := strings.CutPrefix(last, "0x")
	switch {
	case strings.IndexFunc(host, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0:
		return true
	case isHex:
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
