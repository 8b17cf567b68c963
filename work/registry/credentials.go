package registry

import (
	"context"
	"encoding/base64"
	"html"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"remit/proof/reason"
	"remit/work/edge"
	"remit/work/keycommand"
)

// Credentials are references to what private registries are entered with. They are
// lines of a file of the user's, and never of a repository: who may name a host and a
// variable has the variable. A line has the URL of a registry, how its credential is
// sent, and where it is:
//
//	https://npm.acme.example/private   bearer  env:ACME_NPM_TOKEN
//	https://pypi.acme.example/simple   basic   USER  file:/home/me/.secrets/pypi
//	https://crates.acme.example/index  token   command:pass show crates
//	https://go.acme.example            netrc   file:~/.netrc
//
// bearer is what npm sends for _authToken, basic a user with a password or token, token
// the header as it stands, as cargo sends it, and netrc the login of the host in such a
// file. A registry has the credential of the longest URL that its own begins with, part
// by part. It goes to the scheme, host and port of that URL, and nowhere else.
//
// A line `connect HOST` is none: it allows tunnels to that host, for repositories that
// ask for them.
type Credentials struct {
	lines   []credential
	tunnels []string
}

// Tunnels are the hosts that the user allows tunnels to.
func (c Credentials) Tunnels() []string { return c.tunnels }

type credential struct {
	number           int
	url              *url.URL
	kind, user, from string
}

// Surroundings are where references lead to.
type Surroundings struct {
	Getenv func(string) string
	Home   string // that "~/" means
	// Run starts a program outside of every sandbox, as the user.
	Run func(ctx context.Context, argv []string) ([]byte, error)
}

const (
	// MaxCredentialFile bounds the file of credentials, and each that it names.
	MaxCredentialFile = 64 << 10
	maxCredentials    = 100
	// leastSecret is the length from which on a value is looked for in answers.
	leastSecret = 8
)

const credentialHint = "write lines such as `https://npm.acme.example/private bearer env:ACME_NPM_TOKEN`; docs/environments.md has all forms"

// ReadCredentials reads the lines. Its errors have the number of a line and nothing
// that stands in it: it may be a credential that does not belong there.
func ReadCredentials(text []byte) (Credentials, error) {
	var c Credentials
	if len(text) > MaxCredentialFile {
		return c, reason.Errorf(reason.RegistryUnusable, "the file of credentials of registries has more than %d bytes", MaxCredentialFile)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if first, host := word(line); first == "connect" {
			if host = strings.ToLower(host); !publicName(host) || len(c.tunnels) == maxCredentials {
				return Credentials{}, credential{number: number}.problem("has no name of a public host behind connect, or is one too many").
					WithHint("write `connect repo.example.org`; the port is always 443")
			}
			c.tunnels = append(c.tunnels, host)
			continue
		}
		one, bad := readCredential(line)
		one.number = number
		for _, other := range c.lines {
			if bad == "" && other.url.String() == one.url.String() {
				bad = "names a URL a second time"
			}
		}
		if len(c.lines) == maxCredentials {
			bad = "is one too many"
		}
		if bad != "" {
			return Credentials{}, one.problem("%s", bad).WithHint(credentialHint)
		}
		c.lines = append(c.lines, one)
	}
	return c, nil
}

// readCredential reads one line, and says what is wrong with it.
func readCredential(line string) (c credential, bad string) {
	address, rest := word(line)
	var err error
	if c.url, err = baseURL(NPM, address); err != nil {
		return c, "does not begin with the URL of a registry: http or https, and no user, query or fragment in it"
	}
	if c.url.Scheme != "https" && !saysLocal(c.url.Hostname()) {
		return c, "has a URL without https: others on the way could read the credential"
	}
	switch c.kind, rest = word(rest); c.kind {
	case "bearer", "token":
	case "basic":
		if c.user, rest = word(rest); c.user == "" || strings.Contains(c.user, ":") {
			return c, "has no user name behind basic, or one with a colon"
		}
	case "netrc":
		if !strings.HasPrefix(rest, "file:") {
			return c, "has no file:PATH behind netrc"
		}
	default:
		return c, "does not say bearer, basic USER, token or netrc behind the URL"
	}
	c.from = rest
	kind, at, found := strings.Cut(rest, ":")
	switch {
	case !found || kind != "env" && kind != "file" && kind != "command" || at == "":
		return c, "names no env:NAME, file:PATH or command:PROGRAM at its end: a credential itself does not belong there"
	case kind == "env" && strings.ContainsAny(at, "= \t"):
		return c, "has a name of a variable with a blank or an equals sign in it"
	case kind == "file" && !filepath.IsAbs(at) && !strings.HasPrefix(at, "~/"):
		return c, "has a path that is not absolute, and does not begin with ~/"
	}
	return c, ""
}

// word splits the first word from the rest of a line.
func word(line string) (first, rest string) {
	at := strings.IndexAny(line, " \t")
	if at < 0 {
		return line, ""
	}
	return line[:at], strings.TrimLeft(line[at:], " \t")
}

func (c credential) problem(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.RegistryUnusable, "the file of credentials of registries: line %d "+format, append([]any{c.number}, args...)...)
}

// Enter gives a registry, and the further ones beside it, the credentials that the lines
// have for them. One that cannot be had is an error: without it, the registry would be
// asked as a stranger.
func (c Credentials) Enter(ctx context.Context, e Ecosystem, up Upstream, s Surroundings) (Upstream, error) {
	others := up.Others
	up.Others = nil
	for i, u := range append([]Upstream{up}, others...) {
		if line := c.of(e, u.URL); line != nil {
			auth, err := line.auth(ctx, s)
			if err != nil {
				return Upstream{}, err
			}
			u.Auth = auth
		}
		if i == 0 {
			up = u
		} else {
			up.Others = append(up.Others, u)
		}
	}
	return up, nil
}

// of is the line for a registry, nil for none.
func (c Credentials) of(e Ecosystem, address string) (found *credential) {
	u, err := baseURL(e, address)
	if err != nil {
		return nil // who asks it will say so
	}
	for i, line := range c.lines {
		below := strings.HasPrefix(u.EscapedPath()+"/", line.url.EscapedPath()+"/")
		own := line.url.Scheme == u.Scheme && hostPort(line.url) == hostPort(u)
		if own && below && (found == nil || len(line.url.Path) > len(found.url.Path)) {
			found = &c.lines[i]
		}
	}
	return found
}

// auth reads the credential that a line leads to.
func (c credential) auth(ctx context.Context, s Surroundings) (Auth, error) {
	value, bad := c.read(ctx, s)
	if bad == "" && c.kind == "netrc" {
		if c.user, value = netrcLogin(value, c.url.Hostname()); value == "" {
			bad = "leads to a netrc file that has no login and password for that host"
		}
	}
	value = strings.TrimSpace(value)
	switch {
	case bad != "":
	case value == "":
		bad = "leads to nothing: the variable is not set, or what is there is empty"
	case len(value) > keycommand.MaxOutput || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		bad = "leads to a credential that has several lines, or other characters than a header may have"
	}
	if bad != "" {
		return Auth{}, c.problem("%s", bad).WithHint("set what the line names, or correct the line; `remit env build` tries it alone")
	}
	switch c.kind {
	case "bearer":
		return Bearer(value), nil
	case "token":
		return Auth{header: value, secret: value}, nil
	}
	return Basic(c.user, value), nil
}

func (c credential) read(ctx context.Context, s Surroundings) (value, bad string) {
	kind, at, _ := strings.Cut(c.from, ":")
	switch kind {
	case "env":
		return s.Getenv(at), ""
	case "command":
		argv, err := keycommand.Split(at)
		if err != nil {
			return "", "has a command that cannot be split into words"
		}
		out, err := s.Run(ctx, argv)
		if err != nil {
			return "", "has a command that failed, or printed too much" // its own words may hold the credential
		}
		return string(out), ""
	}
	if rest, ok := strings.CutPrefix(at, "~/"); ok {
		at = filepath.Join(s.Home, rest)
	}
	text, err := edge.ReadFile(at, MaxCredentialFile)
	if err != nil {
		return "", "leads to a file that cannot be read: " + err.Error()
	}
	return string(text), ""
}

// netrcLogin is the login and password of a host. The entry "default" is for every
// host, and so for none here.
func netrcLogin(text, host string) (login, password string) {
	words, mine := strings.Fields(text), false
	for i := 0; i+1 < len(words); i++ {
		switch value := words[i+1]; words[i] {
		case "machine":
			if login != "" && password != "" {
				return login, password
			}
			mine, login, password = value == host, "", ""
			i++
		case "default":
			mine = mine && login != "" && password != ""
		case "macdef":
			return "", "" // what follows is no entry
		case "login", "password", "account":
			if mine && words[i] == "login" {
				login = value
			} else if mine && words[i] == "password" {
				password = value
			}
			i++
		}
	}
	if login == "" {
		password = ""
	}
	return login, password
}

// Basic is a user with a password or token.
func Basic(user, password string) Auth {
	return Auth{header: "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), secret: password}
}

// Bearer is a token.
func Bearer(token string) Auth { return Auth{header: "Bearer " + token, secret: token} }

// in reports whether a text repeats the credential, as it is or behind escapes: those of
// JSON, of HTML and of URLs, one within another too.
func (a Auth) in(text string) bool {
	_, packed, _ := strings.Cut(a.header, " ")
	if max(len(a.secret), len(packed)) < leastSecret {
		return false
	}
	for range maxEscapes {
		if len(a.secret) >= leastSecret && strings.Contains(text, a.secret) || len(packed) >= leastSecret && strings.Contains(text, packed) {
			return true
		}
		was := text
		if text = unescaped(text); text == was {
			return false
		}
	}
	return false
}

// maxEscapes is how many escapes within each other are undone.
const maxEscapes = 5

// unescaped undoes one layer of escapes: \u0041 and \/ of JSON, %41 of URLs, &#65; and &amp; of
// HTML. What only looks like one stays.
func unescaped(text string) string {
	first := strings.IndexAny(text, `\%&`)
	if first < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for {
		b.WriteString(text[:first])
		text = text[first:]
		meant, n := escape(text)
		b.WriteString(meant)
		text = text[n:]
		if first = strings.IndexAny(text, `\%&`); first < 0 {
			b.WriteString(text)
			return b.String()
		}
	}
}

// escape is what stands at the beginning of a text, and how many bytes it takes.
func escape(text string) (meant string, n int) {
	hex := func(from, to int) (rune, bool) {
		if len(text) < to {
			return 0, false
		}
		v, err := strconv.ParseUint(text[from:to], 16, 32)
		return rune(v), err == nil
	}
	switch {
	case text[0] == '%':
		if v, ok := hex(1, 3); ok {
			return string([]byte{byte(v)}), 3
		}
	case text[0] == '&':
		near := text[1:min(len(text), maxEntity)]
		end := 1 + len(near) - len(strings.TrimLeft(near, "#0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		if end < len(text) && text[end] == ';' {
			end++
		}
		if meant = html.UnescapeString(text[:end]); meant != text[:end] {
			return meant, end
		}
	case len(text) > 1 && text[1] == 'u':
		if v, ok := hex(2, 6); ok {
			return string(v), 6 // halves of a pair are no characters of a credential
		}
	case len(text) > 1 && strings.IndexByte(`/"\`, text[1]) >= 0:
		return text[1:2], 2
	}
	return text[:1], 1
}

// maxEntity is more than a character takes in HTML, with zeros in front.
const maxEntity = 32
