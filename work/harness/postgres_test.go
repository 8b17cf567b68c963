package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/evidence"
	"remit/proof/reason"
)

// A project whose tests use PostgreSQL through its own client.
var postgresProject = map[string]string{
	"remit.yaml": `environment:
  services:
    - name: db
      prepare: /usr/lib/postgresql/*/bin/initdb -D /tmp/db -A trust -U remit --no-sync >/dev/null
      run: exec /usr/lib/postgresql/*/bin/postgres -D /tmp/db -k /tmp -h 127.0.0.1 -F
      ready: /usr/lib/postgresql/*/bin/pg_isready -q -h 127.0.0.1
      env: {DATABASE_URL: "postgres://remit@127.0.0.1/postgres"}
      timeout_seconds: 120
`,
	"accounts.py": `import os, subprocess
def sql(text):
    return subprocess.run(["psql", os.environ["DATABASE_URL"], "-v", "ON_ERROR_STOP=1", "-Atc", text], check=True, capture_output=True, text=True).stdout.strip()
def create():
    sql("create table if not exists accounts(name text primary key, cents bigint not null check (cents >= 0))")
def pay(payer, payee, cents):
    sql(f"update accounts set cents = cents - {cents} where name = '{payer}'; update accounts set cents = cents + {cents} where name = '{payer}'")
def balance(name):
    return int(sql(f"select cents from accounts where name = '{name}'"))
`,
	"test_accounts.py": `import subprocess, unittest, accounts
class Accounts(unittest.TestCase):
    def setUp(self):
        accounts.create()
        accounts.sql("truncate accounts; insert into accounts values ('a', 100), ('b', 0)")
    def test_pay(self):
        accounts.pay("a", "b", 30)
        self.assertEqual(30, accounts.balance("b"))
    def test_not_more_than_there_is(self):
        with self.assertRaises(subprocess.CalledProcessError):
            accounts.pay("a", "b", 101)
`,
}

// TestPostgresInARun: the honest change passes, the wrong one fails, and the verdict names
// a change that stops the server.
func TestPostgresInARun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 4, 8)
	if found, _ := exec.Command("sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb && which psql python3").Output(); strings.Count(string(found), "\n") < 3 {
		t.Skip("PostgreSQL, psql or python3 is not installed: a run with a database is not tried")
	}
	honest := `sed -i "/update/s/'{payer}'\")/'{payee}'\")/" accounts.py`
	for name, c := range map[string]struct {
		script string
		code   reason.Code
		says   string
	}{
		"honest": {honest, "", ""},
		"wrong":  {`sed -i 's/cents + {cents}/cents + 1/' accounts.py`, reason.VerificationFailed, ""},
		"stops the server": {honest + `; printf '%s\n' 'def create():' "    sql(\"copy (select 1) to program 'kill -QUIT \$(head -n 1 /tmp/db/postmaster.pid)'\")" >>accounts.py`,
			reason.ServiceEndedByChange, "service db ended with exit code"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "wrong" && os.Getenv("REMIT_CHEATS") != "all" {
				t.Skip("slow: REMIT_CHEATS=all tries it; TestServiceAndAWrongChange has a wrong fix with a smaller service")
			}
			req := fixing(t, newRepo(t, postgresProject), realSandbox(t), c.script)
			req.VerdictCache = false
			req.Contract.VerificationCommands = []string{"python3 -m unittest -v"}
			if c.code != "" {
				req.Contract.Verify.Control = task.ControlOff // nothing would be controlled
			}
			out, err := Run(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			rep := out.Report
			switch {
			case c.code == "" && rep.Status != evidence.StatusPass:
				t.Errorf("%s %+v", rep.Status, rep.Blockers)
			case c.code != "" && (rep.Status != evidence.StatusFail || rep.Blockers[0].Code != c.code || !strings.Contains(rep.Blockers[0].Message, c.says)):
				t.Errorf("%s %+v", rep.Status, rep.Blockers)
			}
			log, err := os.ReadFile(filepath.Join(out.Session.Dir, verifierServices))
			if err != nil || !strings.Contains(string(log), "database system is ready to accept connections") {
				t.Errorf("the log: %v\n%.2000s", err, log)
			}
			audited(t, out.Session)
		})
	}
}
