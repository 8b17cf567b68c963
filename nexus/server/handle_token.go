package server

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"remit/nexus/api"
	"remit/nexus/authority"
	"remit/nexus/identity"
	"remit/nexus/registry"
	"remit/nexus/store"
	"remit/proof/reason"
)

func tokenRoutes() []route {
	return []route{
		query(api.GetWhoami, getWhoami),
		query(api.ListTokens, listTokens),
		mutation(api.CreateToken, createToken),
		mutation(api.RevokeToken, revokeToken),
	}
}

// How long tokens are good unless the request says so.
const (
	defaultTokenTTL = 90 * 24 * time.Hour
	registrationTTL = time.Hour
	maxTokenSeconds = 365 * 24 * 3600
)

// Everything a person may do with what is theirs.
var personScopes = []string{
	authority.ScopeRuns, authority.ScopeJobs, authority.ScopeProviders, authority.ScopeEnrol, authority.ScopeTreasury, authority.ScopeRead,
}

// AdminGrant is what the first token of a new deployment stands for.
func AdminGrant() identity.Grant {
	return identity.Grant{Kind: authority.User, Principal: "user:admin", Owner: "admin", Scopes: []string{authority.ScopeAdmin}}
}

func getWhoami(_ *store.Tx, r *request) (answer, error) {
	c := r.caller
	return answer{value: api.Whoami{Principal: c.ID, Kind: string(c.Kind), Owner: c.Owner, TokenID: c.TokenID,
		Scopes: slices.Concat([]string{}, c.Scopes), ExpiresAt: api.OptionalTime(c.ExpiresAt)}}, nil
}

func createToken(tx *store.Tx, r *request, body api.TokenRequest) (answer, error) {
	g, err := grantOf(r.caller, body)
	if err != nil {
		return answer{}, err
	}
	text, t, err := identity.Mint(tx, g)
	if err != nil {
		return answer{}, err
	}
	return answer{secret: true, value: api.TokenIssued{
		TokenID: t.ID, Token: text, Kind: t.Kind, Principal: t.Principal, Owner: t.Owner, Scopes: t.Scopes,
		OneTime: t.OneTime, ExpiresAt: api.TimeOf(t.ExpiresAt),
	}}, nil
}

// listTokens shows the credentials with their scopes and ends, and no secret: the
// store has none.
func listTokens(tx *store.Tx, r *request) (answer, error) {
	owner, err := ownerOf(r)
	if err != nil {
		return answer{}, err
	}
	p, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	var list []store.Token
	switch person := r.caller.Kind == authority.User || r.caller.Kind == authority.Panel; {
	case person || r.caller.Admin():
		after, err := tokensAfter(p.after)
		if err != nil {
			return answer{}, err
		}
		if list, err = tx.TokensOf(owner, string(identity.Ticket), after, p.limit); err != nil {
			return answer{}, err
		}
	case p.after == "": // a daemon has no business with the credentials of people
		itself, err := tx.Token(r.caller.TokenID)
		if err != nil {
			return answer{}, err
		}
		list = append(list, itself)
	}
	out := api.TokenPage{Items: []api.TokenInfo{}, NextCursor: p.next(len(list), func() string {
		last := list[len(list)-1]
		return fmt.Sprintf("%d %s", last.CreatedAt, last.ID)
	})}
	for _, t := range list {
		out.Items = append(out.Items, api.TokenInfo{
			TokenID: t.ID, Kind: t.Kind, Principal: t.Principal, Owner: t.Owner, Scopes: slices.Concat([]string{}, t.Scopes), OneTime: t.OneTime,
			Status: tokenStatus(t, tx.Now()), CreatedAt: api.TimeOf(t.CreatedAt), ExpiresAt: api.OptionalTime(t.ExpiresAt),
			UsedAt: api.OptionalTime(t.UsedAt), RevokedAt: api.OptionalTime(t.RevokedAt),
		})
	}
	return answer{value: out}, nil
}

// tokensAfter reads the place in a list of tokens.
func tokensAfter(text string) (after store.TokensAfter, err error) {
	if text == "" {
		return after, nil
	}
	if _, err := fmt.Sscanf(text, "%d %s", &after.CreatedAt, &after.ID); err != nil {
		e := reason.Errorf(reason.CursorInvalid, "the cursor is not one of this list")
		e.Field = "cursor"
		return after, e
	}
	return after, nil
}

func tokenStatus(t store.Token, now int64) string {
	switch {
	case t.RevokedAt != 0:
		return "revoked"
	case t.OneTime && t.UsedAt != 0:
		return "used"
	case t.Live(now):
		return "live"
	}
	return "expired"
}

// grantOf decides whether the caller may make such a token: with scopes that the
// caller has, and for another owner only as an administrator.
func grantOf(c identity.Caller, body api.TokenRequest) (identity.Grant, error) {
	owner := api.Value(body.Owner)
	if owner == "" {
		owner = c.Owner
	}
	g := identity.Grant{Kind: authority.Kind(body.Kind), Owner: owner, TTL: defaultTokenTTL}
	registration := g.Kind == authority.Registration
	switch {
	case !identity.ValidOwner(owner):
		return g, invalid("owner", "%.80q is not 1 to %d letters, digits, dots, dashes and underscores", owner, identity.MaxOwner)
	case !c.Admin() && owner != c.Owner:
		return g, &reason.Error{Code: reason.Forbidden, Field: "owner", Message: "only an administrator makes tokens for others"}
	case !c.Admin() && (!registration || !c.Has(authority.ScopeEnrol)):
		return g, reason.Errorf(reason.ScopeMissing, "the credential lacks the scope %s", authority.ScopeAdmin)
	}
	if seconds := body.ExpiresInSeconds; seconds != nil {
		if err := within("expires_in_seconds", seconds, 1, maxTokenSeconds); err != nil {
			return g, err
		}
		g.TTL = time.Duration(*seconds) * time.Second
	} else if registration {
		g.TTL = registrationTTL
	}
	for _, scope := range api.Value(body.Scopes) {
		if !slices.Contains(g.Scopes, string(scope)) {
			g.Scopes = append(g.Scopes, string(scope))
		}
	}
	g.OneTime = registration
	return g, complete(&g, c)
}

// complete fills in principal and scopes by kind.
func complete(g *identity.Grant, c identity.Caller) error {
	if g.Kind == authority.Registration {
		for _, scope := range g.Scopes {
			if scope != authority.ScopeEnrol && scope != authority.ScopePool {
				return invalid("scopes", "a registration token enrols, and does not %s", scope)
			}
		}
		if slices.Contains(g.Scopes, authority.ScopePool) && !c.Has(authority.ScopePool) {
			return reason.Errorf(reason.ScopeMissing, "the credential lacks the scope %s", authority.ScopePool)
		}
		if !slices.Contains(g.Scopes, authority.ScopeEnrol) {
			g.Scopes = append(g.Scopes, authority.ScopeEnrol)
		}
		return nil // a principal of its own: two machines may use the same key
	}
	if len(g.Scopes) == 0 {
		g.Scopes = personScopes
	}
	g.Principal = string(g.Kind) + ":" + g.Owner
	return nil
}

func revokeToken(tx *store.Tx, r *request, _ api.None) (answer, error) {
	t, err := tx.Token(r.PathValue("token_id"))
	if errors.Is(err, store.ErrNotFound) || err == nil && !r.caller.Owns(t.Owner) {
		return answer{}, reason.Errorf(reason.NotFound, "no token %.64q", r.PathValue("token_id"))
	}
	if err == nil {
		err = mayRevoke(r.caller, t)
	}
	if err != nil {
		return answer{}, err
	}
	// Before the token, as a registration locks them.
	of := authority.Principal{ID: t.Principal, Kind: authority.Kind(t.Kind)}
	if id := of.ProviderID(); id != "" && t.RevokedAt == 0 {
		if err := registry.Silence(tx, id); err != nil {
			return answer{}, err
		}
	}
	if err := tx.RevokeToken(t.ID); err != nil {
		return answer{}, err
	}
	if t, err = tx.Token(t.ID); err != nil {
		return answer{}, err
	}
	return answer{value: api.TokenRevoked{TokenID: t.ID, RevokedAt: api.TimeOf(t.RevokedAt)}}, nil
}

// mayRevoke decides whether a credential may end another one of its owner. All
// end themselves. A person ends what can do no more than the person's own
// credential, so that neither a daemon nor a token that leaked and only reads
// stops those that work; what is left is for an administrator.
func mayRevoke(c identity.Caller, t store.Token) error {
	if t.ID == c.TokenID || c.Admin() {
		return nil
	}
	needs := t.Scopes
	switch authority.Kind(t.Kind) {
	case authority.Provider:
		needs = []string{authority.ScopeProviders} // the scope that switches it off
	case authority.Registration:
		needs = append([]string{authority.ScopeEnrol}, t.Scopes...)
	}
	for _, scope := range needs {
		if !c.Has(scope) {
			return reason.Errorf(reason.ScopeMissing, "the credential lacks the scope %s, which ending that token needs", scope)
		}
	}
	if c.Kind != authority.User && c.Kind != authority.Panel {
		return reason.Errorf(reason.Forbidden, "a credential of kind %s ends itself, and no other", c.Kind)
	}
	return nil
}
