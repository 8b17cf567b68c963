package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/proof/reason"
)

// canary is a credential that must be seen nowhere but at its registry.
const canary = "c4nary-0f-a-registry"

// Each form of a credential reaches the registry that it is for, and no other.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"token": canary + "\n", "netrc": "machine other.example login x password y\nmachine 127.0.0.1\n login u\n password " + canary + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Surroundings{Home: dir, Getenv: func(name string) string { return map[string]string{"T": canary}[name] },
		Run: func(_ context.Context, argv []string) ([]byte, error) {
			return []byte(canary + "\n"), map[bool]error{false: errors.New("no " + canary)}[len(argv) == 2 && argv[1] == "a b"]
		}}
	line := func(name string) string { return `{"name":"` + name + `","vers":"1.0.0","deps":[]}` }
	for name, test := range map[string]struct {
		of         Ecosystem
		how, want  string
		path, body string
	}{
		"npm, _authToken":       {NPM, "bearer env:T", "Bearer " + canary, "/npm/x", `{"name":"x"}`},
		"npm, user":             {NPM, "basic u file:" + dir + "/token", Basic("u", canary).header, "/npm/x", `{"name":"x"}`},
		"pip, token":            {PyPI, "basic __token__ env:T", Basic("__token__", canary).header, "/pypi/simple/x/", `<a href="x-1.0-py3-none-any.whl">x</a>`},
		"go, netrc":             {Go, "netrc file:~/netrc", Basic("u", canary).header, "/go/a.example/m/@v/list", "v1.0.0\n"},
		"cargo, header":         {Crates, "token command:show 'a b'", canary, "/crates/1/x", line("x")},
		"npm, a failed command": {NPM, "bearer command:show a b", "", "", ""},
		"npm, no variable":      {NPM, "bearer env:U", "", "", ""},
		"npm, no file":          {NPM, "bearer file:~/absent", "", "", ""},
		"npm, several lines":    {NPM, "bearer file:~/netrc", "", "", ""},
		"go, another host":      {Go, "netrc file:~/token", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			up := registryOf(t, nil)
			up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header.Get("Authorization"))
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, test.body)
			})
			lines, err := ReadCredentials([]byte("# mine\n\nhttps://npm.example bearer env:U\n" + up.URL + "/r " + test.how + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			for base, entered := range map[string]bool{"/r": true, "/r/deep/": true, "/rest": false, "": false} {
				got = nil
				u, err := lines.Enter(t.Context(), test.of, Upstream{URL: up.URL + base}, s)
				if entered && test.want == "" {
					if reason.CodeOf(err) != reason.RegistryUnusable || !strings.Contains(err.Error(), "line 4") || strings.Contains(err.Error(), canary) {
						t.Errorf("%s: %v", base, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if test.want == "" {
					continue
				}
				w := open(t, Options{Upstreams: map[Ecosystem]Upstream{test.of: u}})
				code, body := w.get(test.path)
				if list := w.Close(); code != 200 || strings.Contains(fmt.Sprint(body, list, u), canary) {
					t.Errorf("%s: %d %s %+v", base, code, body, list)
				}
				if want := map[bool]string{true: test.want}[entered]; len(got) != 1 || got[0] != want {
					t.Errorf("%s: the registry got %q", base, got)
				}
			}
		})
	}
}

// The longest URL counts, further registries have lines of their own, and another
// scheme, host or port is another registry.
func TestCredentialsOfOthers(t *testing.T) {
	t.Parallel()
	lines, err := ReadCredentials([]byte("https://r.example token env:A\nhttps://r.example/a/b/ token env:B\nhttps://r.example/a token env:C\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := Surroundings{Getenv: func(name string) string { return "value-of-" + name }}
	for address, want := range map[string]string{"https://R.example/": "A", "sparse+https://r.example/a/": "C", "https://r.example:443/a/b/c": "B", "https://r.example/ab": "A",
		"https://r.example:8443/a": "", "http://r.example/a": "", "https://r.example.evil.example/a": "", "https://evil.example/r.example": "", "https://xr.example": "", "file:///r": ""} {
		u, err := lines.Enter(t.Context(), Crates, Upstream{URL: "https://first.example", Others: []Upstream{{URL: address, Scope: "@a"}}}, s)
		if err != nil || len(u.Others) != 1 || u.Auth.header != "" || u.Others[0].Scope != "@a" {
			t.Fatalf("%s: %+v, %v", address, u, err)
		}
		if got := strings.TrimPrefix(u.Others[0].Auth.header, "value-of-"); got != want {
			t.Errorf("%s has the credential %q, want %q", address, got, want)
		}
	}
}

// A file with a credential in it, or with a line that says two things, is refused
// without a word of it.
func TestCredentialsThatAreRefused(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"https://r.example bearer " + canary:                            "a credential itself does not belong",
		"https://r.example bearer value:" + canary:                      "a credential itself does not belong",
		"https://r.example basic u " + canary:                           "a credential itself does not belong",
		"https://r.example basic u:" + canary + " env:X":                "no user name",
		"https://u:" + canary + "@r.example bearer env:X":               "the URL of a registry",
		"https://r.example/?token=" + canary + " bearer env:X":          "the URL of a registry",
		"http://r.example bearer env:X":                                 "without https",
		"ftp://r.example bearer env:X":                                  "the URL of a registry",
		"//r.example/:_authToken=" + canary:                             "the URL of a registry",
		"https://r.example env:X":                                       "does not say bearer",
		"https://r.example bearer env:" + canary + "=1":                 "a name of a variable",
		"https://r.example bearer file:rel/" + canary:                   "not absolute",
		"https://r.example netrc env:X":                                 "no file:PATH",
		"https://r.example":                                             "does not say bearer",
		"https://a.example bearer env:X\nhttps://A.example token env:Y": "a second time",
		strings.Repeat("https://r.example/", MaxCredentialFile):         "more than",
	} {
		_, err := ReadCredentials([]byte(line))
		if reason.CodeOf(err) != reason.RegistryUnusable || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), canary) {
			t.Errorf("%.60s: %v", line, err)
		}
	}
}

// A registry that repeats the credential in an index is not passed on.
func TestCredentialRepeated(t *testing.T) {
	t.Parallel()
	for _, auth := range []Auth{Bearer(canary), Basic("u", canary)} {
		var escapes, percent, entity, packed string
		for _, c := range canary {
			escapes, percent, entity = escapes+fmt.Sprintf(`\u%04x`, c), percent+fmt.Sprintf("%%%02X", c), entity+fmt.Sprintf("&#x%x;", c)
		}
		_, packed, _ = strings.Cut(auth.header, " ")
		for _, text := range []string{`{"name":"x","said":"` + canary + `"}`, `{"name":"x","said":"` + auth.header + `"}`, `{"name":"x","said":"` + escapes + `"}`,
			`{"name":"x","said":"` + percent + `"}`, `{"name":"x","said":"` + strings.ReplaceAll(percent, "%", "%25") + `"}`, `{"name":"x","said":"` + entity + `"}`,
			`{"name":"x","said":"` + strings.ReplaceAll(entity, ";", "") + `"}`, `{"name":"x","said":"` + strings.ReplaceAll(entity, "&", `\u0026amp;`) + `"}`,
			`{"name":"x","said":"\u00` + fmt.Sprintf("%x", packed[0]) + packed[1:] + `"}`} {
			up := registryOf(t, map[string]http.HandlerFunc{"/x": page("application/json", text)})
			w := open(t, Options{Upstreams: map[Ecosystem]Upstream{NPM: {URL: up.URL, Auth: auth}}})
			code, body := w.get("/npm/x")
			want(t, w.Close(), reason.RegistryAnswer)
			if code == 200 || strings.Contains(body, canary) {
				t.Errorf("%d %s", code, body)
			}
		}
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add("https://r.example bearer env:X\nhttp://127.0.0.1:1 basic u file:~/x", "machine r.example login u password p default login x password y")
	f.Fuzz(func(t *testing.T, text, netrc string) {
		lines, err := ReadCredentials([]byte(text))
		if err != nil && reason.CodeOf(err) != reason.RegistryUnusable {
			t.Error(err)
		}
		for _, l := range lines.lines {
			if l.url.User != nil || l.url.Scheme == "http" && !saysLocal(l.url.Hostname()) {
				t.Errorf("line %d: %s", l.number, l.url)
			}
		}
		if login, password := netrcLogin(netrc, "r.example"); (login == "") != (password == "") && password != "" {
			t.Errorf("%q %q", login, password)
		}
	})
}
