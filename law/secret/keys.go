package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

const (
	keyBytes  = 16 << 10 // a private key of 16384 bits has 13 kB
	labelEnds = 64       // the label of a key block
	leastKey  = 40       // bytes of a key body that make it one

	jwtHeader  = 2 << 10
	jwtPayload = 8 << 10
	jwtBytes   = jwtHeader + jwtPayload + 2<<10
	leastSign  = 20

	urlBytes = 320
)

// keyBody are the bytes of a key between its two lines; in a JSON string its
// line breaks are the two bytes \n.
var keyBody = setOf(base64Chars + " \t\r\n\\")

// privateKey matches a PEM, OpenSSH or PGP private key block: a label that
// names one and the beginning of a body. The first line alone, as it stands in
// programs that look for keys, is no key.
func privateKey(w []byte, at, end int) (int, int, bool) {
	label, _, found := bytes.Cut(w[end:min(len(w), end+labelEnds)], []byte("-----"))
	if !found || !bytes.HasSuffix(bytes.TrimSuffix(label, []byte(" BLOCK")), []byte("PRIVATE KEY")) {
		return 0, 0, false
	}
	w = w[:min(len(w), at+keyBytes)]
	body := skipHeaders(w, end+len(label)+len("-----"))
	if line := base64Set.run(w, body, leastKey); line-body < leastKey {
		return 0, 0, false
	}
	to := keyBody.run(w, body, keyBytes)
	closing := []byte("-----END " + string(label) + "-----")
	// PGP has a line with a sum before the last line, and that is base64 too.
	if bytes.HasPrefix(w[to:], closing) {
		to += len(closing)
	}
	return at, to, true
}

// skipHeaders passes over the lines "Name: value" of an encrypted key.
func skipHeaders(w []byte, i int) int {
	for range 8 {
		i = skipBreaks(w, i)
		line := w[i:min(len(w), i+160)]
		stop := bytes.IndexByte(line, '\n')
		if escaped := bytes.Index(line, []byte(`\n`)); escaped >= 0 && (stop < 0 || escaped < stop) {
			stop = escaped
		}
		if stop < 0 || !bytes.Contains(line[:stop], []byte(": ")) {
			break
		}
		i += stop
	}
	return i
}

// skipBreaks passes over white space, also as it is written in a JSON string.
func skipBreaks(w []byte, i int) int {
	for i < len(w) {
		switch {
		case w[i] == ' ' || w[i] == '\t' || w[i] == '\r' || w[i] == '\n':
			i++
		case w[i] == '\\' && i+1 < len(w) && (w[i+1] == 'n' || w[i+1] == 'r'):
			i += 2
		default:
			return i
		}
	}
	return i
}

var base64URL = setOf(word + "-")

// jsonWebToken matches three base64url parts of which the first is a JSON
// object that names a signature algorithm.
func jsonWebToken(w []byte, at, _ int) (int, int, bool) {
	if !begins(w, at, base64URL) {
		return 0, 0, false
	}
	first := base64URL.run(w, at, jwtHeader)
	if first == len(w) || w[first] != '.' || !signed(w[at:first]) {
		return 0, 0, false
	}
	second := base64URL.run(w, first+1, jwtPayload)
	if second == first+1 || second == len(w) || w[second] != '.' {
		return 0, 0, false
	}
	to := base64URL.run(w, second+1, jwtBytes-(second+1-at))
	return at, to, to-second-1 >= leastSign
}

func signed(header []byte) bool {
	raw, err := base64.RawURLEncoding.DecodeString(string(header))
	if err != nil {
		return false
	}
	var h struct {
		Alg string `json:"alg"`
	}
	return json.Unmarshal(raw, &h) == nil && h.Alg != "" && !strings.EqualFold(h.Alg, "none")
}

var (
	schemeSet = setOf(alnum + "+.-")
	userSet   = urlPart(`/?#[]@: "'<>` + "`\\|{}")
	passSet   = urlPart(`/?#@ "'<>` + "`\\|")
	hostSet   = setOf(alnum + ".-_[]:")
)

// urlPart is every printable byte but some.
func urlPart(without string) *set {
	var s set
	for c := '!'; c < 0x7f; c++ {
		s[c] = strings.IndexByte(without, byte(c)) < 0
	}
	return &s
}

// urlPassword matches the password of scheme://user:password@host, unless it
// is a placeholder or the host is one that everybody has.
func urlPassword(w []byte, at, end int) (int, int, bool) {
	if at == 0 || !schemeSet[w[at-1]] {
		return 0, 0, false
	}
	colon := userSet.run(w, end, 96)
	if colon == len(w) || w[colon] != ':' {
		return 0, 0, false
	}
	from := colon + 1
	to := passSet.run(w, from, 128)
	if to == len(w) || w[to] != '@' || to == from {
		return 0, 0, false
	}
	host := w[to+1 : hostSet.run(w, to+1, 64)]
	ok := len(host) > 0 && !placeholder(string(w[from:to]), string(w[end:colon])) && !everybodys(strings.ToLower(string(host)))
	return from, to, ok
}

// placeholders are words that stand for a password in documentation and tests.
var placeholders = []string{"password", "passwd", "passw0rd", "pass", "pwd", "secret", "token", "example", "changeme", "redacted", "hidden", "test", "admin", "root", "guest"}

func placeholder(password, user string) bool {
	p := strings.ToLower(strings.Trim(password, "[](){}_-*.$%"))
	variable := strings.HasPrefix(password, "$") || strings.HasPrefix(password, "{") || strings.HasPrefix(password, "%(") || len(password) < 4
	if p == "" || variable || strings.HasPrefix(p, "redacted") || strings.EqualFold(password, user) {
		return true
	}
	for _, word := range placeholders {
		if p == word || p == "my"+word || p == "your"+word || p == "your_"+word || p == "your-"+word {
			return true
		}
	}
	var seen set
	count := 0
	for i := range len(p) {
		if !seen[p[i]] {
			seen[p[i]] = true
			count++
		}
	}
	return count < 3 // xxxx, 1212
}

// reserved are host names that lead nowhere, or to the machine itself.
var reserved = []string{"localhost", "local", "test", "example", "invalid", "example.com", "example.org", "example.net", "db", "database",
	"postgres", "mysql", "mariadb", "redis", "mongo", "mongodb", "rabbitmq", "host", "hostname", "server", "host.docker.internal"}

func everybodys(host string) bool {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.Trim(host[i+1:], digits) == "" {
		host = host[:i]
	}
	if strings.HasPrefix(host, "127.") || host == "0.0.0.0" || host == "[::1]" || host == "" {
		return true
	}
	for _, name := range reserved {
		if host == name || strings.HasSuffix(host, "."+name) {
			return true
		}
	}
	return false
}
