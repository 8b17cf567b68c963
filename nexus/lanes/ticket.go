package lanes

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"remit/nexus/api"
	"remit/nexus/identity"
	"remit/nexus/store"
	"remit/proof/reason"
)

// A ticket is a one-time token whose scopes name its topic and the credential
// that asked for it.
const (
	scopeTopic  = "lane:"
	scopeParent = "parent:"
)

// IssueTicket makes a ticket for one lane, in the caller's command.
func (l *Lanes) IssueTicket(tx *store.Tx, c identity.Caller, topic string) (api.Ticket, error) {
	t, err := Parse(topic)
	if err != nil {
		return api.Ticket{}, err
	}
	if err := l.opt.Source.Authorize(tx, c, t); err != nil {
		return api.Ticket{}, err
	}
	text, token, err := identity.Mint(tx, identity.Grant{
		Kind: identity.Ticket, Principal: c.ID, Owner: c.Owner, TTL: TicketTTL, OneTime: true,
		Scopes: []string{scopeTopic + t.Name, scopeParent + c.Credential()},
	})
	if err != nil {
		return api.Ticket{}, err
	}
	return api.Ticket{Ticket: text, Topic: t.Name, ExpiresAt: api.TimeOf(token.ExpiresAt),
		Subprotocols: []string{api.LaneProtocol, api.TicketPrefix + text}}, nil
}

// useTicket uses up the ticket of a handshake and returns who it was made for, with
// the name of the credential behind it.
func (l *Lanes) useTicket(r *http.Request, t Topic) (caller identity.Caller, parent string, err error) {
	ticket := ticketOf(r)
	if ticket == "" {
		return caller, "", reason.Errorf(reason.Unauthenticated, "a lane is opened with a ticket").
			WithHint("POST /v1/lanes/tickets, then offer the subprotocols of its answer")
	}
	err = l.opt.Store.Update(r.Context(), func(tx *store.Tx) error {
		if caller, err = identity.Verify(tx, ticket); err != nil {
			return err
		}
		if caller.Kind != identity.Ticket || !slices.Contains(caller.Scopes, scopeTopic+t.Name) {
			return reason.Errorf(reason.Unauthenticated, "the ticket is for another lane")
		}
		for _, scope := range caller.Scopes {
			if id, ok := strings.CutPrefix(scope, scopeParent); ok {
				parent = id
			}
		}
		if err := identity.Live(tx, parent); err != nil {
			return err
		}
		_, err := tx.ConsumeToken(caller.TokenID)
		return err
	})
	return caller, parent, err
}

// ticketOf reads the subprotocols that the client offers.
func ticketOf(r *http.Request) (ticket string) {
	lane := false
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for word := range strings.SplitSeq(line, ",") {
			word = strings.TrimSpace(word)
			lane = lane || word == api.LaneProtocol
			if t, ok := strings.CutPrefix(word, api.TicketPrefix); ok {
				ticket = t
			}
		}
	}
	if !lane {
		return ""
	}
	return ticket
}

// checkOrigin refuses a browser page of another origin. Programs send no Origin.
func (l *Lanes) checkOrigin(r *http.Request) error {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || u.Host == "" ||
		!strings.EqualFold(u.Host, r.Host) && !slices.ContainsFunc(l.opt.Origins, func(o string) bool { return strings.EqualFold(o, u.Host) }) {
		return reason.Errorf(reason.OriginRefused, "no lanes for pages of %.100q", origins[0])
	}
	return nil
}
