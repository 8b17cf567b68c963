//go:build linux

package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"remit/proof/reason"
	"remit/work/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

// wayOut tries to get out of the sandbox, past the front and through it, and prints
// what came of each.
const wayOut = `
import json, socket, sys
from http.client import HTTPConnection
host, port = sys.argv[1], int(sys.argv[2])
front = ('127.0.0.1', 18080)
seen = {}

def tried(name, f):
    try:
        seen[name] = str(f())
    except Exception as e:
        seen[name] = 'refused'

def tcp(address):
    s = socket.create_connection(address, 2)
    s.close()
    return 'connected'

def udp(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    s.sendto(b'data', address)
    return 'sent'

def raw(text):
    s = socket.create_connection(front, 5)
    s.sendall(text.replace('\n', '\r\n').encode())
    got = s.makefile('rb').readline().split()
    return int(got[1])

def http(method, path, body=None, headers={}):
    c = HTTPConnection(*front, timeout=10)
    c.request(method, path, body, headers)
    return c.getresponse().status

tried('name', lambda: socket.getaddrinfo('registry.npmjs.org', 443))
tried('udp to a resolver', lambda: udp(('1.1.1.1', 53)))
tried('tcp by number', lambda: tcp(('1.1.1.1', 443)))
tried('tcp to the host', lambda: tcp((host, port)))
tried('another port of the loopback', lambda: tcp(('127.0.0.1', 80)))
tried('ipv6 loopback', lambda: tcp(('::1', 18080)))
tried('allowed', lambda: http('GET', '/npm/x/-/x-1.0.0.tgz'))
tried('not allowed', lambda: http('GET', '/npm/x/-/x-6.6.6.tgz'))
tried('post', lambda: http('POST', '/npm/x', b'x' * 1000000))
tried('put', lambda: http('PUT', '/npm/x', b'x'))
tried('query', lambda: http('GET', '/npm/x?source=' + 'x' * 3000))
tried('host header', lambda: http('GET', '/npm/x', None, {'Host': 'evil.example'}))
tried('connect', lambda: raw('CONNECT %s:%d HTTP/1.1\nHost: x\n\n' % (host, port)))
tried('absolute form', lambda: raw('GET http://%s:%d/npm/x HTTP/1.1\nHost: x\n\n' % (host, port)))
tried('dots', lambda: raw('GET /npm/../../x HTTP/1.1\nHost: 127.0.0.1:18080\n\n'))
print(json.dumps(seen))
`

// From inside of the real sandbox the front is the only way out, and lets through what
// is allowed. The control is the same program outside.
func TestInTheSandbox(t *testing.T) {
	t.Parallel()
	d, err := sandbox.Open(t.Context(), sandbox.Options{})
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: the sandbox cannot be tested here: %v", err)
	}
	up := registryOf(t, map[string]http.HandlerFunc{"/x/-/x-1.0.0.tgz": page("", "x"), "/x/-/x-6.6.6.tgz": page("", "x")})
	host, port, err := net.SplitHostPort(strings.TrimPrefix(up.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{Upstreams: upstreams(NPM, up.URL), Allow: func(p Package) error {
		if p.Version != "1.0.0" {
			return errors.New("the lock file does not name it")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err := d.Run(context.WithoutCancel(t.Context()), sandbox.Spec{Lower: t.TempDir(), Loopback: f.Serve,
		Commands: []sandbox.Command{{Argv: []string{"python3", "-c", wayOut, host, port}, Stdout: &out, Stderr: &out}}})
	list := f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if r.Commands[0].ExitCode == 127 {
		t.Skip("SKIPPED, NOT TESTED: there is no python3 below /usr")
	}
	var seen map[string]string
	if err := json.Unmarshal(out.Bytes(), &seen); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for name, want := range map[string]string{
		"name": "refused", "udp to a resolver": "refused", "tcp by number": "refused", "tcp to the host": "refused",
		"another port of the loopback": "refused", "ipv6 loopback": "refused",
		"allowed": "200", "not allowed": "403", "post": "405", "put": "405", "query": "403", "host header": "403",
		"connect": "405", "absolute form": "403", "dots": "403",
	} {
		// Where the client notices first that a connection is closed on what it sends, that is a refusal as well.
		if got := seen[name]; got != want && (want[0] != '4' || got != "refused") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if asked := up.targets(); len(asked) != 1 || asked[0] != "GET /x/-/x-1.0.0.tgz" {
		t.Errorf("the registry was asked %q", asked)
	}
	for _, d := range list {
		if (d.Refused == "") != (d.Version == "1.0.0") || d.Refused != "" && d.Refused != reason.RegistryRefused {
			t.Errorf("%+v", d)
		}
	}
	if len(list) != 9 {
		t.Errorf("%d requests are reported, want 9: %+v", len(list), list)
	}
	if control, err := client(t, t.TempDir(), Client{}, "python3", "-c", wayOut, host, port); err != nil || !strings.Contains(control, `"tcp to the host": "connected"`) {
		t.Errorf("outside the program reaches nothing either: %v %s", err, control)
	}
}
