package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"remit/proof/reason"
)

// machine answers for the clients.
func machine(says map[string]string) func(context.Context, []string) ([]byte, error) {
	return func(_ context.Context, argv []string) ([]byte, error) {
		line := strings.Join(argv, " ")
		for part, said := range says {
			if strings.Contains(line, part) {
				return []byte(said), nil
			}
		}
		return nil, errors.New("not found")
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   Ecosystem
		says map[string]string
		want Upstream
		bad  string
	}{
		"no clients npm": {of: NPM, want: Upstream{URL: "https://registry.npmjs.org"}},
		"no clients go":  {of: Go, want: Upstream{URL: "https://proxy.golang.org"}},
		"npm default": {NPM, map[string]string{"npm config get": "registry=https://registry.npmjs.org/\ncafile=null\n"},
			Upstream{URL: "https://registry.npmjs.org/"}, ""},
		"npm mirror": {NPM, map[string]string{"npm config get": "registry=https://u:s3cr%40t@npm.corp.example/r/\ncafile=/etc/ca.pem\n"},
			Upstream{URL: "https://npm.corp.example/r/", CAFile: "/etc/ca.pem", Auth: Basic("u", "s3cr@t"), Local: true}, ""},
		"npm scopes": {NPM, map[string]string{"npm config get": "registry=https://registry.npmjs.org/\n", "npm config list": "; \"user\" config\n\n@acme:registry = \"https://npm.acme.example/x/\"\n" +
			"@acme:registry = \"https://later.example\"\n@b:registry = \"https://u:***@npm.b.example\"\n@c:registry = \"file:///srv\"\n//npm.acme.example/:_authToken = (protected)\n"},
			Upstream{URL: "https://registry.npmjs.org/", Others: []Upstream{{URL: "https://npm.acme.example/x", Scope: "@acme", Local: true}}}, ""},
		"npm does not tell": {NPM, map[string]string{"npm --version": "11.19.1"}, Upstream{}, "does not tell"},
		"npm directory":     {NPM, map[string]string{"npm config get": "registry=file:///srv/npm\ncafile=null"}, Upstream{}, "file:"},
		"npm nonsense":      {NPM, map[string]string{"npm config get": "registry=::s3cr@t\n"}, Upstream{}, "no http or https URL"},
		"go list": {Go, map[string]string{"go env": `{"GOPROXY":"file:///srv/go|direct,https://u:` + `s3cr@t@goproxy.corp.example,https://proxy.golang.org"}`},
			Upstream{URL: "https://goproxy.corp.example", Auth: Basic("u", "s3cr@t"), Local: true}, ""},
		"go pipe":      {Go, map[string]string{"go env": `{"GOPROXY":"http://127.0.0.1:3000|https://proxy.golang.org"}`}, Upstream{URL: "http://127.0.0.1:3000", Local: true}, ""},
		"go off":       {Go, map[string]string{"go env": `{"GOPROXY":"off"}`}, Upstream{}, "direct"},
		"go direct":    {Go, map[string]string{"go env": `{"GOPROXY":"direct"}`}, Upstream{}, "direct"},
		"go directory": {Go, map[string]string{"go env": `{"GOPROXY":"file:///s3cr@t,off"}`}, Upstream{}, "file:"},
		"pip": {PyPI, map[string]string{"pip config": "global.cert='/a.pem'\nglobal.index-url='https://a.example/simple'\n:env:.index-url='https://u:" + "s3cr@t@b.example/simple'\n" +
			"download.index-url='https://c.example/simple'\nglobal.extra-index-url='https://u:" + "s3cr@t@d.example'\n"},
			Upstream{URL: "https://b.example/simple", CAFile: "/a.pem", Auth: Basic("u", "s3cr@t"), Local: true,
				Others: []Upstream{{URL: "https://d.example", CAFile: "/a.pem", Auth: Basic("u", "s3cr@t"), Local: true}}}, ""},
		"pip with more": {PyPI, map[string]string{"pip config": `global.extra-index-url='\nhttps://d.example/whl/\nfile:///srv/x\nhttps://e.example/whl'` + "\n"},
			Upstream{URL: "https://pypi.org/simple", Others: []Upstream{{URL: "https://d.example/whl", Local: true}, {URL: "https://e.example/whl", Local: true}}}, ""},
		"pip as a module": {PyPI, map[string]string{"python3 -m pip": `:env:.index-url="https://x'y.example/"`}, Upstream{}, "host name"},
		"cargo": {Crates, map[string]string{
			"cargo config get -Zunstable-options --format json source":      `{"source":{"crates-io":{"replace-with":"a"},"a":{"replace-with":"b"},"b":{"registry":"sparse+https://u:` + `s3cr@t@m.example/i/"}}}`,
			"cargo config get -Zunstable-options --format json http.cainfo": `{"http":{"cainfo":"/c.pem"}}`},
			Upstream{URL: "sparse+https://m.example/i/", CAFile: "/c.pem", Auth: Basic("u", "s3cr@t"), Local: true}, ""},
		"cargo git":    {Crates, map[string]string{"json source": `{"source":{"crates-io":{"replace-with":"a"},"a":{"registry":"https://s3cr@t.example/i"}}}`}, Upstream{}, "sparse"},
		"cargo vendor": {Crates, map[string]string{"json source": `{"source":{"crates-io":{"replace-with":"a"},"a":{"directory":"/s3cr@t"}}}`}, Upstream{}, "directory"},
		"cargo circle": {Crates, map[string]string{"json source": `{"source":{"crates-io":{"replace-with":"a"},"a":{"replace-with":"crates-io"}}}`}, Upstream{}, "circle"},
		"no apt":       {Debian, nil, Upstream{URL: "https://deb.debian.org/debian", Others: []Upstream{{URL: "https://deb.debian.org/debian-security"}}}, ""},
		"apt": {Debian, map[string]string{"apt-get indextargets": "cdrom://a\nhttps://u:" + "s3cr@t@apt.example/x\nhttp://deb.debian.org/debian/\nhttp://deb.debian.org/debian\nhttp://deb.debian.org/debian-security/\n"},
			Upstream{URL: "http://deb.debian.org/debian", Others: []Upstream{{URL: "https://apt.example/x", Auth: Basic("u", "s3cr@t"), Local: true}, {URL: "http://deb.debian.org/debian-security", Local: true}}}, ""},
		"apt of another":  {Debian, map[string]string{"apt-get indextargets": "http://mirror.example/ubuntu/\n"}, Upstream{URL: "http://mirror.example/ubuntu", Local: true}, ""},
		"no bundler":      {RubyGems, nil, Upstream{URL: "https://rubygems.org"}, ""},
		"bundler without": {RubyGems, map[string]string{"bundle config": ""}, Upstream{URL: "https://rubygems.org"}, ""},
		"bundler": {RubyGems, map[string]string{"bundle config get mirror.https://rubygems.org/ --parseable": "mirror.https://rubygems.org/=https://u:" + "s3cr@t@gems.example/m/\n"},
			Upstream{URL: "https://gems.example/m/", Auth: Basic("u", "s3cr@t"), Local: true}, ""},
		"bundler, a directory": {RubyGems, map[string]string{"bundle config": "mirror.https://rubygems.org/=file:///s3cr@t"}, Upstream{}, "file:"},
		"too much":             {NPM, map[string]string{"npm": "registry=https://a.example/" + repeat("x", maxSaid)}, Upstream{}, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, bad := Discover(t.Context(), machine(test.says), test.of)
			if test.bad == "" && (!reflect.DeepEqual(found[test.of], test.want) || len(bad) != 0) {
				t.Errorf("got %+v, %v", found, bad)
			}
			err := bad[test.of]
			if test.bad != "" && (err == nil || !strings.Contains(err.Error(), test.bad) || reason.CodeOf(err) != reason.RegistryUnusable || len(found) != 0) {
				t.Errorf("got %+v, %v", found, bad)
			}
			text, jerr := json.Marshal(found)
			if all := fmt.Sprintf("%v %+v %#v %s %v %v", found, found, found, text, err, jerr); strings.Contains(all, "s3cr") || strings.Contains(all, Basic("u", "s3cr@t").header) {
				t.Errorf("a credential is printed: %s", all)
			}
		})
	}
}

// A client that does not answer in time is not taken for one that is not there.
func TestDiscoverSilence(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	found, bad := Discover(over, func(ctx context.Context, _ []string) ([]byte, error) { return nil, ctx.Err() })
	if len(found) != 0 || len(bad) != len(Ecosystems()) {
		t.Errorf("%+v, %v", found, bad)
	}
	for e, err := range bad { // and one that was stopped by the user is not called silent
		if !errors.Is(err, context.Canceled) || reason.CodeOf(err) != "" {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// The clients of this machine are asked, each for single settings.
func TestDiscoverHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	found, bad := Discover(t.Context(), func(ctx context.Context, argv []string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = dir
		return cmd.Output()
	})
	for _, e := range Ecosystems() {
		if _, ok := found[e]; !ok && bad[e] == nil {
			t.Errorf("nothing is said of %s", e)
		}
	}
	if _, err := New(Options{Allow: anything, Upstreams: found}); err != nil && !slices.Contains([]reason.Code{reason.RegistryUnusable}, reason.CodeOf(err)) {
		t.Error(err)
	}
}
