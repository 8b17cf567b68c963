package harness

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/sandbox"
	"remit/work/session"
)

// A project whose tests need a store: it counts, by one too little. The policy of its
// base says how the store is started.
var storeProject = map[string]string{
	"remit.yaml": `environment:
  services:
    - name: store
      run: exec python3 store.py
      ready: python3 -c "import socket; socket.create_connection(('127.0.0.1', 7000))" 2>/dev/null
      env: {STORE: "127.0.0.1:7000"}
`,
	"store.py": `import os, socketserver
data = {}
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            name, _, value = line.decode().strip().partition("=")
            if name == "end": os._exit(3)
            if value: data[name] = value
            self.wfile.write((data.get(name, "0") + "\n").encode())
socketserver.ThreadingTCPServer.allow_reuse_address = True
print("the store is open", flush=True)
socketserver.ThreadingTCPServer(("127.0.0.1", 7000), Handler).serve_forever()
`,
	"counter.py": `import os, socket
def ask(line):
    host, port = os.environ["STORE"].split(":")
    with socket.create_connection((host, int(port))) as s, s.makefile("rw") as f:
        f.write(line + "\n"); f.flush()
        return f.readline().strip()
def more():
    ask("n=%d" % (int(ask("n")) + 0))
    return int(ask("n"))
`,
	"test_counter.py": `import unittest, counter
class Counts(unittest.TestCase):
    def test_a_fresh_store(self):
        self.assertEqual("0", counter.ask("n"))
    def test_more(self):
        before = int(counter.ask("n"))
        self.assertEqual(before + 1, counter.more())
`,
}

func serviceRun(t *testing.T, policy, script string) Request {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: runs with services are not tried")
	}
	files := maps.Clone(storeProject)
	if policy != "" {
		files["remit.yaml"] = policy
	}
	req := fixing(t, newRepo(t, files), realSandbox(t), script)
	req.VerdictCache = false
	req.Contract.VerificationCommands = []string{"python3 -m unittest -v"}
	return req
}

const honestFix = `sed -i 's/ + 0/ + 1/' counter.py`

func TestServiceInARun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	req := serviceRun(t, "", honestFix+"; python3 -m unittest")
	out, _ := baseRun(t, req)
	rep := out.Report
	if e := rep.Environment; e == nil || len(e.Services) != 1 || e.Services[0].Name != "store" || !strings.HasPrefix(e.Services[0].SHA256, "sha256:") ||
		e.Env["STORE"] != "127.0.0.1:7000" {
		t.Errorf("the report says %+v", e)
	}
	for _, name := range []string{engineServices, verifierServices} {
		log, err := os.ReadFile(filepath.Join(out.Session.Dir, name))
		if err != nil || !strings.Contains(string(log), " service=store ready_ms=") || !strings.Contains(string(log), "\nthe store is open\n") {
			t.Errorf("%s: %q, %v", name, log, err)
		}
	}
	again, err := Reproduce(t.Context(), Reproduction{Evidence: os.DirFS(out.Session.Dir), Repo: req.Repo, Home: session.Home{Dir: t.TempDir()}, Sandbox: req.Sandbox})
	if err != nil || again.Status != evidence.StatusPass || again.Environment == nil || !again.Environment.Same || len(again.Environment.Services) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestServiceAndAWrongChange: what a change does with its service never passes, and
// the reason says what it was.
func TestServiceAndAWrongChange(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 8)
	for name, c := range map[string]struct {
		script string
		code   reason.Code
		says   string
	}{
		"a wrong fix":          {`sed -i 's/ + 0/ + 2/' counter.py`, reason.VerificationFailed, ""},
		"another store":        {`sed -i 's/data.get(name, "0")/"1"/' store.py`, reason.VerificationFailed, ""},
		"another definition":   {`sed -i 's/ + 0/ - 1/' counter.py; sed -i 's/exec python3 store.py/sleep 60/' remit.yaml`, reason.ProtectedPath, ""},
		"the store is stopped": {honestFix + `; echo 'ask("end")' >>counter.py`, reason.ServiceEndedByChange, "service store ended with exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := Run(t.Context(), serviceRun(t, "", c.script))
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			if rep.Status == evidence.StatusPass || len(rep.Blockers) == 0 || rep.Blockers[0].Code != c.code || !strings.Contains(rep.Blockers[0].Message, c.says) {
				t.Errorf("%s %+v", rep.Status, rep.Blockers)
			}
			audited(t, out.Session)
		})
	}
}

// TestServiceThatCannotBeHad: the engine is not started without it.
func TestServiceThatCannotBeHad(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	unready := strings.Replace(storeProject["remit.yaml"], "python3 -c", "false; exit 1; python3 -c", 1) + "      timeout_seconds: 1\n"
	none, err := sandbox.Open(t.Context(), sandbox.Options{Driver: sandbox.DriverNone, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		policy string
		change func(*Request)
		code   reason.Code
	}{
		"never ready":  {unready, func(*Request) {}, reason.ServiceNotReady},
		"no sandbox":   {"", func(r *Request) { r.Sandbox, r.ExplicitNone = none, true }, reason.ServiceFailed},
		"ends at once": {strings.Replace(storeProject["remit.yaml"], "exec python3 store.py", "echo no room; exit 1", 1), func(*Request) {}, reason.ServiceFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := serviceRun(t, c.policy, honestFix)
			c.change(&req)
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			if rep.Status != evidence.StatusBlocked || rep.Blockers[0].Code != c.code || rep.EngineProcessStarted || rep.Blockers[0].Hint == "" {
				t.Errorf("%s %+v, engine %v", rep.Status, rep.Blockers, rep.EngineProcessStarted)
			}
			audited(t, out.Session)
		})
	}
}
