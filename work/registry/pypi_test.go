package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"remit/proof/reason"
)

// Names of files, and the version in them.
func TestPyPIFiles(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"my_pkg-1.2.0-py3-none-any.whl":                            "1.2.0",
		"My.Pkg-1.2.0-1-cp311-cp311-manylinux_2_17_x86_64.whl":     "1.2.0",
		"my_pkg-1.0+cu118-cp311-cp311-linux_x86_64.whl":            "1.0+cu118",
		"my-pkg-1.2.tar.gz":                                        "1.2",
		"my_pkg-1!2.0rc1.zip":                                      "1!2.0rc1",
		"my-pkg-1.0-2.tar.bz2":                                     "1.0-2",
		"my-pkg-extra-1.0.tar.gz":                                  "",
		"my_pkg-1.2.0.whl":                                         "",
		"my_pkg-1.2.0-py3-none.whl":                                "",
		"my_pkg-1.2.0-py3-none-any-x-y-z.whl":                      "",
		"my_pkg--py3-none-any.whl":                                 "",
		"other-1.2.tar.gz":                                         "",
		"my_pkg-latest.tar.gz":                                     "",
		"my_pkg-1.2.exe":                                           "",
		"my_pkg-1.2.tar.gz/../../x":                                "",
		"my_pkg-" + repeat("1", 200) + ".tar.gz":                   "",
		"my_pkg-1.2.0-py3-none-any.whl" + repeat("x", 300) + "whl": "",
	} {
		got, ok := pypiFileVersion("my-pkg", file)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", file, got, ok)
		}
	}
	for name, want := range map[string]string{"My.Pkg": "my-pkg", "a__b--c..d": "a-b-c-d", "x": "x"} {
		if got := ProjectName(name); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// What an index can name, and where that leads: a file is asked for where the index
// said, if that is a public place, and nowhere else.
func TestPyPILinks(t *testing.T) {
	t.Parallel()
	const file = "x-1.0-py3-none-any.whl"
	for name, test := range map[string]struct {
		link string
		want int    // of the file
		out  string // where the record says that it leads
	}{
		"same server":             {"/packages/" + file, 200, ""},
		"relative":                {"../../packages/" + file, 200, ""},
		"another public host":     {"https://cdn.example/" + file, 200, ""},
		"without a scheme":        {"//cdn.example/" + file, 200, ""},
		"with a query":            {"https://cdn.example/" + file + "?signature=1", 200, ""},
		"file":                    {"file:///etc/passwd/" + file, 404, "file:"},
		"data":                    {"data:application/zip;base64,AAAA/" + file, 404, ""},
		"javascript":              {"javascript:alert(1)/" + file, 404, ""},
		"no https":                {"http://cdn.example/" + file, 404, "cdn.example"},
		"with a user":             {"https://u:p@cdn.example/" + file, 404, "cdn.example"},
		"loopback":                {"https://127.0.0.1/" + file, 404, "127.0.0.1"},
		"loopback, IPv6":          {"https://[::1]/" + file, 404, ""},
		"decimal":                 {"https://2130706433/" + file, 404, ""},
		"localhost":               {"https://localhost/" + file, 404, "localhost"},
		"short name":              {"https://intranet/" + file, 404, ""},
		"other port":              {"https://cdn.example:22/" + file, 404, "cdn.example:22"},
		"own server, other port":  {"https://r.example:22/" + file, 404, ""},
		"private name":            {"https://private.example/" + file, 403, ""},
		"metadata name":           {"https://metadata.example/" + file, 403, ""},
		"another project":         {"/packages/y-1.0-py3-none-any.whl", 404, ""},
		"another version":         {"/packages/x-2.0-py3-none-any.whl", 404, ""},
		"a name behind a slash":   {"/packages/..%2f" + file, 404, ""},
		"a name with quote marks": {"/packages/x-1.0%22-py3-none-any.whl", 404, ""},
	} {
		for _, kind := range []string{simpleHTML, simpleJSON} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				body := `<html><base href="https://private.example/"><a href="` + test.link + `#sha256=` + digest("x") + `" data-requires-python=">=3"><b>` + file + `</b></a>`
				if kind == simpleJSON {
					filename := test.link[strings.LastIndexByte(test.link, '/')+1:]
					if i := strings.IndexByte(filename, '?'); i >= 0 {
						filename = filename[:i]
					}
					body = fmt.Sprintf(`{"name":"x","files":[{"filename":%q,"url":%q,"hashes":{"sha256":%q}}]}`, filename, test.link, digest("x"))
				}
				cdn := &table{pages: map[string]http.HandlerFunc{"/" + file: page("", "x")}}
				up := &table{pages: map[string]http.HandlerFunc{"/simple/x/": page(kind, body), "/packages/" + file: page("", "x")}}
				w, n := secure(t, PyPI, "https://r.example/simple", up, cdn)
				for _, accept := range []string{simpleJSON, "text/html", ""} {
					code, index := w.get("/pypi/simple/X/", "Accept", accept)
					if code != 200 || strings.Contains(index, "cdn.example") || strings.Contains(index, "r.example") || strings.Contains(index, "file:") {
						t.Errorf("%d %s", code, index)
					}
					if own := w.base + "/pypi/file/x/" + file; test.want == 200 && (!strings.Contains(index, own) || !strings.Contains(index, digest("x"))) {
						t.Errorf("the index is %s", index)
					}
				}
				if code, body := w.get("/pypi/file/x/" + file); code != test.want || code == 200 && body != "x" {
					t.Errorf("%d %s", code, body)
				}
				if told := fmt.Sprint(w.Close()); test.out != "" && !strings.Contains(told, "leads to "+test.out) {
					t.Errorf("deliveries: %s", told)
				}
				if test.want == 404 && len(n.dialled) > 1 {
					t.Errorf("dialled %q", n.dialled)
				}
				for _, h := range cdn.heads {
					if h.Get("Authorization") != "" {
						t.Error("another host got the credential")
					}
				}
			})
		}
	}
}

// A file is found without the client having read the index, its metadata lies beside
// it, and what one index names is no file of another project.
func TestPyPIFileFirst(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{
		"/simple/x/":                 page(simpleJSON, `{"name":"X","files":[{"filename":"x-1.0.tar.gz","url":"/f/x-1.0.tar.gz"},{"filename":"x-1.0.tar.gz","url":"/f/second"},{"filename":"y-1.0.tar.gz","url":"/f/y"}]}`),
		"/simple/z/":                 page(simpleJSON, `{"name":"y","files":[]}`),
		"/f/x-1.0.tar.gz":            page("", "x"),
		"/f/x-1.0.tar.gz.metadata":   page("", "about x"),
		"/f/x-1.0.tar.gz.provenance": page("", "no"),
		"/f/second":                  page("", "no"),
	})
	w := open(t, Options{Upstreams: upstreams(PyPI, up.URL+"/simple/")})
	for _, test := range []struct {
		path, body string
		code       int
	}{
		{"/pypi/file/x/x-1.0.tar.gz.metadata", "about x", 200},
		{"/pypi/file/X/x-1.0.tar.gz", "x", 200},
		{"/pypi/file/x/x-1.0.tar.gz.provenance", "", 403},
		{"/pypi/file/x/x-1.1.tar.gz", "", 404},
		{"/pypi/file/y/y-1.0.tar.gz", "", 404},
		{"/pypi/simple/z/", "", 403},
	} {
		if code, body := w.get(test.path); code != test.code || code == 200 && body != test.body {
			t.Errorf("%s: %d %s", test.path, code, body)
		}
	}
	if d := one(t, w.Close(), "/pypi/simple/z/"); d.Refused != reason.RegistryAnswer {
		t.Errorf("%+v", d)
	}
}

// An index is not believed in how much it has.
func TestPyPIBounds(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"files":         `{"name":"x","files":[` + repeat("{},", maxMembers) + "{}]}",
		"one file":      `{"name":"x","files":[{"hashes":{"sha256":"` + repeat("a", maxEntry) + `"}}]}`,
		"no files":      `{"name":"x"}`,
		"files as text": `{"name":"x","files":"[]"}`,
		"a number":      `{"name":"x","files":[7]}`,
		"links":         repeat("<a href=x>", maxMembers),
		"one link":      `<a href="` + repeat("x", 2<<20),
	} {
		kind := simpleJSON
		if body[0] == '<' {
			kind = simpleHTML
		}
		up := registryOf(t, map[string]http.HandlerFunc{"/x/": page(kind, body)})
		w := open(t, Options{Upstreams: upstreams(PyPI, up.URL)})
		if code, body := w.get("/pypi/simple/x/"); code != 403 {
			t.Errorf("%s: %d %s", name, code, body)
		}
		want(t, w.Close(), reason.RegistryAnswer)
	}
}

// What a registry says of a file is kept in the forms of the standard only.
func TestPyPIAttributes(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{"/x/": page("text/html", `<a data-yanked="&quot;&gt;&lt;script&gt;" data-dist-info-metadata="sha256=`+digest("m")+
		`" data-requires-python="&gt;=3&quot; onclick=x" onclick="evil()" data-gpg-sig="true" href="/f/x-1.0.tar.gz#sha256=`+digest("x")+`&amp;egg=evil">x</a>`+
		`<a href="/f/x-1.1.tar.gz#sha256=`+digest("y")+`" data-yanked>x</a>`)})
	w := open(t, Options{Upstreams: upstreams(PyPI, up.URL)})
	_, page := w.get("/pypi/simple/x/")
	for _, never := range []string{"<script", "evil", "gpg", "\" onclick"} {
		if strings.Contains(page, never) {
			t.Errorf("%q is in %s", never, page)
		}
	}
	_, text := w.get("/pypi/simple/x/", "Accept", simpleJSON)
	var doc simpleDocument
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Files) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	if f := doc.Files[0]; f.Yanked != `"><script>` || f.Requires != `>=3" onclick=x` || len(f.Hashes) != 0 || fmt.Sprint(f.CoreMetadata) != "map[sha256:"+digest("m")+"]" {
		t.Errorf("%+v", f)
	}
	if f := doc.Files[1]; f.Yanked != true || f.Hashes["sha256"] != digest("y") {
		t.Errorf("%+v", f)
	}
}
