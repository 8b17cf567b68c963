//go:build !race

package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"remit/nexus/api"
)

// tokenSpoils break the credential.
func tokenSpoils() []spoil {
	set := func(name string, values func(m *maker, token string) []string) spoil {
		return spoil{"credential: " + name, func(m *maker, a *attempt) {
			a.header["Authorization"], a.token = values(m, a.token), ""
		}}
	}
	return []spoil{
		{"credential: none", func(_ *maker, a *attempt) { a.token = ""; a.header.Del("Cookie") }},
		{"credential: another owner", func(m *maker, a *attempt) { a.token = m.world.bob }},
		set("garbage", func(*maker, string) []string { return []string{"Bearer garbage"} }),
		set("twice", func(_ *maker, t string) []string { return []string{"Bearer " + t, "Bearer " + t} }),
		set("basic", func(_ *maker, t string) []string { return []string{"Basic " + t} }),
		set("cut", func(_ *maker, t string) []string { return []string{"Bearer " + t[:len(t)/2]} }),
		set("one digit off", func(_ *maker, t string) []string {
			return []string{"Bearer " + strings.TrimSuffix(t, t[max(0, len(t)-1):]) + "!"}
		}),
		set("long", func(*maker, string) []string { return []string{"Bearer rmt_user_" + strings.Repeat("a", 9000)} }),
		set("odd spaces", func(_ *maker, t string) []string { return []string{"bEARER   " + t + "  "} }),
	}
}

// keySpoils break the Idempotency-Key.
func keySpoils() []spoil {
	set := func(name string, values ...string) spoil {
		return spoil{"key: " + name, func(_ *maker, a *attempt) { a.header[api.HeaderKey], a.key = values, "" }}
	}
	return []spoil{
		set("missing"), set("empty", ""), set("twice", "a", "b"), set("overlong", strings.Repeat("k", maxKey+1)),
		set("two words", "a b"), set("not ASCII", "schlüssel"), set("tab", "a\tb"),
		{"key: used before", func(m *maker, a *attempt) { a.key = fmt.Sprintf("fuzz-%d", 1+m.n(max(1, m.keys))) }},
	}
}

// pathSpoils break what stands in the path and the query, and the method.
func pathSpoils() []spoil {
	var out []spoil
	for _, text := range []string{"%00", "..%2f..%2fetc%2fpasswd", "%ff%fe", "%20", "%2e%2e", "-1", "sha256:" + strings.Repeat("g", 64),
		strings.Repeat("x", 5000), url.PathEscape("日本語"), "run_" + strings.Repeat("0", 32), "*", "'%20OR%201=1%20--"} {
		out = append(out, spoil{fmt.Sprintf("path: %.20s", text), func(m *maker, a *attempt) {
			parts := strings.Split(a.op.path, "/")
			holes := slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return !strings.HasPrefix(p, "{") })
			if len(holes) == 0 {
				a.path += "/" + text
				return
			}
			target, query, _ := strings.Cut(a.path, "?")
			is := strings.Split(target, "/")
			is[slices.Index(parts, pick(m.dice, holes))] = text
			a.path = strings.Join(is, "/")
			if query != "" {
				a.path += "?" + query
			}
		}})
	}
	for _, text := range []string{"abc", "-1", "0", "1e3", "99999999999999999999", "%00", "%zz", "1&limit=2", strings.Repeat("9", 3000), ""} {
		out = append(out, spoil{fmt.Sprintf("query: %.20s", text), func(m *maker, a *attempt) {
			name := "unknown"
			for _, p := range a.op.Parameters {
				if p.In == "query" && (name == "unknown" || m.chance(40)) {
					name = p.Name
				}
			}
			target, _, _ := strings.Cut(a.path, "?")
			a.path = target + "?" + name + "=" + text
		}})
	}
	return append(out, spoil{"method", func(m *maker, a *attempt) {
		a.method = pick(m.dice, []string{"PATCH", "DELETE", "OPTIONS", "HEAD", "PUT", "POST", "GET", "TRACE", "BREW"})
	}})
}

// bodySpoils break the text of the body, or what it is said to be.
func bodySpoils() []spoil {
	text := func(name string, change func(body string) string) spoil {
		return spoil{"body: " + name, func(_ *maker, a *attempt) { a.body = change(a.body) }}
	}
	kind := func(name string) spoil {
		return spoil{"content type: " + name, func(_ *maker, a *attempt) { a.contentType = name }}
	}
	constant := func(s string) func(string) string { return func(string) string { return s } }
	return []spoil{
		text("empty", constant("")), text("null", constant("null")), text("array", constant("[]")), text("number", constant("1e999")),
		text("blank", constant(" \n\t")), text("not JSON", constant("{fence: 1}")), text("open string", constant(`{"a":"`)),
		text("cut", func(s string) string { return s[:len(s)/2] }), text("more behind", func(s string) string { return s + `{}` }),
		text("byte order mark", func(s string) string { return "\ufeff" + s }), text("not UTF-8", func(s string) string { return strings.Replace(s, `"`, "\"\xff", 1) }),
		text("NUL", func(s string) string { return strings.ReplaceAll(s, "a", "\x00") }), text("huge", func(s string) string { return s + strings.Repeat(" ", api.MaxBody) }),
		text("deep arrays", constant(strings.Repeat("[", 100_000))), text("deep objects", constant(strings.Repeat(`{"a":`, 100_000))),
		text("a key twice", func(s string) string {
			if inside, ok := strings.CutPrefix(s, "{"); ok && len(inside) > 1 {
				return "{" + strings.TrimSuffix(inside, "}") + "," + inside
			}
			return `{"a":1,"a":2}`
		}),
		kind(""), kind("text/plain"), kind("application/json; charset=latin1"), kind("application/x-www-form-urlencoded"),
		kind("multipart/form-data; boundary=x"), kind(";;;"), kind("application/octet-stream"), kind("application/JSON;charset=UTF-8"),
	}
}

// spoilValue makes the body again, with one value that breaks its schema.
func (m *maker) spoilValue(a *attempt) {
	s := a.op.Body.Content[jsonType].Schema
	if s == nil {
		return
	}
	text, err := json.Marshal(m.bad(s, m.value(s, "", 0)))
	if err != nil {
		panic(err)
	}
	a.contentType, a.body = jsonType, string(text)
	a.wrongs = append(a.wrongs, "in "+fmt.Sprintf("%.300s", text))
}

// bad changes a value, or one inside it.
func (m *maker) bad(s *schema, v any) any {
	s = m.resolve(s)
	if m.chance(15) {
		return pick(m.dice, []any{nil, true, "x", 7, 1.5, []any{}, []any{map[string]any{}}, map[string]any{}, json.RawMessage("1e400")})
	}
	switch v := v.(type) {
	case map[string]any:
		if s == nil || s.Properties == nil {
			return m.badDocument()
		}
		keys := slices.Sorted(maps.Keys(s.Properties))
		switch m.n(8) {
		case 0:
			v["no_such_member"] = 1
		case 1:
			if len(s.Required) > 0 {
				delete(v, pick(m.dice, s.Required))
			}
		case 2:
			key := pick(m.dice, keys)
			v[strings.ToUpper(key)] = v[key]
			delete(v, key)
		default:
			key := pick(m.dice, keys)
			if v[key] == nil {
				v[key] = m.value(s.Properties[key], key, 1)
			}
			v[key] = m.bad(s.Properties[key], v[key])
		}
		return v
	case []any:
		if len(v) > 0 && m.chance(60) {
			v[0] = m.bad(s.Items, v[0])
			return v
		}
		return slices.Repeat([]any{"x"}, max(s.MaxItems+1, 40))
	}
	switch s.Type {
	case "integer":
		list := []any{json.RawMessage("1e400"), json.RawMessage("9223372036854775808"), json.RawMessage("-9223372036854775809"),
			int64(math.MaxInt64), int64(math.MinInt64), int64(1) << 53, 1.5, json.RawMessage("1e2"), json.RawMessage("-0"), "1"}
		if s.Minimum != nil {
			list = append(list, *s.Minimum-1, *s.Minimum-1)
		}
		if s.Maximum != nil {
			list = append(list, *s.Maximum+1, *s.Maximum+1)
		}
		return pick(m.dice, list)
	case "object":
		return m.badDocument()
	}
	list := []any{"", "\x00", "a\nb", "\u202egnp.exe", json.RawMessage(`"\ud800"`), strings.Repeat("x", 70_000), 7, []any{"x"}, "..", "' OR 1=1 --", "🜁"}
	if s.MaxLength > 0 {
		list = append(list, strings.Repeat("y", s.MaxLength+1), strings.Repeat("ü", s.MaxLength))
	}
	return pick(m.dice, list)
}

// badDocument is JSON that may not be hashed, or is too much.
func (m *maker) badDocument() any {
	return json.RawMessage(pick(m.dice, []string{
		`{"a":1,"a":2}`, `{"a":1.123456}`, `{"a":9007199254740993}`, `{"ü":1}`, `{"a":"\ud800"}`, `{"a":1e400}`, `{"a":-0.0}`, `{"":{}}`, `{"a":"\u0000"}`,
		`{"text":{"text":[{}]}}`, strings.Repeat(`{"a":`, 63) + "1" + strings.Repeat("}", 63), strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		`{"text":"` + strings.Repeat("x", 66_000) + `"}`, `{"commands":[{"cmd":7}],"repo":[],"sandbox":null}`,
	}))
}
