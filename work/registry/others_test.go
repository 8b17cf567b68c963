package registry

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A further registry is asked for the packages that are led to it, and no others; one
// that nothing is led to is not asked at all.
func TestOtherRegistries(t *testing.T) {
	t.Parallel()
	index := func(which string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<a href="%s-1.0-py3-none-any.whl">x</a><!-- %s -->`, which, r.URL.Path)
		}))
		t.Cleanup(s.Close)
		return s
	}
	first, second := index("first"), index("second")
	f, err := New(Options{Upstreams: map[Ecosystem]Upstream{PyPI: {URL: first.URL, Others: []Upstream{{URL: second.URL}}}}, Allow: func(Package) error { return nil },
		Other: func(p Package) string {
			if p.Name == "second" {
				return second.URL
			}
			return "https://no.example" // none of the user's: the first is asked
		}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.Serve(l)
	defer f.Close()
	for path, want := range map[string]string{"simple/first/": "first-1.0", "simple/second/": "second-1.0"} {
		resp, err := http.Get("http://" + l.Addr().String() + "/pypi/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, body, err)
		}
	}
}
