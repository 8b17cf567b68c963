package registry

import (
	"net/http"
	"strings"
	"testing"

	"remit/proof/reason"
)

// Where crates are is said by the registry, and led through the front.
func TestCratePlaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dl   string
		want int
	}{
		"without marks":            {"https://cdn.example/dl", 200},
		"with marks":               {"https://cdn.example/{prefix}/{lowerprefix}/{crate}-{version}.crate", 200},
		"own server":               {"https://r.example/dl", 200},
		"by a hash":                {"https://cdn.example/{sha256-checksum}", 403},
		"unknown mark":             {"https://cdn.example/{host}", 403},
		"no https":                 {"http://cdn.example/dl", 403},
		"loopback":                 {"https://127.0.0.1/dl", 403},
		"private name":             {"https://private.example/dl", 403},
		"host of the crate's name": {"https://{crate}/dl", 403},
		"file":                     {"file:///dl", 403},
		"nothing":                  {"", 403},
		"no URL":                   {"https://[", 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]http.HandlerFunc{"/dl/Serde/1.0.0/download": page("", "crate"), "/Se/rd/se/rd/Serde-1.0.0.crate": page("", "crate")}
			cdn := &table{pages: files}
			up := &table{pages: map[string]http.HandlerFunc{"/dl/Serde/1.0.0/download": page("", "crate"),
				"/config.json": page("application/json", `{"dl":"`+test.dl+`","api":"https://api.example","auth-required":true}`)}}
			w, _ := secure(t, Crates, "sparse+https://r.example/", up, cdn)
			code, body := w.get("/crates/config.json")
			if code == 200 && body != `{"dl":"`+w.base+`/crates/dl"}` {
				t.Errorf("the configuration is %s", body)
			}
			if code, body := w.get("/crates/dl/Serde/1.0.0/download"); code != test.want || code == 200 && body != "crate" {
				t.Errorf("%d %s", code, body)
			}
			for _, h := range cdn.heads {
				if h.Get("Authorization") != "" {
					t.Error("another host got the credential")
				}
			}
		})
	}
}

// The index of a crate is where its name says, and of that crate.
func TestCrateIndex(t *testing.T) {
	t.Parallel()
	line := func(name string) string { return `{"name":"` + name + `","vers":"1.0.0","deps":[]}` + "\n" }
	up := registryOf(t, map[string]http.HandlerFunc{
		"/1/a": page("", line("a")), "/2/ab": page("", line("ab")), "/3/a/abc": page("", line("abc")), "/se/rd/serde": page("", line("Serde")+line("serde")),
		"/ot/he/other": page("", line("serde")), "/br/ok/broken": page("", line("broken")+"<html>"), "/em/pt/empty": page("", ""),
	})
	w := open(t, Options{Upstreams: upstreams(Crates, up.URL)})
	for path, want := range map[string]int{"1/a": 200, "2/ab": 200, "3/a/abc": 200, "se/rd/serde": 200, "em/pt/empty": 200,
		"ot/he/other": 403, "br/ok/broken": 403, "ab/se/absent": 404} {
		code, body := w.get("/crates/" + path)
		if code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if d := one(t, w.Close(), "/crates/br/ok/broken"); d.Refused != reason.RegistryAnswer || strings.Contains(d.Why, "html") {
		t.Errorf("%+v", d)
	}
}
