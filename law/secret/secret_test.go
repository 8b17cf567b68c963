package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// No secret of a known shape stands in this file as one text: the scanners of
// forges would report it. random makes the parts when the tests run.
func random(seed uint64, chars string, n int) string {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = chars[r.IntN(len(chars))]
	}
	return string(b)
}

// mixed has all three classes of characters in it.
func mixed(n int) string { return "aB3" + random(3, alnum, n-3) }

func jwt(header string) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(`{"sub":"someone","iat":1}`)) + "." + random(5, word+"-", 43)
}

func pem(label, eol string) string {
	var b strings.Builder
	b.WriteString("-----BEGIN " + label + "-----" + eol)
	for i := range 4 {
		b.WriteString(random(uint64(i), alnum+"+/", 64) + eol)
	}
	b.WriteString("-----END " + label + "-----")
	return b.String()
}

func collect(s *Scanner, rules Rules, text string) []Finding {
	var out []Finding
	scan := s.Stream(rules, func(f Finding, got []byte) {
		if want := text[f.Offset : f.Offset+f.Length]; string(got) != want {
			panic(fmt.Sprintf("text %q at %d, want %q", got, f.Offset, want))
		}
		out = append(out, f)
	})
	_, _ = scan.Write([]byte(text))
	scan.Close()
	return out
}

func TestShapes(t *testing.T) {
	t.Parallel()
	gh := "gh" + "p_"
	tests := []struct{ name, kind, text string }{
		{"PKCS8 key", "private-key", pem("PRIVATE KEY", "\n")},
		{"RSA key with CRLF", "private-key", pem("RSA PRIVATE KEY", "\r\n")},
		{"OpenSSH key", "private-key", pem("OPENSSH PRIVATE KEY", "\n")},
		{"key in a JSON string", "private-key", pem("PRIVATE KEY", `\n`)},
		{"encrypted key", "private-key", strings.Replace(pem("RSA PRIVATE KEY", "\n"), "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233\n\n", 1)},
		{"PGP key", "private-key", strings.Replace(pem("PGP PRIVATE KEY BLOCK", "\n"), "-----\n", "-----\nVersion: GnuPG v2\n\n", 1)},
		{"AWS key id", "aws-access-key-id", "AK" + "IA" + random(1, base32Chars, 16)},
		{"AWS temporary key id", "aws-access-key-id", "AS" + "IA" + random(1, base32Chars, 16)},
		{"GitHub", "github-token", gh + random(1, alnum, 36)},
		{"GitHub app", "github-token", "gh" + "s_" + random(1, alnum, 40)},
		{"GitHub fine-grained", "github-token", "github" + "_pat_" + random(1, alnum, 22) + "_" + random(2, alnum, 59)},
		{"GitLab", "gitlab-token", "gl" + "pat-" + random(1, alnum, 20)},
		{"Slack", "slack-token", "xo" + "xb-123456789012-123456789012-" + random(1, alnum, 24)},
		{"Google", "google-api-key", "AI" + "za" + random(1, word+"-", 35)},
		{"Stripe", "stripe-key", "sk" + "_live_" + random(1, alnum, 24)},
		{"Stripe restricted", "stripe-key", "rk" + "_live_" + random(1, alnum, 24)},
		{"OpenAI", "openai-key", "sk" + "-" + mixed(48)},
		{"OpenAI project", "openai-key", "sk" + "-proj-" + random(1, word+"-", 80)},
		{"Anthropic", "anthropic-key", "sk" + "-ant-api03-" + random(1, word+"-", 90)},
		{"npm", "npm-token", "npm" + "_" + random(1, alnum, 36)},
		{"JWT", "jwt", jwt(`{"alg":"HS256","typ":"JWT"}`)},
		{"Remit", "remit-token", "rm" + "t_provider_p12ab_" + random(1, alnum, 32)},
	}
	s := New(nil)
	kinds := map[string]bool{}
	for _, test := range tests {
		kinds[test.kind] = true
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, around := range [][2]string{{"", ""}, {"a=", "\n"}, {`{"k":"`, `"}`}, {`x\n`, ` `}, {"q?t=1%26", "&u=1"}, {"\x1b[32m", "\x1b[0m"}, {"(", ")."}, {"`", "`"}} {
				text := around[0] + test.text + around[1]
				got := collect(s, All, text)
				if len(got) != 1 || got[0].Kind != test.kind || got[0].Offset != int64(len(around[0])) || got[0].Length < int64(len(test.text)) {
					t.Errorf("in %q: %+v, want one %s at %d of %d bytes", around, got, test.kind, len(around[0]), len(test.text))
				}
				if red := s.Redact(text); !strings.HasPrefix(red, around[0]+"[redacted:"+test.kind+"]") {
					t.Errorf("redacted: %q", red)
				}
			}
			if got := collect(s, Values, test.text); got != nil {
				t.Errorf("found without the rule: %+v", got)
			}
			// One character less, or inside of a word, is something else.
			if test.kind != "private-key" && len(collect(s, All, "x"+test.text)) != 0 {
				t.Errorf("found inside of a word")
			}
		})
	}
	// These two are found by what stands around them.
	kinds["aws-secret-access-key"], kinds["url-password"] = true, true
	for _, kind := range Kinds() {
		if !kinds[kind] {
			t.Errorf("no test of kind %s", kind)
		}
	}
}

func TestShapesByContext(t *testing.T) {
	t.Parallel()
	key, password := random(1, alnum+"+/", 40), "h"+"unter2!x"
	tests := []struct{ name, kind, before, secret, after string }{
		{"AWS in a file", "aws-secret-access-key", "aws_secret_access_key = ", key, "\n"},
		{"AWS in an environment", "aws-secret-access-key", "AWS_SECRET_ACCESS_KEY=", key, ""},
		{"AWS in JSON", "aws-secret-access-key", `"SecretAccessKey": "`, key, `"`},
		{"database", "url-password", "postgres://app:", password, "@db.corp.net:5432/x"},
		{"https", "url-password", "https://bot:", password, "@git.corp.net/x.git"},
		{"address", "url-password", "redis://u:", password, "@10.0.0.7"},
	}
	s := New(nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := test.before + test.secret + test.after
			got := collect(s, All, text)
			if len(got) != 1 || got[0].Kind != test.kind || text[got[0].Offset:got[0].Offset+got[0].Length] != test.secret {
				t.Errorf("%+v", got)
			}
			if want := test.before + "[redacted:" + test.kind + "]" + test.after; s.Redact(text) != want {
				t.Errorf("redacted %q, want %q", s.Redact(text), want)
			}
		})
	}
}

// TestNearMisses are texts that look like secrets and stand in ordinary
// repositories. A scanner that reports them is switched off.
func TestNearMisses(t *testing.T) {
	t.Parallel()
	s := New(nil)
	for name, text := range map[string]string{
		"first line of a key":      `if strings.HasPrefix(s, "-----BEGIN RSA PRIVATE KEY-----") {`,
		"key in prose":             "-----BEGIN PRIVATE KEY----- is what the file begins with and this sentence is quite long",
		"public key":               pem("PUBLIC KEY", "\n"),
		"certificate":              pem("CERTIFICATE", "\n"),
		"AWS documentation":        "AK" + "IAIOSFODNN7" + "EXAMPLE",
		"AWS secret documentation": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
		"AWS secret from a SHA-1":  "aws_secret_access_key = " + strings.Repeat("0123456789abcdef", 3)[:40],
		"AWS id too long":          "AK" + "IA" + random(1, base32Chars, 20),
		"AWS id in base64":         "xxAK" + "IA" + random(1, base32Chars, 16) + "=",
		"GitHub placeholder":       "gh" + "p_" + strings.Repeat("x", 36),
		"GitHub too short":         "gh" + "p_" + random(1, alnum, 35),
		"GitHub in a name":         "high" + "p_" + random(1, alnum, 36),
		"GitLab placeholder":       "gl" + "pat-xxxxxxxxxxxxxxxxxxxx",
		"Slack placeholder":        "xo" + "xb-your-token-goes-here-please",
		"Google too long":          "AI" + "za" + random(1, alnum, 36),
		"Stripe test key":          "sk" + "_test_" + random(1, alnum, 24),
		"dashed names":             "risk-assessment-of-the-whole-production-environment sk-folding-cube-with-a-very-long-name-and-more",
		"lower-case class":         "sk" + "-" + strings.Repeat("abcdefgh", 6),
		"npm too long":             "npm" + "_" + random(1, alnum, 37),
		"npm setting":              "npm" + "_config_user_agent npm_package_version",
		"JWT without a signature":  strings.Join(strings.Split(jwt(`{"alg":"HS256"}`), ".")[:2], "."),
		"JWT unsigned":             jwt(`{"alg":"none"}`),
		"JWT header without alg":   jwt(`{"typ":"JWT"}`),
		"JSON in base64":           base64.StdEncoding.EncodeToString([]byte(`{"a":"some ordinary document"}`)),
		"source map":               "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=",
		"Remit words":              "rm" + "t_something_else rmt_user_id",
		"URL without password":     "https://user@git.corp.net/x ssh://git@git.corp.net:22/x",
		"URL with a time":          "see http://a.net/12:30@noon",
		"URL local":                "postgres://app:S3cret" + "Word@localhost:5432/x amqp://a:b1c2d3e4@rabbitmq/",
		"URL documentation":        "https://user:pass" + "word@git.corp.net/ https://user:abcdefg1@example.com/",
		"URL variable":             "https://x:${TOKEN}@git.corp.net/ https://x:$TOKEN@git.corp.net https://x:%s@git.corp.net https://x:{{t}}@git.corp.net",
		"URL hidden":               "https://x:*****@git.corp.net https://me:[redacted:url-password]@git.corp.net",
		"two URLs":                 "http://a.net:80/ b@c.net, mailto:x@y.net",
		"hash":                     "sha256:" + strings.Repeat("0123456789abcdef", 4),
	} {
		if got := collect(s, All, text); got != nil {
			t.Errorf("%s: %+v in %q", name, got, text)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	value := "p4ss/w\"ord+\u00e9 & <more>" + random(9, alnum, 20)
	long := random(1, alnum, 3000)
	s := New([]Value{{"DEPLOY_TOKEN", value}, {"LONG_TOKEN", long}, {"PEM", pem("X", "\n")}})
	js, _ := json.Marshal(map[string]string{"k": value})
	var wrapped strings.Builder
	for i, c := range base64.StdEncoding.EncodeToString([]byte("some words before: " + value + " and after")) {
		if i%20 == 19 {
			wrapped.WriteString("\r\n")
		}
		wrapped.WriteRune(c)
	}
	tests := map[string]struct{ text, encoding string }{
		"raw":            {"x" + value + "y", "raw"},
		"long":           {"x" + long + "y", "raw"},
		"long in base64": {base64.StdEncoding.EncodeToString([]byte(long)), "base64"},
		"JSON":           {string(js), "json"},
		"JSON of slash":  {strings.ReplaceAll(string(js), "/", `\/`), "json"},
		"hex":            {hex.EncodeToString([]byte("abc" + value)), "hex"},
		"upper hex":      {strings.ToUpper(hex.EncodeToString([]byte(value))), "hex"},
		"query":          {"?t=" + url.QueryEscape(value), "url"},
		"path":           {"/" + url.PathEscape(value), "url"},
		"lower path":     {"/" + lowerEscapes(url.PathEscape(value)), "url"},
		"base64 0":       {base64.StdEncoding.EncodeToString([]byte(value)), "base64"},
		"base64 1":       {base64.StdEncoding.EncodeToString([]byte("x" + value + "y")), "base64"},
		"base64 2":       {base64.StdEncoding.EncodeToString([]byte("xy" + value)), "base64"},
		"base64 3":       {base64.RawURLEncoding.EncodeToString([]byte("xyz" + value + "\n")), "base64"},
		"wrapped base64": {wrapped.String(), "base64"},
		"key in JSON":    {strings.ReplaceAll(pem("X", "\n"), "\n", `\n`), "json"},
		"key":            {pem("X", "\r\n"), "raw"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := collect(s, All, test.text)
			if len(got) == 0 || got[0].Kind != Credential || got[0].Encoding != test.encoding {
				t.Fatalf("%+v, want %s in %q", got, test.encoding, test.text)
			}
			red := s.Redact(test.text)
			if len(collect(s, All, red)) != 0 || strings.Contains(red, value) {
				t.Errorf("left after redaction: %q", red)
			}
		})
	}
	if got := s.Redact("a" + value + "b"); got != "a[redacted:credential:DEPLOY_TOKEN]b" {
		t.Error(got)
	}
	if got := Redact("a"+value+"b", []Value{{"T", value}}); got != "a[redacted:credential:T]b" {
		t.Error(got)
	}
}

// TestNoFindingTellsTheSecret: what goes into evidence has nothing of it.
func TestNoFindingTellsTheSecret(t *testing.T) {
	t.Parallel()
	value := random(4, alnum, 30)
	got := collect(New([]Value{{"T", value}}), All, value)
	text, err := json.Marshal(got)
	if err != nil || len(got) != 1 || bytes.Contains(text, []byte(value[:8])) || len(got[0].Digest) != 8 {
		t.Errorf("%s, %v", text, err)
	}
}

func TestUnsearched(t *testing.T) {
	t.Parallel()
	fit := random(1, alnum, 20)
	s := New([]Value{{"EMPTY", ""}, {"SHORT", "abc1234"}, {"WORD", "Password"}, {"SAME", "aaaaaaaabbbb"}, {"DATE", "20261345"}, {"FIT", fit}, {"AGAIN", fit}})
	want := []Unsearched{{"EMPTY", "is empty"}, {"SHORT", "is shorter than 8 bytes"}, {"WORD", "is a common word"},
		{"SAME", "has fewer than 5 different bytes"}, {"DATE", "is a number of fewer than 12 digits"}}
	if s.Searched() != 1 || fmt.Sprint(s.NotSearched()) != fmt.Sprint(want) {
		t.Errorf("%d searched, not searched %v", s.Searched(), s.NotSearched())
	}
	var many []Value
	for i := range MaxValues + 3 {
		many = append(many, Value{fmt.Sprintf("T%d", i), random(uint64(i), alnum, 12)})
	}
	if s := New(many); s.Searched() != MaxValues || len(s.NotSearched()) != 3 {
		t.Errorf("%d searched, %d not", s.Searched(), len(s.NotSearched()))
	}
}

// TestOverlaps: what overlaps is one finding, and the credential's name wins.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	a, b := random(1, alnum, 20), random(2, alnum, 20)
	s := New([]Value{{"A", a + b[:10]}, {"B", b}, {"GH", "gh" + "p_" + random(1, alnum, 36)}})
	for text, want := range map[string]string{
		a + b:                                   "[redacted:credential:A]",
		b + b:                                   "[redacted:credential:B][redacted:credential:B]",
		"gh" + "p_" + random(1, alnum, 36):      "[redacted:credential:GH]",
		"https://u:" + b + "@git.corp.net":      "https://u:[redacted:credential:B]@git.corp.net",
		b + "gh" + "p_" + random(3, alnum, 36):  "[redacted:credential:B][redacted:github-token]",
		b[:19] + "\n" + b[19:] + " " + b[:19]:   "[redacted:credential:B] " + b[:19],
		strings.Repeat(b[:12]+"\n", 3) + b[12:]: b[:12] + "\n" + b[:12] + "\n[redacted:credential:B]",
	} {
		if got := s.Redact(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
