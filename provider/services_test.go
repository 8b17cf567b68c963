package provider

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/law/job"
	"remit/law/task"
	"remit/work/harness"
)

// A service that answers with what the base says, and ends when it is asked to.
const answering = `import socketserver, os
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        if self.rfile.readline() == b"end\n": os._exit(3)
        self.wfile.write(b"%s")
socketserver.ThreadingTCPServer(("127.0.0.1", 7002), Handler).serve_forever()
`

// TestServicesOfAJob: the commands of a job have the services of its base beside them.
// What the change does to their programs has no effect, and a command whose service was
// over before it is none that passed.
func TestServicesOfAJob(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("SKIPPED, python3 is not installed: %v", err)
	}
	const policy = "environment:\n  services:\n    - name: db\n      run: exec python3 db.py\n" +
		"      ready: python3 -c \"import socket; socket.create_connection(('127.0.0.1', 7002))\" 2>/dev/null\n"
	repo, ids := commits(t,
		map[string]string{"a.txt": "x\n", "remit.yaml": policy, "db.py": strings.Replace(answering, "%s", "base", 1)},
		map[string]string{"db.py": strings.Replace(answering, "%s", "head", 1)},
		map[string]string{"remit.yaml": "environment: {services: [{name: db, run: no-such-program-here, ready: 'false'}]}\n"},
		map[string]string{"remit.yaml": policy + "environments: {}\n"})
	d := daemon(t, "http://127.0.0.1:0", func(c *Config) { c.Sources = []string{filepath.Dir(repo)} })
	ask := func(base, command string) (job.SandboxRunResponse, job.Verdict, string) {
		checkout := t.TempDir()
		gitIn(t, repo, "--work-tree", checkout, "checkout", "-q", base, "--", ".")
		gitIn(t, repo, "reset", "-q")
		env, err := harness.EnvironmentAt(checkout, false)
		if err != nil && base != ids[3] {
			t.Fatal(err)
		}
		r := request(t, repo, func(r *job.SandboxRunRequest) {
			r.Repo.GitRef = &ids[1]
			r.Commands = []job.Command{{Cmd: "true"}, {Cmd: command}}
			r.Environment = &job.Environment{Base: job.Base{Source: repo, GitRef: base}, Services: servicesOf(t, env)}
		})
		resp, _ := d.runForTest(t.Context(), t, r)
		text, err := json.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		return resp, job.Check(r, resp), string(text)
	}
	const say = `python3 -c "import socket; s = socket.create_connection(('127.0.0.1', 7002)); s.sendall(b'WORD\n'); print(s.recv(9))"`
	if resp, v, said := ask(ids[0], strings.Replace(say, "WORD", "hi", 1)); v.Outcome != job.Passed || !strings.Contains(*resp.Runs[1].StdoutPreview, "base") {
		t.Errorf("beside the service of the base: %s: %s", v.Outcome, said)
	}
	ended := strings.Replace(say, "WORD", "end", 1) + `; while python3 -c "import socket; socket.create_connection(('127.0.0.1', 7002))" 2>/dev/null; do :; done; for i in 1 2 3 4 5 6 7 8 9 10; do python3 -c pass; done` // its socket is gone a moment before it is
	if resp, v, said := ask(ids[0], ended); v.Outcome != job.JobFailed || len(resp.Runs) != 2 || resp.Runs[1].ExitCode != refusedExit || !strings.Contains(said, "service_ended") {
		t.Errorf("a service that ended, and a command that exits with 0: %s: %s", v.Outcome, said)
	}
	if resp, v, said := ask(ids[2], "true"); v.Outcome != job.JobFailed || len(resp.Runs) != 1 || !strings.Contains(said, "service_failed") {
		t.Errorf("a service whose program is not here: %s: %s", v.Outcome, said)
	}
	// The provider cannot read this policy, so it refuses the job.
	if resp, v, said := ask(ids[3], "true"); v.Outcome != job.JobFailed || len(resp.Runs) != 1 || resp.Runs[0].ExitCode != refusedExit ||
		!strings.Contains(said, "job_invalid") || !strings.Contains(said, "remit.yaml:6:1: ") {
		t.Errorf("a policy that cannot be read: %s: %s", v.Outcome, said)
	}
}

func servicesOf(t *testing.T, env task.Environment) []job.Service {
	t.Helper()
	var out []job.Service
	for _, s := range env.Services {
		digest, err := s.Digest()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, job.Service{Name: s.Name, SHA256: digest})
	}
	return out
}
