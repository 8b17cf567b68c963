//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/proof/reason"
	"remit/work/tree"
)

// server is a service as a base tree has one. It runs the commands that it gets over a
// connection, as a database that runs programs for its superuser does.
const server = `import os, socketserver, subprocess, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode().strip()
        if line == "end": os._exit(3)
        while line == "flood": print("x" * 1000)
        self.wfile.write(subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
print("listening", os.environ.get("COLOR", ""), flush=True)
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`

// ask is a shell function that sends a line to the service and prints what it says.
const ask = `ask() { exec 3<>"/dev/tcp/127.0.0.1/${2:-7000}" && printf '%s\n' "$1" >&3 && cat <&3; }; `

func withServer(t testing.TB) (lower string, s Service) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: services are not tried")
	}
	lower = t.TempDir()
	write(t, lower+"/server.py", server)
	write(t, lower+"/kept", "of the base")
	return lower, Service{Name: "db", Prepare: "echo prepared >/tmp/data", Run: "exec python3 server.py 7000",
		Ready: "exec 3<>/dev/tcp/127.0.0.1/7000", Env: map[string]string{"COLOR": "blue"}}.inBash()
}

// inBash has the ready line use what sh lacks.
func (s Service) inBash() Service {
	s.Ready = `bash -c "` + s.Ready + `" 2>/dev/null`
	return s
}

func bash(script string) Command { return Command{Argv: []string{"bash", "-c", ask + script}} }

func TestService(t *testing.T) {
	t.Parallel()
	for name, d := range layers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lower, db := withServer(t)
			layer := t.TempDir()
			write(t, layer+"/node_modules/dep", "a dependency")
			o := try(t, d, Spec{Lower: lower, Services: []Service{db}, Layers: []Layer{{layer, []string{"node_modules"}}}, Env: map[string]string{"MINE": "1"}},
				"bash", "-c", ask+`echo mine >kept; echo other >server.py; echo held >/tmp/held
					ask 'cat /tmp/data kept node_modules/dep; echo; echo "$COLOR$MINE"; ls /tmp; head -c 6 server.py; echo more >>/tmp/data'; ask 'tail -n1 /tmp/data'`)
			if want := "prepared\nof the basea dependency\nblue\ndata\nhome\nimportmore\n"; o.out+"\n" != want && o.out != want {
				t.Errorf("the service says %q", o.out)
			}
			if s := o.Services; len(s) != 1 || s[0].Ended || s[0].Name != "db" || s[0].Ready <= 0 || s[0].Log != "listening blue\n" || o.Lost() != "" {
				t.Errorf("the result says %+v", s)
			}
		})
	}
}

// TestServiceIsFresh: a command behind another one finds nothing of its service.
func TestServiceIsFresh(t *testing.T) {
	t.Parallel()
	lower, db := withServer(t)
	var out strings.Builder
	c := bash(`ask 'cat /tmp/data; echo dirty >>/tmp/data'`)
	c.Stdout = &out
	r, err := open1(t).Run(context.Background(), Spec{Lower: lower, Services: []Service{db}, Commands: []Command{c, c}})
	if err != nil || len(r.Commands) != 2 || out.String() != "prepared\nprepared\n" {
		t.Errorf("%v %+v %q", err, r, out.String())
	}
}

// TestServiceCannotBeReached: a command sees neither the processes of a service nor
// its files, and the host and it do not see each other's ports.
func TestServiceCannotBeReached(t *testing.T) {
	t.Parallel()
	lower, db := withServer(t)
	mark := markOf("service")
	db.Run = "exec python3 server.py 7000 " + mark
	write(t, lower+"/secret", "x")
	held := text("held_out.py", "held out", false)
	o := try(t, open1(t), Spec{Lower: lower, Services: []Service{db}, Apply: []tree.Change{held}}, "bash", "-c", ask+`
		cat /proc/[0-9]*/comm | grep -c python3; ls /tmp; cat held_out.py; echo
		ask 'cat held_out.py'; ask 'touch /workspace/x /usr/x'; ask 'cat /proc/[0-9]*/comm | grep -c bash'`)
	for _, want := range []string{"0\n", "held out\n", "cat: held_out.py: No such file", "'/workspace/x': Read-only file system", "'/usr/x': Read-only file system"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in %q", want, o.out)
		}
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestServicesNotStarted: why, with the end of the log, and nothing stays.
func TestServicesNotStarted(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	lower, db := withServer(t)
	mark := markOf("unready")
	soon := 300 * time.Millisecond
	// A machine under load takes longer than soon for a command that ends at once: where a
	// command has to end first, it has the time, and where one hangs there is no other before it.
	later := 5 * time.Second
	for name, c := range map[string]struct {
		change func(*Service)
		code   reason.Code
		says   string
	}{
		"never ready":     {func(s *Service) { s.Prepare, s.Ready, s.Timeout = "", "echo no answer; exit 1", later }, reason.ServiceNotReady, "no answer"},
		"ready hangs":     {func(s *Service) { s.Prepare, s.Ready, s.Timeout = "", "sleep 60", soon }, reason.ServiceNotReady, "within 300ms"},
		"prepare fails":   {func(s *Service) { s.Prepare = "echo no room; exit 4" }, reason.ServiceFailed, "exit code 4; the end of its log: no room"},
		"prepare hangs":   {func(s *Service) { s.Prepare, s.Timeout = "sleep 60", soon }, reason.ServiceFailed, "longer than 300ms"},
		"ends":            {func(s *Service) { s.Run = "echo cannot bind; exit 7" }, reason.ServiceFailed, "exit code 7"},
		"missing program": {func(s *Service) { s.Run = "exec no-such-program" }, reason.ServiceFailed, "exit code 127"},
		"goes to the background": {func(s *Service) { s.Run, s.Ready = "setsid python3 server.py 7000 "+mark+" &", "sleep 0.5; "+s.Ready },
			reason.ServiceFailed, "before it was ready, with exit code 0"},
		"ready though it is dead": {func(s *Service) { s.Run, s.Ready = "exit 5", "sleep 1; true" }, reason.ServiceFailed, "exit code 5"},
		"floods":                  {func(s *Service) { s.Run, s.Ready = "exec yes", "false" }, reason.ServiceFailed, "output limit"},
		"prepare leaves a daemon": {func(s *Service) {
			s.Prepare = "setsid python3 server.py 7000 " + mark + " >/dev/null 2>&1 & sleep 0.1"
			s.Run, s.Timeout = "sleep 60", later
		}, reason.ServiceNotReady, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := db
			c.change(&s)
			ran, limits := &strings.Builder{}, DefaultLimits()
			limits.OutputBytes = 1 << 20
			_, err := open1(t).Run(context.Background(), Spec{Lower: lower, Services: []Service{s}, Limits: limits,
				Commands: []Command{{Argv: []string{"echo", "the command began"}, Stdout: ran}}})
			var e *reason.Error
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Hint == "" || !strings.Contains(e.Message, "db") && name != "floods" {
				t.Errorf("%v", err)
			}
			if ran.Len() > 0 {
				t.Error("the command began")
			}
		})
	}
	t.Cleanup(func() {
		if left := marked(mark); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
}

// TestServiceEnds: a service that ends before its command is reported, and a service that
// is killed together with its command is not.
func TestServiceEnds(t *testing.T) {
	t.Parallel()
	lower, db := withServer(t)
	other := db
	other.Name, other.Run, other.Ready = "other", "exec python3 server.py 7001", strings.Replace(db.Ready, "7000", "7001", 1)
	limits := DefaultLimits()
	limits.OutputBytes = 1 << 20
	for name, c := range map[string]struct{ script, lost string }{
		"by a connection": {`ask end; ask 'sleep 0.3; echo here' 7001`, "service db ended with exit code 3"},
		"the other":       {`ask end 7001; ask 'sleep 0.3; echo here'`, "service other ended with exit code 3"},
		"killed":          {`ask 'kill -9 $PPID'; sleep 0.3; echo here`, "service db ended with exit code 137"},
		"flooded":         {`ask flood; sleep 60`, "more than the output limit"},
		"not at all":      {`ask 'echo here'`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := try(t, open1(t), Spec{Lower: lower, Services: []Service{db, other}, Limits: limits}, "bash", "-c", ask+c.script)
			if lost := o.Lost(); (lost == "") != (c.lost == "") || !strings.Contains(lost, c.lost) {
				t.Errorf("lost: %q, want %q; said %q", lost, c.lost, o.out)
			}
			if name != "flooded" && o.out != "here\n" {
				t.Errorf("the command says %q", o.out)
			}
		})
	}
}

// TestServiceEndsWithTheRun: also when the time is over, or the run is cancelled.
func TestServiceEndsWithTheRun(t *testing.T) {
	t.Parallel()
	lower, db := withServer(t)
	for name, at := range map[string]string{"timeout": "sleep 60", "cancelled": "sleep 60", "while it starts": "true"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := markOf("ends-" + name[:4])
			s, limits := db, DefaultLimits()
			s.Run = "setsid sleep 61 & : " + mark + "; exec python3 server.py 7000 " + mark
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			switch name {
			case "timeout":
				limits.Wall = 2 * time.Second
			case "while it starts":
				s.Ready = "false"
			}
			if name != "timeout" {
				time.AfterFunc(700*time.Millisecond, cancel)
			}
			begun := time.Now()
			r, err := open1(t).Run(ctx, Spec{Lower: lower, Services: []Service{s}, Limits: limits, Commands: []Command{{Argv: []string{"sh", "-c", at}}}})
			if name == "timeout" && (err != nil || !r.Commands[0].TimedOut) || name != "timeout" && !errors.Is(err, context.Canceled) {
				t.Errorf("%v %+v", err, r)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if left := marked(mark); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

func TestServicesRefused(t *testing.T) {
	t.Parallel()
	lower := t.TempDir()
	good := Service{Name: "db", Run: "sleep 1", Ready: "true"}
	many := make([]Service, MaxServices+1)
	for i := range many {
		many[i] = good
		many[i].Name = fmt.Sprintf("db%d", i)
	}
	with := func(change func(*Service)) []Service {
		s := good
		change(&s)
		return []Service{s}
	}
	for name, services := range map[string][]Service{
		"too many": many, "twice": {good, good},
		"path":     with(func(s *Service) { s.Name = "../db" }),
		"no name":  with(func(s *Service) { s.Name = "" }),
		"no run":   with(func(s *Service) { s.Run = "" }),
		"no ready": with(func(s *Service) { s.Ready = "" }),
		"NUL":      with(func(s *Service) { s.Run = "sleep\x00 1" }),
		"variable": with(func(s *Service) { s.Env = map[string]string{"A=B": "1"} }),
		"timeout":  with(func(s *Service) { s.Timeout = MaxServiceTimeout + 1 }),
	} {
		if _, err := open1(t).Run(context.Background(), Spec{Lower: lower, Services: services, Commands: []Command{{Argv: []string{"true"}}}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	_, err := openNone(t, t.TempDir()).Run(context.Background(), Spec{Lower: lower, Services: []Service{good}, Commands: []Command{{Argv: []string{"true"}}}})
	if reason.CodeOf(err) != reason.ServiceFailed {
		t.Errorf("driver none: %v", err)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	e := &excerpt{}
	for range 3 {
		if _, err := e.Write([]byte(strings.Repeat("a", maxServiceHead))); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.String(); len(s) != 3*maxServiceHead {
		t.Errorf("%d bytes", len(s))
	}
	_, _ = e.Write([]byte(strings.Repeat("b", 2*maxServiceTail) + "end"))
	if s := e.String(); !strings.HasSuffix(s, "bend") || !strings.Contains(s, "a\n[81923 bytes left out]\nb") || len(s) > maxServiceHead+maxServiceTail+100 {
		t.Errorf("%d bytes: %.50q … %q", len(s), s, s[len(s)-50:])
	}
}

// TestPostgres: the tested case.
func TestPostgres(t *testing.T) {
	t.Parallel()
	if found, _ := exec.Command("sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb").Output(); len(found) == 0 {
		t.Skip("PostgreSQL is not installed: it is not tried as a service")
	}
	begun := time.Now()
	o := try(t, open1(t), Spec{Lower: t.TempDir(), Env: map[string]string{"PGHOST": "127.0.0.1", "PGUSER": "remit", "PGDATABASE": "postgres"}, Services: []Service{{
		Name:    "db",
		Prepare: "/usr/lib/postgresql/*/bin/initdb -D /tmp/db -A trust -U remit --no-sync >/dev/null",
		Run:     "exec /usr/lib/postgresql/*/bin/postgres -D /tmp/db -k /tmp -h 127.0.0.1 -F",
		Ready:   "/usr/lib/postgresql/*/bin/pg_isready -q -h 127.0.0.1",
	}}}, "sh", "-c", `psql -Atc 'create table t(n int); insert into t select generate_series(1, 1000); select sum(n) from t' && test ! -e /tmp/db`)
	if o.ExitCode != 0 || !strings.Contains(o.out, "500500") || o.Lost() != "" {
		t.Errorf("exit %d: %s\n%+v", o.ExitCode, o.out, o.Services)
	}
	t.Logf("ready after %s, all in %s", o.Services[0].Ready, time.Since(begun))
}
