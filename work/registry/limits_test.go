package registry

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"remit/proof/reason"
)

// All answers together are bounded.
func TestTotalBytes(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", repeat("x", 60_000)), "/x/-/x-2.0.0.tgz": page("", repeat("x", 60_000))})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Limits: Limits{TotalBytes: 100_000}})
	if code, body := w.get("/npm/x/-/x-1.0.0.tgz"); code != 200 || len(body) != 60_000 {
		t.Errorf("%d, %d bytes", code, len(body))
	}
	if _, body := w.get("/npm/x/-/x-2.0.0.tgz"); !strings.HasPrefix(body, "broken: ") {
		t.Errorf("%d bytes beyond the bound", len(body))
	}
	if d := one(t, w.Close(), "/npm/x/-/x-2.0.0.tgz"); d.Refused != reason.RegistryTooLarge || d.SHA256 != "" || d.Bytes > 40_000 {
		t.Errorf("%+v", d)
	}
}

// The count of requests limits the count of records: one record stands for all requests
// beyond the limit.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "x")})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Limits: Limits{Requests: 3}})
	for i := range 10 {
		code, _ := w.get("/npm/x/-/x-1.0.0.tgz")
		if (code == 200) != (i < 3) {
			t.Errorf("request %d: %d", i, code)
		}
	}
	list := w.Close()
	if len(list) != 4 || list[0].Refused != reason.RegistryTooLarge || !strings.Contains(list[0].Why, "7 requests") {
		t.Errorf("%+v", list)
	}
	if len(up.targets()) != 3 {
		t.Errorf("the registry was asked %d times", len(up.targets()))
	}
}

// Exchanges with a registry are bounded, however many clients ask.
func TestExchangesAreBounded(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int32
	release := make(chan struct{})
	pages := map[string]http.HandlerFunc{}
	for i := range 12 {
		pages[fmt.Sprintf("/x/-/x-%d.0.0.tgz", i)] = func(w http.ResponseWriter, _ *http.Request) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-release
			_, _ = io.WriteString(w, "x")
		}
	}
	up := registryOf(t, pages)
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Limits: Limits{Exchanges: 3}})
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if code, body := w.get(fmt.Sprintf("/npm/x/-/x-%d.0.0.tgz", i)); code != 200 {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	for range 12 {
		release <- struct{}{}
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d exchanges at once", most.Load())
	}
}

// Close ends what is under way, tells of it, and says the same again. Its answer
// does not depend on the order of the requests.
func TestClose(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 2)
	hold := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, repeat("x", 100_000))
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	}
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": hold, "/y": hold})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL)})
	ended := make(chan string, 2)
	for _, path := range []string{"/npm/x/-/x-1.0.0.tgz", "/npm/y"} {
		go func() {
			code, body := w.get(path)
			if code == http.StatusOK && !strings.HasPrefix(body, "broken: ") {
				t.Errorf("%s was ended and looks whole: %d bytes", path, len(body))
			}
			ended <- path
		}()
	}
	<-begun
	<-begun
	list := w.Close()
	for range 2 {
		<-ended
	}
	if len(list) != 2 || list[0].Refused != reason.RegistryIncomplete || list[1].Refused != reason.RegistryIncomplete || list[0].SHA256 != "" {
		t.Errorf("%+v", list)
	}
	if again := w.Close(); !reflect.DeepEqual(list, again) {
		t.Errorf("the second answer is %+v", again)
	}
	if _, err := w.ask(http.MethodGet, "/npm/y"); err == nil {
		t.Error("a closed front answers")
	}

	small := registryOf(t, map[string]http.HandlerFunc{"/a": page("application/json", `{"name":"a"}`), "/b": page("application/json", `{"name":"b"}`)})
	told := func(paths ...string) []Delivery {
		w := open(t, Options{Upstreams: upstreams(NPM, small.URL)})
		for _, p := range paths {
			w.get(p)
		}
		return w.Close()
	}
	if a, b := told("/npm/a", "/npm/b", "/npm/c", "/x"), told("/x", "/npm/c", "/npm/b", "/npm/a"); !reflect.DeepEqual(a, b) || len(a) != 4 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// HEAD is answered like GET, without the body, and costs the registry none.
func TestHead(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{"/x": page("application/json", `{"name":"x"}`), "/x/-/x-1.0.0.tgz": page("", "file")})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL)})
	for path, length := range map[string]int64{"/npm/x": 12, "/npm/x/-/x-1.0.0.tgz": 4} {
		resp, err := w.ask(http.MethodHead, path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(body) != 0 || resp.StatusCode != http.StatusOK || resp.ContentLength != length {
			t.Errorf("%s: %d, %d, %q, %v", path, resp.StatusCode, resp.ContentLength, body, err)
		}
	}
	for _, d := range w.Close() {
		if d.Bytes != 0 || d.SHA256 != "" || d.Refused != "" {
			t.Errorf("%+v", d)
		}
	}
	if asked := strings.Join(up.targets(), ","); !strings.Contains(asked, "HEAD /x/-/x-1.0.0.tgz") {
		t.Errorf("the registry was asked %s", asked)
	}
}
