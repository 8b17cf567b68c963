package secret

import "strings"

// shape is a form that stands for a secret wherever it is found.
type shape struct {
	kind    string
	anchors []string
	reach   int // bytes from the anchor that match may look at
	// match looks at the text w, in which an anchor is at w[at:end], and says
	// where the secret is. It looks at most lookBehind bytes before at.
	match func(w []byte, at, end int) (from, to int, ok bool)
}

// lookBehind is how many bytes before an anchor a match may look at.
const lookBehind = 64

// tokenBytes bounds a token; longer words are something else.
const tokenBytes = 1024

// shapes is the table of key shapes. Issuers' names are their own.
var shapes = []shape{
	{kind: "private-key", anchors: []string{"-----BEGIN "}, reach: keyBytes, match: privateKey},
	{kind: "aws-access-key-id", anchors: []string{"AKIA", "ASIA"}, reach: 32, match: awsKeyID},
	{kind: "aws-secret-access-key", anchors: []string{"ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"}, reach: 96, match: awsSecretKey},
	{kind: "github-token", anchors: []string{"ghp_", "gho_", "ghs_", "ghu_", "ghr_"}, reach: tokenBytes, match: token(alnum, 36)},
	{kind: "github-token", anchors: []string{"github_pat_"}, reach: tokenBytes, match: token(word, 60)},
	{kind: "gitlab-token", anchors: []string{"glpat-"}, reach: tokenBytes, match: token(word+"-.", 20)},
	{kind: "slack-token", anchors: []string{"xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"}, reach: tokenBytes, match: slackToken},
	{kind: "google-api-key", anchors: []string{"AIza"}, reach: 64, match: exact(word+"-", 35)},
	{kind: "stripe-key", anchors: []string{"sk_live_", "rk_live_"}, reach: tokenBytes, match: token(alnum, 20)},
	{kind: "anthropic-key", anchors: []string{"sk-ant-"}, reach: tokenBytes, match: token(word+"-", 32)},
	{kind: "openai-key", anchors: []string{"sk-proj-", "sk-svcacct-", "sk-admin-"}, reach: tokenBytes, match: token(word+"-", 32)},
	{kind: "openai-key", anchors: []string{"sk-"}, reach: tokenBytes, match: openAIKey},
	{kind: "npm-token", anchors: []string{"npm_"}, reach: 64, match: exact(alnum, 36)},
	{kind: "jwt", anchors: []string{"eyJ"}, reach: jwtBytes, match: jsonWebToken},
	{kind: "remit-token", anchors: []string{"rmt_"}, reach: tokenBytes, match: remitToken},
	{kind: "url-password", anchors: []string{"://"}, reach: urlBytes, match: urlPassword},
}

// Kinds lists the kinds of shapes that are known, each once.
func Kinds() []string {
	var out []string
	for _, s := range shapes {
		if len(out) == 0 || out[len(out)-1] != s.kind {
			out = append(out, s.kind)
		}
	}
	return out
}

const (
	digits      = "0123456789"
	alnum       = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + digits
	word        = alnum + "_"
	base32Chars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	base64Chars = alnum + "+/="
)

// set is a set of bytes.
type set [256]bool

func setOf(chars string) *set {
	var s set
	for i := range len(chars) {
		s[chars[i]] = true
	}
	return &s
}

var (
	dashedSet = setOf(word + "-")
	alnumSet  = setOf(alnum)
	digitSet  = setOf(digits)
	hexSet    = setOf(digits + "abcdefABCDEF")
	base32Set = setOf(base32Chars)
	base64Set = setOf(base64Chars)
)

// run is the end of the bytes of a set from i on, at most limit of them.
func (s *set) run(w []byte, i, limit int) int {
	end := min(len(w), i+limit)
	for i < end && s[w[i]] {
		i++
	}
	return i
}

// token matches an anchor at the beginning of a word and at least least bytes
// of a set behind it.
func token(chars string, least int) func(w []byte, at, end int) (int, int, bool) {
	allowed := setOf(chars)
	return func(w []byte, at, end int) (int, int, bool) {
		if !begins(w, at, dashedSet) {
			return 0, 0, false
		}
		to := allowed.run(w, end, tokenBytes-(end-at))
		return at, to, to-end >= least && varied(w[end:to])
	}
}

// exact matches an anchor at the beginning of a word and exactly n bytes of a
// set behind it.
func exact(chars string, n int) func(w []byte, at, end int) (int, int, bool) {
	allowed := setOf(chars)
	return func(w []byte, at, end int) (int, int, bool) {
		if !begins(w, at, dashedSet) {
			return 0, 0, false
		}
		to := allowed.run(w, end, n+1)
		return at, to, to-end == n && varied(w[end:to])
	}
}

func openAIKey(w []byte, at, end int) (int, int, bool) {
	if !begins(w, at, dashedSet) {
		return 0, 0, false
	}
	to := alnumSet.run(w, end, tokenBytes-(end-at))
	var lower, upper, digit bool
	for _, c := range w[end:to] {
		lower, upper, digit = lower || c >= 'a', upper || c >= 'A' && c <= 'Z', digit || c <= '9'
	}
	// A dashed name has no capitals and digits mixed.
	return at, to, to-end >= 32 && lower && upper && digit && varied(w[end:to])
}

func slackToken(w []byte, at, end int) (int, int, bool) {
	if !begins(w, at, dashedSet) {
		return 0, 0, false
	}
	to := dashedSet.run(w, end, tokenBytes-(end-at))
	count := 0
	for _, c := range w[end:to] {
		if digitSet[c] {
			count++
		}
	}
	return at, to, to-end >= 24 && count >= 6 && varied(w[end:to])
}

// remitToken is rmt_<kind>_<id>_<secret>.
func remitToken(w []byte, at, end int) (int, int, bool) {
	if !begins(w, at, dashedSet) {
		return 0, 0, false
	}
	to := dashedSet.run(w, end, tokenBytes-(end-at))
	kind, rest, _ := strings.Cut(string(w[end:to]), "_")
	id, key, found := strings.Cut(rest, "_")
	ok := found && len(kind) >= 2 && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz-") == "" && id != "" && len(key) >= 16
	return at, to, ok && varied([]byte(key))
}

func awsKeyID(w []byte, at, end int) (int, int, bool) {
	to := base32Set.run(w, end, 17)
	ok := to-end == 16 && (to == len(w) || !alnumSet[w[to]]) && begins(w, at, alnumSet)
	return at, to, ok && varied(w[end:to]) && !example(w[end:to])
}

// awsSecretKey is 40 base64 characters that something calls by its name.
func awsSecretKey(w []byte, _, end int) (int, int, bool) {
	from := end
	for from < min(len(w), end+12) && strings.IndexByte(" \t:=>\"'\\", w[from]) >= 0 {
		from++
	}
	to := base64Set.run(w, from, 41)
	text := w[from:to]
	return from, to, from > end && to-from == 40 && varied(text) && hexSet.run(w, from, 40) != to && !example(text)
}

// example recognises the keys that the issuer's own documentation uses.
func example(text []byte) bool { return strings.Contains(string(text), "EXAMPLE") }

// varied reports whether text may be random: a placeholder repeats a letter.
func varied(text []byte) bool {
	var seen set
	count := 0
	for _, c := range text {
		if !seen[c] {
			seen[c] = true
			count++
		}
	}
	return count >= 6
}

// begins reports whether a word begins at w[at]: what stands before is none of
// its own bytes, or is the end of an escape (\n, \u003d, %3D, a colour).
func begins(w []byte, at int, inside *set) bool {
	if at == 0 || !inside[w[at-1]] {
		return true
	}
	switch before := w[max(0, at-lookBehind):at]; {
	case len(before) >= 2 && before[len(before)-2] == '\\' && strings.IndexByte("nrtbfv0", before[len(before)-1]) >= 0:
		return true
	case len(before) >= 3 && before[len(before)-3] == '%' && allIn(hexSet, before[len(before)-2:]):
		return true
	case len(before) >= 6 && before[len(before)-6] == '\\' && before[len(before)-5] == 'u' && allIn(hexSet, before[len(before)-4:]):
		return true
	case before[len(before)-1] == 'm':
		i := len(before) - 1
		for i > 0 && (digitSet[before[i-1]] || before[i-1] == ';') {
			i--
		}
		return i > 0 && before[i-1] == '['
	}
	return false
}

func allIn(s *set, b []byte) bool { return s.run(b, 0, len(b)) == len(b) }
