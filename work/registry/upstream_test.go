package registry

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// Which addresses are dialled for whom.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, least := range map[string]reach{
		"8.8.8.8": public, "2606:4700::1111": public, "::ffff:8.8.8.8": public, "64:ff9b::808:808": public, "2002:808:808::1": public,
		"203.0.113.7": configured, "198.18.0.1": configured, "192.0.2.1": configured, "198.51.100.1": configured, "2001:db8::1": configured, "192.88.99.1": configured,
		"3fff::1": configured, "::ffff:198.18.0.1": configured, "64:ff9b::c612:1": configured,
		"127.0.0.1": local, "127.255.255.254": local, "10.0.0.1": local, "172.16.0.1": local, "172.31.255.255": local, "192.168.1.1": local, "100.64.0.1": local,
		"100.127.255.255": local, "::1": local, "fc00::1": local, "fd12::1": local, "fec0::1": local, "::ffff:127.0.0.1": local, "::ffff:10.1.2.3": local,
		"64:ff9b::7f00:1": local, "64:ff9b::a00:1": local, "64:ff9b:1::1": local, "2002:7f00:1::": local, "2002:a00:1::": local, "::127.0.0.1": local,
		"0.0.0.0": -1, "0.1.2.3": -1, "::": -1, "169.254.169.254": -1, "::ffff:169.254.169.254": -1, "64:ff9b::a9fe:a9fe": -1, "2002:a9fe:a9fe::": -1,
		"::169.254.169.254": -1, "fe80::1": -1, "fe80::1%eth0": -1, "8.8.8.8%x": -1, "224.0.0.1": -1, "239.1.1.1": -1, "255.255.255.255": -1, "240.0.0.1": -1,
		"192.0.0.8": -1, "ff02::1": -1, "100::1": -1, "2001::1": -1, "2001:20::1": -1, "5f00::1": -1, "fd00:ec2::254": -1, "168.63.129.16": -1, "100.100.100.200": -1,
	} {
		a, err := netip.ParseAddr(address)
		if err != nil && !strings.HasPrefix(address, "8.8.8.8%") {
			t.Fatal(err)
		}
		for _, r := range []reach{public, configured, local} {
			if got, want := r.admits(a), least >= 0 && r >= least; got != want {
				t.Errorf("reach %d admits %s: %v, want %v", r, address, got, want)
			}
		}
	}
}

// A registry, and a host that its answer leads to, by the addresses of their
// names. Nothing is dialled but what was checked.
func TestNamesOfRegistries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url    string
		local  bool
		addrs  []string
		code   reason.Code
		dialed []string
	}{
		"public":                   {"http://r.example", false, []string{"8.8.8.8"}, "", []string{"8.8.8.8:80"}},
		"capitals":                 {"http://R.Example", false, []string{"8.8.8.8"}, "", []string{"8.8.8.8:80"}},
		"public with a port":       {"http://r.example:8080", false, []string{"8.8.8.8"}, "", []string{"8.8.8.8:8080"}},
		"stand-in of a resolver":   {"http://r.example", false, []string{"198.18.0.4"}, "", []string{"198.18.0.4:80"}},
		"second address answers":   {"http://r.example", false, []string{"8.8.4.4", "8.8.8.8"}, "", []string{"8.8.4.4:80", "8.8.8.8:80"}},
		"private":                  {"http://r.example", false, []string{"10.0.0.1"}, reason.RegistryAddress, nil},
		"loopback":                 {"http://r.example", false, []string{"127.0.0.1"}, reason.RegistryAddress, nil},
		"one of two is private":    {"http://r.example", false, []string{"8.8.8.8", "10.0.0.1"}, reason.RegistryAddress, nil},
		"mapped":                   {"http://r.example", false, []string{"::ffff:10.0.0.1"}, reason.RegistryAddress, nil},
		"metadata":                 {"http://r.example", false, []string{"169.254.169.254"}, reason.RegistryAddress, nil},
		"own mirror":               {"http://r.example", true, []string{"10.0.0.1"}, "", []string{"10.0.0.1:80"}},
		"own mirror, metadata":     {"http://r.example", true, []string{"169.254.169.254"}, reason.RegistryAddress, nil},
		"own mirror by its number": {"http://10.0.0.1", false, nil, "", []string{"10.0.0.1:80"}},
		"metadata by its number":   {"http://169.254.169.254", false, nil, reason.RegistryAddress, nil},
		"decimal number":           {"http://2130706433", false, []string{"127.0.0.1"}, reason.RegistryAddress, nil},
		"unknown name":             {"http://r.example", false, nil, reason.RegistryUnreachable, nil},
		"no answer":                {"http://r.example", false, []string{"9.9.9.9"}, reason.RegistryUnreachable, []string{"9.9.9.9:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "x")})
			at := strings.TrimPrefix(up.URL, "http://")
			n := &network{names: map[string][]string{"r.example": test.addrs, "2130706433": test.addrs},
				servers: map[string]string{"8.8.8.8:80": at, "8.8.8.8:8080": at, "198.18.0.4:80": at, "10.0.0.1:80": at, "169.254.169.254:80": at, "127.0.0.1:80": at}}
			w := open(t, Options{Upstreams: map[Ecosystem]Upstream{NPM: {URL: test.url, Local: test.local}}, Resolve: n.resolve, Dial: n.dial})
			code, body := w.get("/npm/x/-/x-1.0.0.tgz")
			if (code == 200) != (test.code == "") {
				t.Errorf("%d %s", code, body)
			}
			list := w.Close()
			want(t, list, test.code)
			if !slices.Equal(n.dialled, test.dialed) {
				t.Errorf("dialled %q, want %q", n.dialled, test.dialed)
			}
			if test.code != "" && (strings.Contains(body+list[0].Why, "r.example") || strings.Contains(body, "10.0.0.1")) {
				t.Errorf("the answer has the address of the registry: %s", body)
			}
		})
	}
}

// Redirects are followed by the front, to public places only.
func TestRedirects(t *testing.T) {
	t.Parallel()
	const file = "/x/-/x-1.0.0.tgz"
	long := "https://cdn.example/" + repeat("x", maxLocation)
	for name, test := range map[string]struct {
		to   string
		code reason.Code
	}{
		"own path":             {"/elsewhere", ""},
		"another public host":  {"https://cdn.example/x?signature=secret", ""},
		"twice":                {"/two", ""},
		"loop":                 {file, reason.RegistryUnreachable},
		"private name":         {"https://private.example/x", reason.RegistryAddress},
		"metadata name":        {"https://metadata.example/x", reason.RegistryAddress},
		"stand-in name":        {"https://standin.example/x", reason.RegistryAddress},
		"own name, other port": {"https://r.example:22/x", reason.RegistryAddress},
		"loopback":             {"https://127.0.0.1/x", reason.RegistryAddress},
		"loopback, IPv6":       {"https://[::1]/x", reason.RegistryAddress},
		"loopback by name":     {"https://localhost/x", reason.RegistryAddress},
		"below localhost":      {"https://a.localhost/x", reason.RegistryAddress},
		"decimal":              {"https://2130706433/x", reason.RegistryAddress},
		"hexadecimal":          {"https://0x7f.0.0.0x1/x", reason.RegistryAddress},
		"short name":           {"https://intranet/x", reason.RegistryAddress},
		"link-local":           {"http://169.254.169.254/latest/meta-data", reason.RegistryAddress},
		"public by its number": {"https://8.8.8.8/x", reason.RegistryAddress},
		"no https":             {"http://cdn.example/x", reason.RegistryAddress},
		"own name, no https":   {"http://r.example/elsewhere", reason.RegistryAddress},
		"own name below other": {"https://r.example.cdn.example/x", reason.RegistryUnreachable},
		"with a user":          {"https://u:p@cdn.example/x", reason.RegistryAddress},
		"file":                 {"file:///etc/passwd", reason.RegistryAddress},
		"data":                 {"data:text/plain,x", reason.RegistryAddress},
		"gopher":               {"gopher://cdn.example/x", reason.RegistryAddress},
		"no target":            {"", reason.RegistryAnswer},
		"too long":             {long, reason.RegistryAnswer},
		"nonsense":             {"https://[::1/%zz", reason.RegistryAnswer},
		"other letters":        {"https://cdn.ex\u0430mple/x", reason.RegistryAddress},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := func(target string) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					if target != "" {
						w.Header()["Location"] = []string{target}
					}
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
			}
			up := &table{pages: map[string]http.HandlerFunc{file: to(test.to), "/elsewhere": page("", "x"), "/two": to("/elsewhere")}}
			cdn := &table{pages: map[string]http.HandlerFunc{"/x": page("", "x")}}
			w, n := secure(t, NPM, "https://r.example", up, cdn)
			code, body := w.get("/npm" + file)
			if test.code == "" && (code != 200 || body != "x") || test.code != "" && code == 200 {
				t.Errorf("%d %s", code, body)
			}
			list := w.Close()
			want(t, list, test.code)
			if strings.Contains(body+fmt.Sprint(list), "s3cret") || strings.Contains(body+fmt.Sprint(list), "signature") {
				t.Errorf("the answer has a credential: %s, %+v", body, list)
			}
			for _, h := range up.heads {
				if h.Get("Authorization") != "Bearer s3cret" {
					t.Error("the registry got no credential")
				}
			}
			for _, h := range cdn.heads {
				if h.Get("Authorization") != "" {
					t.Error("another host got the credential")
				}
			}
			for _, to := range n.dialled {
				if to != "8.8.8.8:443" && to != "9.9.9.9:443" {
					t.Errorf("dialled %s", to)
				}
			}
			if len(up.heads) > maxRedirects+1 {
				t.Errorf("%d requests", len(up.heads))
			}
		})
	}
}

// What a registry can answer, and what comes of it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	zeros := func(n int) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, n)) // to memory
		_ = z.Close()
		return b.String()
	}
	packed := func(kind, body, encoding string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			page(kind, body)(w, r)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", code) }
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	stalled := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	good := `{"name":"x","versions":{}}`
	const index, file = "/npm/x", "/npm/x/-/x-1.0.0.tgz"
	for name, test := range map[string]struct {
		path   string
		answer http.HandlerFunc
		status int
		code   reason.Code
	}{
		"index":                       {index, page("application/json", good), 200, ""},
		"index in gzip":               {index, packed("application/json", gzipped(good), "gzip"), 200, ""},
		"index in broken gzip":        {index, packed("application/json", gzipped(good)[:20], "gzip"), 403, reason.RegistryAnswer},
		"index in no gzip":            {index, packed("application/json", good, "gzip"), 403, reason.RegistryAnswer},
		"index in brotli":             {index, packed("application/json", good, "br"), 403, reason.RegistryAnswer},
		"gzip bomb":                   {index, packed("application/json", zeros(8<<20), "gzip"), 403, reason.RegistryTooLarge},
		"large index":                 {index, page("application/json", `{"name":"x","a":"`+repeat("a", smallIndex)+`"}`), 200, ""},
		"huge index":                  {index, page("application/json", `{"name":"x","a":"`+repeat("a", 3<<20)+`"}`), 403, reason.RegistryTooLarge},
		"endless index":               {index, endless, 403, reason.RegistryTooLarge},
		"index is a page":             {index, page("text/html", "<html>login</html>"), 403, reason.RegistryAnswer},
		"index is a list":             {index, page("application/json", `[]`), 403, reason.RegistryAnswer},
		"index is null":               {index, page("application/json", `null`), 403, reason.RegistryAnswer},
		"index of another package":    {index, page("application/json", `{"name":"y","versions":{}}`), 403, reason.RegistryAnswer},
		"versions are a list":         {index, page("application/json", `{"name":"x","versions":[]}`), 403, reason.RegistryAnswer},
		"a hundred thousand versions": {index, page("application/json", `{"name":"x","versions":{`+repeat(`"1.0.0":{},`, maxMembers)+`"1.0.0":{}}}`), 403, reason.RegistryAnswer},
		"as many members":             {index, page("application/json", `{`+repeat(`"a":1,`, maxMembers)+`"name":"x"}`), 403, reason.RegistryAnswer},
		"name of another kind":        {index, page("application/json", `{"name":["x"]}`), 403, reason.RegistryAnswer},
		"half a document":             {index, page("application/json", `{"name":"x"`), 403, reason.RegistryAnswer},
		"two documents":               {index, page("application/json", good+good), 403, reason.RegistryAnswer},
		"deep nesting":                {index, page("application/json", repeat("[", 100_000)), 403, reason.RegistryAnswer},
		"silent":                      {index, silent, 502, reason.RegistryUnreachable},
		"stalled index":               {index, stalled, 502, reason.RegistryUnreachable},
		"cut index":                   {index, cut, 502, reason.RegistryIncomplete},
		"not found":                   {index, status(404), 404, reason.RegistryMissing},
		"gone":                        {index, status(410), 404, reason.RegistryMissing},
		"unauthorized":                {index, status(401), 502, reason.RegistryUnreachable},
		"forbidden":                   {file, status(403), 502, reason.RegistryUnreachable},
		"failing":                     {file, status(500), 502, reason.RegistryUnreachable},
		"nothing":                     {file, status(204), 502, reason.RegistryUnreachable},
		"part":                        {file, status(206), 502, reason.RegistryUnreachable},
		"file":                        {file, page("text/html", "file"), 200, ""},
		"file in an encoding":         {file, packed("", zeros(10), "gzip"), 403, reason.RegistryAnswer},
		"huge file":                   {file, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", strconv.Itoa(3<<20)) }, 403, reason.RegistryTooLarge},
		"endless file":                {file, endless, 0, reason.RegistryTooLarge},
		"silent file":                 {file, silent, 502, reason.RegistryUnreachable},
		"stalled file":                {file, stalled, 0, reason.RegistryUnreachable},
		"cut file":                    {file, cut, 0, reason.RegistryIncomplete},
		"huge header":                 {file, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", repeat("x", 1<<20)) }, 502, reason.RegistryUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := registryOf(t, map[string]http.HandlerFunc{strings.TrimPrefix(test.path, "/npm"): test.answer})
			w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Limits: Limits{IndexBytes: 2 << 20, FileBytes: 2 << 20, StallTime: 300 * time.Millisecond}})
			code, body := w.get(test.path)
			switch {
			case test.status != 0 && code != test.status:
				t.Errorf("%d %s", code, body)
			case test.status == 0 && !strings.HasPrefix(body, "broken: "):
				t.Errorf("what was broken off looks whole: %d, %d bytes", code, len(body))
			}
			want(t, w.Close(), test.code)
		})
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, s) // to memory
	_ = z.Close()
	return b.String()
}

// The error for a configuration that cannot be used does not show what is in it.
func TestUnusable(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "s3cret.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]Upstream{
		"nothing":                 {},
		"no URL":                  {URL: "s3cret"},
		"directory":               {URL: "file:///s3cret"},
		"ftp":                     {URL: "ftp://s3cret.example"},
		"user":                    {URL: "https://u:s3cret@a.example"},
		"query":                   {URL: "https://a.example/?s3cret"},
		"other letters":           {URL: "https://s3cret.ex\u0430mple"},
		"broken":                  {URL: "https://[s3cret"},
		"credential without TLS":  {URL: "http://a.example", Auth: Bearer("s3cret")},
		"CA file that is not":     {URL: "https://a.example", CAFile: "/nowhere/s3cret"},
		"CA file with nothing":    {URL: "https://a.example", CAFile: empty},
		"CA file, a directory":    {URL: "https://a.example", CAFile: t.TempDir()},
		"proxy that is none":      {URL: "https://a.example", Proxy: "s3cret"},
		"proxy of another scheme": {URL: "https://a.example", Proxy: "ftp://u:" + "s3cret@a"},
	} {
		_, err := New(Options{Allow: anything, Upstreams: map[Ecosystem]Upstream{NPM: u}})
		if reason.CodeOf(err) != reason.RegistryUnusable || strings.Contains(strings.ToLower(err.Error()), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Allow: anything, Upstreams: upstreams("gem", "https://a.example")}); err == nil {
		t.Error("an ecosystem without a grammar was taken")
	}
	if _, err := New(Options{Upstreams: Defaults()}); err == nil {
		t.Error("a front that allows everything was made by omission")
	}
}

// The front refuses a certificate that no authority of the user's signed.
func TestForeignCertificate(t *testing.T) {
	t.Parallel()
	up := &table{}
	certified(t, up)
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL)})
	code, body := w.get("/npm/x")
	if code != 502 || !strings.Contains(body, "certificate") {
		t.Errorf("%d %s", code, body)
	}
	want(t, w.Close(), reason.RegistryUnreachable)
}

// A proxy is used when it is configured, and the environment's never is.
func TestProxy(t *testing.T) { // not parallel: it sets the environment
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "direct")})
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		_, _ = io.WriteString(w, "proxied")
	}))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	n := &network{names: map[string][]string{"r.example": {"8.8.8.8"}}, servers: map[string]string{"8.8.8.8:80": strings.TrimPrefix(up.URL, "http://")}}
	w := open(t, Options{Upstreams: upstreams(NPM, "http://r.example"), Resolve: n.resolve, Dial: n.dial})
	if code, body := w.get("/npm/x/-/x-1.0.0.tgz"); code != 200 || body != "direct" || len(asked) != 0 {
		t.Errorf("%d %s", code, body)
	}
	w = open(t, Options{Upstreams: map[Ecosystem]Upstream{NPM: {URL: "http://r.example", Proxy: proxy.URL}}})
	if code, body := w.get("/npm/x/-/x-1.0.0.tgz"); code != 200 || body != "proxied" || <-asked != "http://r.example/x/-/x-1.0.0.tgz" {
		t.Errorf("%d %s", code, body)
	}
}
