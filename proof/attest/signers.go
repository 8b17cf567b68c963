package attest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	maxSignersFile = 1 << 20 // bytes
	maxSignersLine = 8 << 10 // bytes
	maxSigners     = 10_000
)

// Vouched is what one key has signed of what an auditor looks at. The signatures verify.
type Vouched struct {
	Key     string   `json:"key"`            // its fingerprint, as ssh-keygen shows it
	Name    string   `json:"name,omitempty"` // its principals, where the auditor trusts it
	Trusted bool     `json:"trusted"`        // for receipts, at the time of the run
	Revoked bool     `json:"revoked,omitempty"`
	Files   []string `json:"files"`
}

// Signers are the keys that an auditor trusts, read from an allowed_signers
// file. The zero value trusts no key.
type Signers struct{ list []signer }

// signer is one line: a key, whose it is, and what it may sign.
type signer struct {
	principals string
	key        PublicKey
	namespaces []string // patterns; nil for every namespace
	after      time.Time
	before     time.Time // both zero without a limit
}

// otherKeyTypes are those of OpenSSH that sign nothing here. Their lines are
// passed over: such a key verifies no receipt, and a file for git has them.
var otherKeyTypes = []string{"ssh-rsa", "ssh-dss", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
	"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}

// ParseSigners reads an allowed_signers file: lines of principals, options,
// key type, base64 and a comment. The options are namespaces="PATTERNS",
// valid-after="TIME" and valid-before="TIME", where a time is
// YYYYMMDD[HHMM[SS]]Z: in UTC only, so that the file means the same everywhere.
// Every other option is an error, cert-authority among them: trust in an
// authority would need its certificates to be checked.
func ParseSigners(text []byte) (*Signers, error) {
	if len(text) > maxSignersFile {
		return nil, fmt.Errorf("an allowed signers file has at most %d bytes", maxSignersFile)
	}
	out := new(Signers)
	if err := eachLine(text, out.add); err != nil {
		return nil, err
	}
	return out, nil
}

// eachLine calls add for the lines of a list that say something: those that are not
// empty and do not begin with #.
func eachLine(text []byte, add func(line []byte) error) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.Trim(bytes.TrimSuffix(line, []byte("\r")), " \t")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if err := add(line); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return nil
}

// parseTyped reads a key that stands behind its type. ok is false for a key of
// another type, which signs nothing here.
func parseTyped(words []string) (key PublicKey, ok bool, err error) {
	switch {
	case slices.Contains(otherKeyTypes, words[0]):
		return key, false, nil
	case words[0] != keyType:
		return key, false, fmt.Errorf("unknown key type %.40q", words[0])
	}
	key, err = parseEncoded(words[1])
	return key, err == nil, err
}

func (s *Signers) add(line []byte) error {
	if len(line) > maxSignersLine || len(s.list) >= maxSigners {
		return fmt.Errorf("a line has at most %d bytes, and a file %d keys", maxSignersLine, maxSigners)
	}
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errors.New("a control character")
		}
	}
	words, err := splitQuoted(string(line))
	if err != nil {
		return err
	}
	entry := signer{}
	if entry.principals = unquote(words[0]); entry.principals == "" || strings.Contains(entry.principals, `"`) {
		return errors.New("no principals")
	}
	if !slices.ContainsFunc(strings.Split(entry.principals, ","), func(p string) bool { return p != "" && p[0] != '!' }) {
		return errors.New("the principals allow no name: each is empty or begins with an exclamation mark")
	}
	words = words[1:]
	if len(words) > 0 && words[0] != keyType && !slices.Contains(otherKeyTypes, words[0]) {
		if err := entry.options(words[0]); err != nil {
			return err
		}
		words = words[1:]
	}
	if len(words) < 2 {
		return errors.New("no key")
	}
	var ok bool
	if entry.key, ok, err = parseTyped(words); ok {
		s.list = append(s.list, entry)
	}
	return err
}

// options reads the comma-separated options of a line.
func (e *signer) options(text string) error {
	seen := map[string]bool{}
	for len(text) > 0 {
		var option string
		option, text = cutOption(text)
		name, value, valued := strings.Cut(option, "=")
		name = strings.ToLower(name)
		if seen[name] {
			return fmt.Errorf("option %.40q is there twice", name)
		}
		seen[name] = true
		if name == "cert-authority" {
			return errors.New("cert-authority is not supported: list the keys themselves")
		}
		if !valued || len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
			return fmt.Errorf("option %.40q: not NAME=\"VALUE\" with a known name", option)
		}
		if err := e.option(name, value[1:len(value)-1]); err != nil {
			return fmt.Errorf("option %.40q: %w", name, err)
		}
	}
	if !e.after.IsZero() && !e.before.IsZero() && !e.after.Before(e.before) {
		return errors.New("valid-before is not behind valid-after")
	}
	return nil
}

func (e *signer) option(name, value string) (err error) {
	switch name {
	case "namespaces":
		if value == "" {
			return errors.New("is empty")
		}
		e.namespaces = strings.Split(value, ",")
	case "valid-after":
		e.after, err = parseValidity(value)
	case "valid-before":
		e.before, err = parseValidity(value)
	default:
		err = errors.New("is not known")
	}
	return err
}

// parseValidity reads a time of valid-after and valid-before.
func parseValidity(text string) (time.Time, error) {
	digits, utc := strings.CutSuffix(text, "Z")
	if !utc {
		return time.Time{}, errors.New("a time must end in Z: without it, it would depend on the time zone of the machine")
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(digits) == len(layout) {
			return time.Parse(layout, digits)
		}
	}
	return time.Time{}, errors.New("a time is YYYYMMDD[HHMM[SS]]Z")
}

// Find returns the principals, as they are written, of the first line that
// trusts a key to sign for a namespace at a time. A line with a validity never
// does when at is zero.
func (s *Signers) Find(key PublicKey, namespace string, at time.Time) (principals string, ok bool) {
	if s == nil {
		return "", false
	}
	for _, e := range s.list {
		if e.key == key && key != (PublicKey{}) && e.covers(namespace, at) {
			return e.principals, true
		}
	}
	return "", false
}

// Key returns the key of the list that has a fingerprint.
func (s *Signers) Key(fingerprint string) (key PublicKey, ok bool) {
	if s == nil {
		return PublicKey{}, false
	}
	for _, e := range s.list {
		if e.key.Fingerprint() == fingerprint {
			return e.key, true
		}
	}
	return PublicKey{}, false
}

// Keys are the keys of the list.
func (s *Signers) Keys() (keys []PublicKey) {
	if s == nil {
		return nil
	}
	for _, e := range s.list {
		keys = append(keys, e.key)
	}
	return keys
}

func (e *signer) covers(namespace string, at time.Time) bool {
	if at.IsZero() && (!e.after.IsZero() || !e.before.IsZero()) {
		return false
	}
	if !e.after.IsZero() && at.Before(e.after) || !e.before.IsZero() && !at.Before(e.before) {
		return false
	}
	return e.namespaces == nil || matchList(e.namespaces, namespace)
}

// Line is a line of an allowed_signers file that trusts a key to sign for the
// given namespaces, without any: receipts. The name is one word of at most 200
// bytes that is no pattern.
func Line(name string, key PublicKey, namespaces ...string) (string, error) {
	if name == "" || len(name) > 200 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",*?!#\`, c) }) {
		return "", errors.New(`a signer's name is one word of at most 200 ASCII characters, without " , * ? ! # \`)
	}
	if len(namespaces) == 0 {
		namespaces = []string{NamespaceReceipt}
	}
	return fmt.Sprintf("%s namespaces=%q %s", name, strings.Join(namespaces, ","), key), nil
}

// splitQuoted splits a line at spaces and tabs outside of double quotes. Quotes
// stay in their words.
func splitQuoted(line string) ([]string, error) {
	var words []string
	word, quoted := -1, false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
			if word < 0 {
				word = i
			}
		case (c == ' ' || c == '\t') && !quoted:
			if word >= 0 {
				words = append(words, line[word:i])
			}
			word = -1
		case word < 0:
			word = i
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if word >= 0 {
		words = append(words, line[word:])
	}
	return words, nil
}

// unquote takes the quotes off a word that is quoted as a whole.
func unquote(word string) string {
	if len(word) >= 2 && word[0] == '"' && word[len(word)-1] == '"' {
		return word[1 : len(word)-1]
	}
	return word
}

// cutOption cuts the first option off a list; a comma inside of quotes does not
// end it.
func cutOption(text string) (option, rest string) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// matchList holds a name against a list of patterns (ssh_config(5)): one that
// begins with ! refuses what it matches, and one other at least must match.
func matchList(patterns []string, name string) bool {
	matched := false
	for _, p := range patterns {
		negated := strings.HasPrefix(p, "!")
		if match(strings.TrimPrefix(p, "!"), name) {
			if negated {
				return false
			}
			matched = true
		}
	}
	return matched
}

// match holds a name against one pattern, in which ? is one byte and * is any
// number of them. Its time is at most the product of both lengths.
func match(pattern, name string) bool {
	p, n, star, again := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, again = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			again++
			p, n = star+1, again
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Revoked are keys whose signatures count no more, whatever they were made for
// and whenever they say that they were. The zero value has none.
type Revoked struct{ keys map[PublicKey]bool }

// ParseRevoked reads a list of revoked keys as `ssh-keygen -Y verify -r` takes it: one
// public key a line, with or without a comment; empty lines and lines that begin with
// # say nothing. Keys of other types are passed over, since they sign nothing here. A
// line that is not understood is an error: it could be the one that takes trust away.
func ParseRevoked(text []byte) (*Revoked, error) {
	if len(text) > maxSignersFile {
		return nil, fmt.Errorf("a list of revoked keys has at most %d bytes", maxSignersFile)
	}
	out := &Revoked{keys: map[PublicKey]bool{}}
	if err := eachLine(text, out.add); err != nil {
		return nil, err
	}
	return out, nil
}

func (r *Revoked) add(line []byte) error {
	words := strings.Fields(string(line))
	switch {
	case len(line) > maxSignersLine || len(r.keys) >= maxSigners:
		return fmt.Errorf("a line has at most %d bytes, and a list %d keys", maxSignersLine, maxSigners)
	case len(words) < 2:
		return errors.New("a public key is a type and base64")
	}
	key, ok, err := parseTyped(words)
	if ok {
		r.keys[key] = true
	}
	return err
}

// Has reports whether a key is revoked.
func (r *Revoked) Has(key PublicKey) bool { return r != nil && r.keys[key] }
