package registry

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"remit/proof/reason"
)

const leftPad = `{"name":"left-pad","dist-tags":{"latest":"1.3.0"},"versions":{
 "1.3.0":{"name":"left-pad","version":"1.3.0","dist":{"integrity":"sha512-x","tarball":"https://registry.example/left-pad/-/left-pad-1.3.0.tgz"}},
 "1.2.0":{"name":"left-pad","version":"1.2.0","dist":{"tarball":"file:///etc/passwd"}},
 "../../x":{"name":"left-pad","version":"../../x","dist":{"tarball":"https://registry.example/x.tgz"}},
 "1.1.0":{"name":"left-pad","version":"1.1.0"}}}`

// What a packument says is kept, but for the tarballs: they are at the front.
func TestPackument(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{
		"/left-pad":                      page("application/json", leftPad),
		"/left-pad/-/left-pad-1.3.0.tgz": page("text/html", "tarball"),
		"/@a%2fb":                        page(npmAbbreviated, `{"name":"@a/b","versions":{"2.0.0-rc.1":{"dist":{"tarball":"HTTPS://cdn.example/@a/b/-/b-2.0.0-rc.1.tgz"}}}}`),
		"/@a/b/-/b-2.0.0-rc.1.tgz":       page("", "scoped"),
	})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL)})
	code, body := w.get("/npm/left-pad")
	var doc struct {
		Tags     map[string]string `json:"dist-tags"`
		Versions map[string]struct {
			Dist struct{ Tarball, Integrity string }
		}
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || code != 200 {
		t.Fatalf("status %d, %v: %s", code, err, body)
	}
	if len(doc.Versions) != 2 || doc.Tags["latest"] != "1.3.0" || doc.Versions["1.3.0"].Dist.Integrity != "sha512-x" {
		t.Errorf("the packument is %s", body)
	}
	for v, m := range doc.Versions {
		if want := w.base + "/npm/left-pad/-/left-pad-" + v + ".tgz"; m.Dist.Tarball != want {
			t.Errorf("the tarball of %s is at %s, want %s", v, m.Dist.Tarball, want)
		}
	}
	if code, body := w.get("/npm/left-pad/-/left-pad-1.3.0.tgz"); code != 200 || body != "tarball" {
		t.Errorf("tarball: %d %s", code, body)
	}
	for _, path := range []string{"/npm/@a%2fb", "/npm/@a%2Fb", "/npm/@a/b", "/npm/%40a%2fb"} {
		code, body := w.get(path, "Accept", npmAbbreviated+"; q=1.0, application/json; q=0.8, */*")
		if want := w.base + "/npm/@a/b/-/b-2.0.0-rc.1.tgz"; code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := w.get("/npm/@a/b/-/b-2.0.0-rc.1.tgz"); code != 200 || body != "scoped" {
		t.Errorf("tarball: %d %s", code, body)
	}
	list := w.Close()
	if d := one(t, list, "/npm/left-pad/-/left-pad-1.3.0.tgz"); d != (Delivery{NPM, "left-pad", "1.3.0", "/npm/left-pad/-/left-pad-1.3.0.tgz", digest("tarball"), 7, "", "", d.SHA1}) {
		t.Errorf("the delivery is %+v", d)
	}
	if d := one(t, list, "/npm/left-pad"); d.SHA256 != digest(body) || d.Bytes != int64(len(body)) || d.Version != "" {
		t.Errorf("the delivery is %+v", d)
	}
	if len(list) != 7 {
		t.Errorf("%d deliveries: %+v", len(list), list)
	}
	for _, asked := range up.targets() {
		if strings.Contains(asked, "@a/b") != strings.Contains(asked, ".tgz") && strings.Contains(asked, "@a") {
			t.Errorf("the registry was asked %q", asked)
		}
	}
}

// A tarball that the registry keeps elsewhere on its own server is asked for
// there, one on another server nowhere but at the usual place.
func TestTarballElsewhere(t *testing.T) {
	t.Parallel()
	var up *table
	up = registryOf(t, map[string]http.HandlerFunc{
		"/npm/own": func(w http.ResponseWriter, r *http.Request) {
			page("application/json", `{"name":"own","versions":{"1.0.0":{"dist":{"tarball":"`+up.URL+`/download/own/1.0.0/abc?sig=1"}}}}`)(w, r)
		},
		"/npm/other":              page("application/json", `{"name":"other","versions":{"1.0.0":{"dist":{"tarball":"https://evil.example/other-1.0.0.tgz"}}}}`),
		"/download/own/1.0.0/abc": page("", "own"),
	})
	n := &network{}
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL+"/npm/"), Resolve: n.resolve})
	w.get("/npm/own")
	w.get("/npm/other")
	if code, body := w.get("/npm/own/-/own-1.0.0.tgz"); code != 200 || body != "own" {
		t.Errorf("own: %d %s", code, body)
	}
	if code, body := w.get("/npm/other/-/other-1.0.0.tgz"); code != 404 {
		t.Errorf("other: %d %s", code, body)
	}
	if d := one(t, w.Close(), "/npm/other/-/other-1.0.0.tgz"); d.Refused != reason.RegistryMissing {
		t.Errorf("the delivery is %+v", d)
	}
}

// The front asks no registry for a package that the caller does not allow.
func TestAllow(t *testing.T) {
	t.Parallel()
	up := registryOf(t, map[string]http.HandlerFunc{
		"/yes":                 page("application/json", `{"name":"yes"}`),
		"/yes/-/yes-1.0.0.tgz": page("", "yes"),
	})
	w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Allow: func(p Package) error {
		if p.Ecosystem == NPM && p.Name == "yes" && (p.Version == "" || p.Version == "1.0.0") {
			return nil
		}
		return errors.New("package-lock.json does not name it")
	}})
	for path, want := range map[string]int{
		"/npm/yes": 200, "/npm/yes/-/yes-1.0.0.tgz": 200,
		"/npm/yes/-/yes-1.0.1.tgz": 403, "/npm/no": 403, "/npm/no/-/no-1.0.0.tgz": 403, "/npm/@x/yes": 403,
	} {
		code, body := w.get(path)
		if code != want || code == 403 && !strings.Contains(body, "package-lock.json does not name it") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if n := len(up.targets()); n != 2 {
		t.Errorf("the registry was asked %q", up.targets())
	}
	if d := one(t, w.Close(), "/npm/yes/-/yes-1.0.1.tgz"); d.Refused != reason.RegistryRefused || d.Name != "yes" || d.Version != "1.0.1" || d.SHA256 != "" {
		t.Errorf("the delivery is %+v", d)
	}
}

// A file that no lock file has a digest of is held to the one of the registry's index,
// whether or not the client asked for that.
func TestUnlockedFiles(t *testing.T) {
	t.Parallel()
	sum := sha512.Sum512([]byte("file"))
	right := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	for name, test := range map[string]struct {
		packument string
		code      reason.Code
	}{
		"same":      {`"integrity": "sha1-00 ` + right + `"`, ""},
		"another":   {`"integrity": "sha512-` + strings.Repeat("A", 86) + `=="`, reason.RegistryAnswer},
		"SHA-1":     {`"integrity": "sha1-00", "shasum": "971c419dd609331343dee105fffd0f4608dc0bf2"`, reason.RegistryAnswer},
		"no digest": {`"shasum": "971c419dd609331343dee105fffd0f4608dc0bf2"`, reason.RegistryAnswer},
	} {
		up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "file"), "/y/-/y-1.0.0.tgz": page("", "file"),
			"/x": page("application/json", `{"name": "x", "versions": {"1.0.0": {"dist": {`+test.packument+`, "tarball": "/x/-/x-1.0.0.tgz"}}}}`)})
		w := open(t, Options{Upstreams: upstreams(NPM, up.URL), Unlocked: func(p Package) bool { return p.Name == "x" }})
		code, body := w.get("/npm/x/-/x-1.0.0.tgz")
		if ok := code == 200 && body == "file"; ok && test.code != "" && len(up.targets()) != 2 || !ok && test.code == "" {
			t.Errorf("%s: %d %s", name, code, body)
		}
		if code, body := w.get("/npm/y/-/y-1.0.0.tgz"); code != 200 || body != "file" || len(up.targets()) > 3 {
			t.Errorf("%s: a locked file: %d %s, asked %q", name, code, body, up.targets())
		}
		if d := one(t, w.Close(), "/npm/x/-/x-1.0.0.tgz"); d.Refused != test.code || (d.SHA256 == "") != (test.code != "") {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
