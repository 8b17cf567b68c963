package registry

import (
	"net/http"
	"strings"
	"testing"

	"remit/proof/reason"
)

// everywhere is a front to one registry of every ecosystem, that answers
// anything with a page. Nothing in it is asked when a request is refused.
func everywhere(t *testing.T) (way, *table) {
	up := registryOf(t, nil)
	up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up.mu.Lock()
		up.asked = append(up.asked, r.Method+" "+r.RequestURI)
		up.mu.Unlock()
		page("application/json", `{"name":"x","dl":"`+up.URL+`/dl"}`)(w, r)
	})
	all := map[Ecosystem]Upstream{}
	for _, e := range Ecosystems() {
		all[e] = Upstream{URL: up.URL + "/root/" + string(e)}
	}
	return open(t, Options{Upstreams: all}), up
}

// What the inside can write on the connection, and that no registry hears of it.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	const end = " HTTP/1.1\r\nHost: HOST\r\n\r\n"
	data := repeat("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo", 90) // 3 kB
	for name, test := range map[string]struct {
		sent string
		want int
	}{
		"connect":                      {"CONNECT registry.npmjs.org:443 HTTP/1.1\r\nHost: registry.npmjs.org:443\r\n\r\n", 405},
		"connect to a path":            {"CONNECT /npm/x" + end, 405},
		"post":                         {"POST /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nbody", 405},
		"post 1 MB":                    {"POST /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1000000\r\n\r\n" + repeat("x", 1e6), 405},
		"post of an audit":             {"POST /npm/-/npm/v1/security/advisories/bulk HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\n\r\n{}", 405},
		"put":                          {"PUT /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nbody", 405},
		"delete":                       {"DELETE /npm/x" + end, 405},
		"patch":                        {"PATCH /npm/x" + end, 405},
		"options":                      {"OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n", 405},
		"trace":                        {"TRACE /npm/x" + end, 405},
		"own method":                   {"EXFILTRATE /npm/x" + end, 405},
		"get in lower case":            {"get /npm/x" + end, 405},
		"get with a body":              {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nbody", 403},
		"get with a chunked body":      {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 403},
		"smuggled behind a length":     {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 45\r\n\r\nGET /npm/smuggled HTTP/1.1\r\nHost: HOST\r\n\r\n", 403},
		"smuggled behind chunks":       {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /npm/smuggled" + end, 403},
		"length and chunks":            {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /npm/smuggled" + end, 403},
		"two lengths":                  {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: 4\r\n\r\nbody", 400},
		"strange transfer encoding":    {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n", 501},
		"absolute form":                {"GET http://registry.npmjs.org/npm/x HTTP/1.1\r\nHost: HOST\r\n\r\n", 403},
		"absolute form of the front":   {"GET http://HOST/npm/x HTTP/1.1\r\nHost: HOST\r\n\r\n", 403},
		"absolute form, metadata":      {"GET http://169.254.169.254/latest/meta-data/ HTTP/1.1\r\nHost: HOST\r\n\r\n", 403},
		"absolute form with user":      {"GET http://HOST@evil.example/npm/x HTTP/1.1\r\nHost: HOST\r\n\r\n", 403},
		"another host":                 {"GET /npm/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
		"metadata as the host":         {"GET /npm/x HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", 403},
		"two hosts":                    {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", 400},
		"no host":                      {"GET /npm/x HTTP/1.0\r\n\r\n", 403},
		"no slash":                     {"GET npm/x" + end, 400},
		"two slashes":                  {"GET //evil.example/npm/x" + end, 403},
		"two slashes within":           {"GET /npm//x" + end, 403},
		"dots":                         {"GET /npm/../go/x" + end, 403},
		"dots at the end":              {"GET /npm/x/.." + end, 403},
		"dot":                          {"GET /npm/./x" + end, 403},
		"escaped dots":                 {"GET /npm/%2e%2e/x" + end, 403},
		"half escaped dots":            {"GET /npm/.%2e/x" + end, 403},
		"escaped slash":                {"GET /npm/x%2f..%2fy" + end, 403},
		"escaped slash behind a scope": {"GET /npm/@a%2f../x" + end, 403},
		"two escaped slashes":          {"GET /npm/@a%2fb%2fc" + end, 403},
		"escaped slash in a scope":     {"GET /npm/@%2fb" + end, 403},
		"double encoding":              {"GET /npm/%252e%252e/x" + end, 403},
		"double encoded slash":         {"GET /npm/@a%252fb" + end, 403},
		"escaped zero":                 {"GET /npm/x%00" + end, 403},
		"escaped line end":             {"GET /npm/x%0d%0aHost:%20evil" + end, 403},
		"escaped letter":               {"GET /npm/%78" + end, 403},
		"escaped query":                {"GET /npm/x%3fa=b" + end, 403},
		"incomplete escape":            {"GET /npm/x%2" + end, 400},
		"broken escape":                {"GET /npm/x%zz" + end, 400},
		"backslash":                    {"GET /npm/..\\x" + end, 403},
		"escaped backslash":            {"GET /npm/%5c..%5cx" + end, 403},
		"query":                        {"GET /npm/x?data=1" + end, 403},
		"empty query":                  {"GET /npm/x?" + end, 403},
		"fragment":                     {"GET /npm/x#a" + end, 403},
		"parameters":                   {"GET /npm/x;a=b" + end, 403},
		"3 kB in the path":             {"GET /npm/" + data + end, 403},
		"3 kB in segments":             {"GET /go/" + repeat("abcdefghij.example/", 160) + "@v/list" + end, 403},
		"3 kB in the query":            {"GET /npm/x?" + data + end, 403},
		"3 kB in a version":            {"GET /npm/x/-/x-1.0.0-" + data + ".tgz" + end, 403},
		"a name of 300 bytes":          {"GET /npm/" + repeat("a", 300) + end, 403},
		"letters of Unicode":           {"GET /npm/le\u017ft" + end, 403},
		"full width letters":           {"GET /npm/\uff4epm" + end, 403},
		"escaped Unicode":              {"GET /npm/%E2%84%93eft" + end, 403},
		"a header of 64 kB":            {"GET /npm/x HTTP/1.1\r\nHost: HOST\r\nX: " + repeat("x", 64<<10) + "\r\n\r\n", 431},
		"no ecosystem":                 {"GET /" + end, 403},
		"another ecosystem":            {"GET /gem/x" + end, 403},
		"all gems":                     {"GET /rubygems/versions" + end, 403},
		"the index of old":             {"GET /rubygems/specs.4.8.gz" + end, 403},
		"the API of dependencies":      {"GET /rubygems/api/v1/dependencies?gems=a" + end, 403},
		"a gem of a directory":         {"GET /rubygems/gems/x/a-1.gem" + end, 403},
		"a gem with dots":              {"GET /rubygems/gems/a-1..gem" + end, 403},
		"a gem without a version":      {"GET /rubygems/gems/a.gem" + end, 403},
		"index of Debian":              {"GET /debian/dists/bookworm/InRelease" + end, 403},
		"source of Debian":             {"GET /debian/pool/main/j/jq/jq_1.6.orig.tar.gz" + end, 403},
		"package out of the pool":      {"GET /debian/private/main/j/jq/jq_1.6_amd64.deb" + end, 403},
		"package too deep":             {"GET /debian/pool/a/b/c/d/e/f/jq_1.6_amd64.deb" + end, 403},
		"package without a version":    {"GET /debian/pool/main/j/jq/jq_amd64.deb" + end, 403},
		"package with dots":            {"GET /debian/pool/main/../jq/jq_1.6_amd64.deb" + end, 403},
		"ecosystem in capitals":        {"GET /NPM/x" + end, 403},
		"ecosystem alone":              {"GET /npm" + end, 403},
		"root of npm":                  {"GET /npm/" + end, 403},
		"npm login":                    {"GET /npm/-/whoami" + end, 403},
		"npm search":                   {"GET /npm/-/v1/search" + end, 403},
		"npm user":                     {"GET /npm/-/user/org.couchdb.user:x" + end, 403},
		"npm revision":                 {"GET /npm/x/-rev/1" + end, 403},
		"npm version":                  {"GET /npm/x/1.0.0" + end, 403},
		"npm other tarball":            {"GET /npm/x/-/y-1.0.0.tgz" + end, 403},
		"npm tarball of no version":    {"GET /npm/x/-/x-latest.tgz" + end, 403},
		"npm tarball, other extension": {"GET /npm/x/-/x-1.0.0.zip" + end, 403},
		"npm scope twice":              {"GET /npm/@a/@b/c" + end, 403},
		"npm scope in capitals":        {"GET /npm/@A/b" + end, 403},
		"npm name with a dot first":    {"GET /npm/.bin" + end, 403},
		"npm slash at the end":         {"GET /npm/x/" + end, 403},
		"pypi root":                    {"GET /pypi/simple/" + end, 403},
		"pypi json":                    {"GET /pypi/pypi/x/json" + end, 403},
		"pypi link with a host":        {"GET /pypi/file/files.pythonhosted.org/packages/x-1.0.tar.gz" + end, 403},
		"pypi file of another project": {"GET /pypi/file/x/y-1.0-py3-none-any.whl" + end, 403},
		"pypi file with no version":    {"GET /pypi/file/x/x.whl" + end, 403},
		"pypi program":                 {"GET /pypi/file/x/x-1.0.exe" + end, 403},
		"pypi signature":               {"GET /pypi/file/x/x-1.0-py3-none-any.whl.asc" + end, 403},
		"go branch":                    {"GET /go/example.org/m/@v/main.info" + end, 403},
		"go no host":                   {"GET /go/m/@v/list" + end, 403},
		"go capital":                   {"GET /go/example.org/M/@v/list" + end, 403},
		"go wrong escape":              {"GET /go/example.org/!M/@v/list" + end, 403},
		"go version of another major":  {"GET /go/example.org/m/v2/@v/v1.0.0.zip" + end, 403},
		"go archive of another kind":   {"GET /go/example.org/m/@v/v1.0.0.tar" + end, 403},
		"go two versions":              {"GET /go/example.org/m/@v/v1.0.0/@v/list" + end, 403},
		"go port in a module":          {"GET /go/example.org:22/m/@v/list" + end, 403},
		"sumdb of another name":        {"GET /go/sumdb/evil.example/lookup/example.org/m@v1.0.0" + end, 403},
		"sumdb tile with data":         {"GET /go/sumdb/sum.golang.org/tile/8/0/x123/x456/x789/x012/x345/x678/901" + end, 403},
		"sumdb own page":               {"GET /go/sumdb/sum.golang.org/data" + end, 403},
		"sumdb lookup of a branch":     {"GET /go/sumdb/sum.golang.org/lookup/example.org/m@main" + end, 403},
		"crates api":                   {"GET /crates/api/v1/crates/x" + end, 403},
		"crates login":                 {"GET /crates/me" + end, 403},
		"crates wrong directory":       {"GET /crates/ab/cd/serde" + end, 403},
		"crates capital":               {"GET /crates/Se/rd/Serde" + end, 403},
		"crates wrong length":          {"GET /crates/1/ab" + end, 403},
		"crates no version":            {"GET /crates/dl/serde/latest/download" + end, 403},
		"crates other verb":            {"GET /crates/dl/serde/1.0.0/upload" + end, 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, up := everywhere(t)
			if got := w.raw(test.sent); len(got) != 1 || got[0] != test.want {
				t.Errorf("answers %v, want %d and the end", got, test.want)
			}
			if asked := up.targets(); len(asked) != 0 {
				t.Errorf("a registry was asked %q", asked)
			}
			list := w.Close()
			if test.want == 403 || test.want == 405 { // the others are no requests
				want(t, list, reason.RegistryRefused)
			}
			for _, d := range list {
				if len(d.Path) > 4*recordedPath || len(d.Why) > 400 || strings.Trim(d.Path+d.Why, printable) != "" {
					t.Errorf("recorded as it came: %+v", d)
				}
			}
		})
	}
}

const printable = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~…"

// The control: what clients need is let through on such a connection, two on one too.
func TestAcceptedRequests(t *testing.T) {
	t.Parallel()
	const end = " HTTP/1.1\r\nHost: HOST\r\n\r\n"
	for path, want := range map[string]string{
		"/npm/x":                                         "GET /root/npm/x",
		"/npm/x/-/x-1.0.0-rc.1+b.tgz":                    "GET /root/npm/x/-/x-1.0.0-rc.1+b.tgz",
		"/npm/x/-/x-1.0.0%2Bb.tgz":                       "GET /root/npm/x/-/x-1.0.0+b.tgz",
		"/npm/@a/b/-/b-1.0.0.tgz":                        "GET /root/npm/@a/b/-/b-1.0.0.tgz",
		"/go/example.org/!m/@v/list":                     "GET /root/go/example.org/!m/@v/list",
		"/go/example.org/%21m/@latest":                   "GET /root/go/example.org/!m/@latest",
		"/go/example.org/m/v2/@v/v2.0.1-!r!c.zip":        "GET /root/go/example.org/m/v2/@v/v2.0.1-!r!c.zip",
		"/go/example.org/m/@v/v2.0.0+incompatible.mod":   "GET /root/go/example.org/m/@v/v2.0.0+incompatible.mod",
		"/go/sumdb/sum.golang.org/supported":             "GET /root/go/sumdb/sum.golang.org/supported",
		"/go/sumdb/sum.golang.org/tile/8/0/x001/234.p/5": "GET /root/go/sumdb/sum.golang.org/tile/8/0/x001/234.p/5",
		"/crates/config.json":                            "GET /root/crates/config.json",
		"/crates/dl/X/1.0.0/download":                    "GET /root/crates/config.json",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w, up := everywhere(t)
			if got := w.raw("GET " + path + end + "HEAD " + path + " HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"); len(got) == 0 || got[0] != 200 {
				t.Errorf("answers %v", got)
			}
			if asked := up.targets(); len(asked) == 0 || asked[0] != want {
				t.Errorf("the registry was asked %q, want %q", asked, want)
			}
		})
	}
}

// No header of the client's reaches a registry.
func TestHeadersOfTheClient(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "x"), "/x": page("application/json", `{"name":"x"}`)})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL)})
	for _, path := range []string{"/npm/x", "/npm/x/-/x-1.0.0.tgz"} {
		if code, _ := w.get(path, "Authorization", "Bearer stolen", "Cookie", "c=stolen", "X-Data", "stolen", "User-Agent", "stolen",
			"Accept", "stolen", "Referer", "http://stolen", "Range", "bytes=stolen", "If-None-Match", "stolen", "Npm-Session", "stolen",
			"X-Forwarded-For", "stolen", "Accept-Language", "stolen", "Te", "stolen"); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if len(up.heads) != 2 {
		t.Fatalf("%d requests", len(up.heads))
	}
	for _, h := range up.heads {
		for k, v := range h {
			if strings.Contains(strings.Join(v, ""), "stolen") {
				t.Errorf("the registry got %s: %s", k, v)
			}
		}
	}
}
