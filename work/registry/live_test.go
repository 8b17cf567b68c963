package registry

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"remit/proof/reason"
)

// reachable skips a test, loudly, when a public registry cannot be reached from
// this machine.
func reachable(t *testing.T, w way, path string) {
	t.Helper()
	code, body := w.get(path)
	if strings.Contains(body, string(reason.RegistryUnreachable)) || strings.Contains(body, string(reason.RegistryAddress)) {
		t.Skipf("SKIPPED, NOT TESTED: the public registry does not answer %s here: %s", path, strings.TrimSpace(body))
	}
	if code != 200 {
		t.Fatalf("%s: %d %s", path, code, body)
	}
}

// The real registries and the real clients: what is downloaded here is small.
func TestLiveNPM(t *testing.T) {
	t.Parallel()
	w, dir := open(t, Options{Upstreams: Defaults()}), t.TempDir()
	reachable(t, w, "/npm/is-odd")
	write(t, dir+"/work/package.json", `{"name":"app","version":"1.0.0","dependencies":{"is-odd":"3.0.1","@types/ms":"2.1.0"}}`)
	if out, err := client(t, dir, Configure(NPM, w.base), "npm", "install"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(dir + "/work/node_modules/is-odd/index.js"); err != nil {
		t.Error(err)
	}
	lock, err := os.ReadFile(dir + "/work/package-lock.json")
	if err != nil || !strings.Contains(string(lock), "is-number") {
		t.Errorf("%v\n%s", err, lock)
	}
	for _, d := range w.Close() {
		if d.Refused != "" {
			t.Errorf("refused: %+v", d)
		}
	}
}

func TestLiveGo(t *testing.T) {
	t.Parallel()
	w, dir := open(t, Options{Upstreams: Defaults()}), t.TempDir()
	reachable(t, w, "/go/golang.org/x/mod/@v/list")
	write(t, dir+"/work/go.mod", "module app\n\ngo 1.21\n\nrequire github.com/BurntSushi/toml v1.3.2\n")
	if out, err := client(t, dir, Configure(Go, w.base), "go", "mod", "download", "all"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := w.Close()
	if d := one(t, list, "/go/github.com/!burnt!sushi/toml/@v/v1.3.2.zip"); d.Bytes == 0 || d.Refused != "" {
		t.Errorf("the delivery is %+v", d)
	}
	if d := one(t, list, "/go/sumdb/sum.golang.org/lookup/github.com/!burnt!sushi/toml@v1.3.2"); d.Refused != "" {
		t.Errorf("the delivery is %+v", d)
	}
}

func TestLivePip(t *testing.T) {
	t.Parallel()
	w, dir := open(t, Options{Upstreams: Defaults()}), t.TempDir()
	reachable(t, w, "/pypi/simple/six/")
	out, err := client(t, dir, Configure(PyPI, w.base), "python3", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "six==1.16.0")
	if err != nil && strings.Contains(out, "No module named pip") {
		t.Skip("SKIPPED, NOT TESTED: python3 here has no pip")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := one(t, w.Close(), "/pypi/file/six/six-1.16.0-py2.py3-none-any.whl"); d.Bytes == 0 || d.Refused != "" {
		t.Errorf("the delivery is %+v", d)
	}
}

func TestLiveCargo(t *testing.T) {
	t.Parallel()
	w, dir := open(t, Options{Upstreams: Defaults()}), t.TempDir()
	reachable(t, w, "/crates/cf/g-/cfg-if")
	write(t, dir+"/work/Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2018\"\n\n[dependencies]\ncfg-if = \"=1.0.0\"\n")
	write(t, dir+"/work/src/lib.rs", "")
	if out, err := client(t, dir, Configure(Crates, w.base), "cargo", "fetch"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if d := one(t, w.Close(), "/crates/dl/cfg-if/1.0.0/download"); d.Bytes == 0 || d.Refused != "" {
		t.Errorf("the delivery is %+v", d)
	}
}

// A resolver that the machine has by default is used, and its answer is checked.
func TestMachineResolver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	addrs, err := resolved(ctx, lookup, "localhost", local)
	if _, broken := errors.AsType[*net.DNSError](err); broken || len(addrs) == 0 {
		t.Skipf("SKIPPED, NOT TESTED: this machine does not resolve localhost: %v", err)
	}
	if !addrs[0].IsLoopback() {
		t.Errorf("localhost is %v", addrs)
	}
	for _, r := range []reach{public, configured} {
		if _, err := resolved(ctx, func(context.Context, string) ([]netip.Addr, error) { return addrs, nil }, "localhost", r); reason.CodeOf(err) != reason.RegistryAddress {
			t.Errorf("reach %d: %v", r, err)
		}
	}
}
