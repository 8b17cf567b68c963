package registry

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// sites are registries of every ecosystem whose grammars are read, and of which
// nothing is asked.
func sites(t testing.TB) map[Ecosystem]*site {
	f, err := New(Options{Allow: anything, Upstreams: Defaults()})
	if err != nil {
		t.Fatal(err)
	}
	return f.sites
}

// FuzzPaths: what is read of a path is a name and a place that are clean, short, and
// written in one form: reading that form again gives the same.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{
		"/npm/left-pad", "/npm/@a%2fb", "/npm/@a/b/-/b-1.0.0-rc.1+x.tgz", "/npm/x/-/x-1.0.0.tgz", "/npm/%40a%2Fb", "/npm/x/-/x-01.0.0.tgz", "/npm/@a/../b", "/npm/x%00",
		"/pypi/simple/My.Pkg/", "/pypi/simple/a", "/pypi/file/x/x-1.0-py3-none-any.whl", "/pypi/file/x/x-1.0.tar.gz.metadata", "/pypi/file/x/x-1%2B0.zip", "/pypi/simple//",
		"/go/example.org/!m/@v/list", "/go/example.org/m/v2/@v/v2.0.0.zip", "/go/example.org/%21m/@latest", "/go/sumdb/sum.golang.org/tile/8/0/x001/234.p/5",
		"/go/sumdb/sum.golang.org/lookup/example.org/m@v1.0.0", "/go/sumdb/sum.golang.org/latest", "/go/example.org/m/@v/v1.0.0+incompatible.info", "/go/@v/list",
		"/crates/config.json", "/crates/1/a", "/crates/se/rd/serde", "/crates/dl/Serde/1.0.0/download", "/crates/3/a/abc", "/crates/ab/c/abc",
		"/debian/pool/updates/main/j/jq/jq_1.6-2.1+deb12u3_amd64.deb", "/debian/pool/main/libx/libx/libx++_1~rc1_all.deb", "/debian/pool/jq_1_all.deb", "/debian/dists/x",
		"/rubygems/gems/nokogiri-1.16.0-x86_64-linux.gem", "/rubygems/gems/tool-kit-2.0.0.rc1.gem", "/rubygems/info/rails", "/rubygems/info/a..b", "/rubygems/gems/a-1.gem.gem", "/rubygems/versions",
		"//", "/", "", "/npm/..%2f..%2fx", "/npm/%252e", "/go/..//", "/npm/\\", "http://evil/npm/x", "/npm/x?y", "*", "/npm/é",
	} {
		f.Add(seed)
	}
	all := sites(f)
	f.Fuzz(func(t *testing.T, target string) {
		e, q := reading(all, target)
		if q == nil {
			return
		}
		for what, s := range map[string]string{"name": q.pkg.Name, "version": q.pkg.Version, "path": q.path, "place": q.at} {
			if len(s) > MaxPath+len("sumdb/") || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!+@/%") != "" {
				t.Fatalf("%q has the %s %q", target, what, s)
			}
			for part := range strings.SplitSeq(s, "/") {
				if part == "." || part == ".." {
					t.Fatalf("%q has dots in the %s %q", target, what, s)
				}
			}
		}
		if q.pkg.Ecosystem != e || q.pkg.Name == "" || (q.at == "") == (q.find == nil) && e != NPM {
			t.Fatalf("%q is read as %+v", target, q)
		}
		if q.at != "" {
			base := all[e].up
			if u := base.at(q.at); !base.owns(u) || !strings.HasPrefix(u.EscapedPath(), base.base.EscapedPath()+"/") || u.RawQuery != "" || u.Fragment != "" {
				t.Fatalf("%q leads to %s", target, u)
			}
		}
		_, again := reading(all, "/"+string(e)+"/"+q.path)
		if again == nil || again.pkg != q.pkg || again.path != q.path || again.at != q.at {
			t.Fatalf("%q is read as %+v, and that as %+v", target, q, again)
		}
	})
}

// reading is what a target is read as, nil when it is refused.
func reading(all map[Ecosystem]*site, target string) (Ecosystem, *question) {
	parts, err := segments(target)
	if err != nil || len(parts) < 2 || all[Ecosystem(parts[0])] == nil {
		return "", nil
	}
	e := Ecosystem(parts[0])
	q, err := grammars[e](all[e], parts[1:], "")
	if err != nil {
		return "", nil
	}
	return e, q
}

const front = "http://127.0.0.1:18080"

// indexOf rewrites an index as the answer of a registry.
func indexOf(t *testing.T, path, kind, body string) (*site, answer, bool) {
	all := sites(t)
	e, q := reading(all, path)
	at := all[e].up.at(q.at)
	a, err := q.rewrite(answer{body: []byte(body), kind: kind, url: at, front: front})
	return all[e], a, err == nil
}

// FuzzPackument: what comes out is JSON whose tarballs are all at the front, and what is
// remembered is of the registry's own server.
func FuzzPackument(f *testing.F) {
	f.Add(leftPad)
	f.Add(`{"name":"left-pad","versions":{"1.0.0":{"dist":{"tarball":"https://registry.npmjs.org/else/x.tgz","tarball":"file:///x"}}}}`)
	f.Add(`{"name":"left-pad","versions":{"1.0.0":{"dist":null}},"Versions":{"1.0.0":{"dist":{"tarball":"x"}}}}`)
	f.Add(`{"name":"left-pad","versions":null}`)
	f.Add(`{"name":"left-pad","readme":"\u003cscript\u003e","versions":{}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, body string) {
		s, a, ok := indexOf(t, "/npm/left-pad", "application/json", body)
		if !ok {
			return
		}
		var doc struct {
			Name     string
			Versions map[string]struct {
				Dist struct{ Tarball string }
			}
		}
		var top map[string]json.RawMessage
		if err := json.Unmarshal(a.body, &top); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		// As npm reads it: the names of members have capitals that count.
		versions, _ := json.Marshal(map[string]json.RawMessage{"versions": top["versions"]})
		if top["versions"] != nil && json.Unmarshal(versions, &doc) == nil {
			for v, m := range doc.Versions {
				if m.Dist.Tarball != front+"/npm/left-pad/-/left-pad-"+v+".tgz" && !strings.Contains(string(top["versions"]), `"Tarball"`) {
					t.Fatalf("version %q is at %q", v, m.Dist.Tarball)
				}
			}
		}
		for _, u := range s.named {
			if !s.up.owns(u) {
				t.Fatalf("remembered %s", u)
			}
		}
	})
}

// FuzzSimpleIndex: every link that comes out is one to the front, in both forms, and
// what is remembered has passed the check.
func FuzzSimpleIndex(f *testing.F) {
	f.Add(true, `{"name":"x","files":[{"filename":"x-1.0.tar.gz","url":"/f/x-1.0.tar.gz","hashes":{"sha256":"`+digest("x")+`"},"yanked":"why","core-metadata":{"sha256":"1"}}]}`)
	f.Add(true, `{"name":"X","files":[{"filename":"x-1.0.zip","url":"file:///x"},{"filename":"x-1.0.zip","url":"https://8.8.8.8/"},{"filename":"../x","url":"/"}]}`)
	f.Add(false, `<a href="/f/x-1.0.tar.gz#sha256=`+digest("x")+`" data-requires-python="&gt;=3">x</a>`)
	f.Add(false, `<A HREF=//cdn.example/x-1.0.zip data-yanked><a href="data:x"><a href='x-1.0.zip'`)
	f.Add(false, "no link")
	f.Add(false, `<!-- <a href="/x-1.0.zip"> --><script><a href="/x-2.0.zip"></script><a href="/x-3.0.zip&quot;">`)
	f.Fuzz(func(t *testing.T, asJSON bool, body string) {
		kind, all := simpleHTML, sites(t)
		if asJSON {
			kind = simpleJSON
		}
		s := all[PyPI]
		in := answer{body: []byte(body), kind: kind, url: s.up.at("x/"), front: front}
		page, err := s.simpleIndex("x", false, in)
		text, err2 := s.simpleIndex("x", true, in)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%v, but %v", err, err2)
		}
		if err != nil {
			return
		}
		fromPage, err := simpleFromHTML(page.body)
		if err != nil {
			t.Fatal(err)
		}
		fromText, err := simpleFromJSON("x", text.body)
		if err != nil || len(fromPage) != len(fromText) {
			t.Fatalf("%d links, %d files, %v", len(fromPage), len(fromText), err)
		}
		for i, f := range fromPage {
			u, err := url.Parse(f.URL)
			if err != nil || f.Filename != fromText[i].Filename || !strings.HasPrefix(f.URL, front+"/pypi/file/x/") || !strings.HasPrefix(fromText[i].URL, front+"/pypi/file/x/") {
				t.Fatalf("a link is %q, a file %+v, %v", f.URL, fromText[i], err)
			}
			if _, q := reading(all, u.EscapedPath()); q == nil || q.find == nil {
				t.Fatalf("the front refuses its own link %q", f.URL)
			}
		}
		for _, u := range s.named {
			if s.up.checked(u) != nil {
				t.Fatalf("remembered %s", u)
			}
		}
	})
}

// FuzzCrates: the configuration leads to the front, and whatever it says, a crate is
// asked for at a place that can be checked.
func FuzzCrates(f *testing.F) {
	f.Add(`{"dl":"https://static.crates.io/crates","api":"https://crates.io"}`)
	f.Add(`{"dl":"https://cdn.example/{prefix}/{lowerprefix}/{crate}/{version}"}`)
	f.Add(`{"dl":"https://{crate}{version}@[::1]:{version}/%zz"}`)
	f.Add(`{"dl":"{sha256-checksum}"}`)
	f.Fuzz(func(t *testing.T, body string) {
		s, a, ok := indexOf(t, "/crates/config.json", "application/json", body)
		if !ok {
			return
		}
		if string(a.body) != `{"dl":"`+front+`/crates/dl"}` {
			t.Fatalf("the configuration is %s", a.body)
		}
		if u, err := s.cratePlace(t.Context(), nil, "Serde", "1.0.0"); err == nil && s.up.checked(u) == nil && u.Hostname() == "" {
			t.Fatalf("the crate is at %s", u)
		}
	})
}

// FuzzConfigured: whatever a client says, an address has no credential in it that
// would be printed.
func FuzzConfigured(f *testing.F) {
	f.Add("registry=https://u:p@a.example/\ncafile=null", `{"GOPROXY":"https://u:p@a|direct"}`, "global.index-url='https://u:p@a/'", `{"source":{"crates-io":{"replace-with":"a"}}}`)
	f.Fuzz(func(t *testing.T, npm, golang, pip, cargo string) {
		found, bad := Discover(t.Context(), machine(map[string]string{"npm": npm, "go env": golang, "pip": pip, "json source": cargo}))
		for e, u := range found {
			parsed, err := baseURL(e, u.URL)
			if err != nil || parsed.User != nil {
				t.Fatalf("%s: %q, %v", e, u.URL, err)
			}
		}
		if len(found)+len(bad) != len(Ecosystems()) {
			t.Fatalf("%v, %v", found, bad)
		}
	})
}

// FuzzGemIndex: of an index versions and digests are left, each on a line of its own.
func FuzzGemIndex(f *testing.F) {
	sum := strings.Repeat("0a", 32)
	for _, seed := range []string{"---\n1.0 |checksum:" + sum + "\n", "1.0-java a:>= 1&< 2,b:~> 3|checksum:" + sum + ",ruby:>= 2.5,rubygems:>= 1\n", "<html>", "1.0 |ruby:> 1,checksum:" + sum, "1 |checksum:" + sum + "x\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		_, a, ok := indexOf(t, "/rubygems/info/a", "text/plain", body)
		if !ok {
			return
		}
		for line := range strings.Lines(string(a.body)) {
			version, sum, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if _, read, ok := GemFile("a-" + version + ".gem"); !ok && !strings.Contains(version, "..") && len(version) < 200 || ok && read != version || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
				t.Fatalf("%q has the line %q", body, line)
			}
		}
	})
}
