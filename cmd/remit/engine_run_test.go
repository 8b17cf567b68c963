package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remit/proof/evidence"
	"remit/proof/journal"
	"remit/proof/record"
	"remit/work/gateway/scripted"
)

// keyVariable holds the provider's key: the one place where it is.
const keyVariable = "REMIT_TABLE_PROVIDER_KEY"

// probeQuestion is how the gateway's own question to a model begins.
const probeQuestion = "^Call the tool ready"

// usage is what every answer of the model reports.
var usage = object{"in": 1200, "cache_read": 300, "out": 40}

const tokensPerAnswer = 1200 + 300 + 40

// A drive is one run of the program with one agent and one scripted model.
type drive struct {
	*testing.T
	agent  agentCLI
	row    engineRow
	home   string
	repo   string
	key    string // of the provider
	marker string // in the command line of whatever runs in the sandbox
	model  *scripted.Server
	server *httptest.Server

	mu   sync.Mutex
	seen []scripted.Seen

	cmd      *exec.Cmd
	out, log bytes.Buffer
	rep      runResult
	counts   scripted.Counts
	asked    []record.ModelRequest // as the journal tells them
	entries  []journal.Entry
}

// newDrive makes the repository and starts the model.
func newDrive(t *testing.T, a agentCLI, row engineRow, home string) *drive {
	t.Helper()
	d := &drive{T: t, agent: a, row: row, home: home, key: "canary-" + rand.Text(), marker: "REMIT-TABLE-" + rand.Text()}
	d.repo = row.repository(t, a)
	untouched(t, d.repo)
	d.server = httptest.NewUnstartedServer(nil) // scripts know its port
	script, err := scripted.Parse(row.name, row.script(d))
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan int, 1000)
	d.model = scripted.New(script, scripted.Options{Key: d.key, Seen: func(s scripted.Seen) {
		d.mu.Lock()
		d.seen = append(d.seen, s)
		d.mu.Unlock()
		if strings.HasPrefix(s.Answer, "conversations[0]") {
			s.Turn = atProbe
		}
		arrived <- s.Turn
	}})
	d.server.Config.Handler = d.model
	d.server.Start()
	t.Cleanup(d.server.Close)
	d.prepare()
	d.run(arrived)
	return d
}

// prepare makes the command line that a user would type.
func (d *drive) prepare() {
	d.Helper()
	args := []string{"run", "--json", "--repo", d.repo, "--engine", d.agent.engineName(),
		"--model-provider", d.agent.provider, "--model", d.agent.model, "--base-url", d.server.URL + d.agent.base, "--key-env", keyVariable}
	if d.row.wall > 0 {
		args = append(args, "--wall", fmt.Sprint(d.row.wall))
	}
	args = append(args, d.row.source(d)...)
	if d.agent.command != "" {
		args = append(args, "--", d.agent.command)
	}
	d.cmd = d.agent.remit(d.T, d.home, args...)
	d.cmd.Env = append(d.cmd.Env, keyVariable+"="+d.key)
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.log
}

// run starts the program, interrupts it where the row wants that, and reads
// what came of it.
func (d *drive) run(arrived <-chan int) {
	d.Helper()
	if err := d.cmd.Start(); err != nil {
		d.Fatal(err)
	}
	var looked func()
	if d.row.watch != nil {
		looked = d.row.watch(d)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.cmd.Wait() }()
	for over := false; !over; {
		select {
		case turn := <-arrived:
			if turn == d.row.interrupt { // no turn is 0
				_ = d.cmd.Process.Signal(syscall.SIGINT) // the exit code tells whether it came
			}
		case <-ended: // the exit code is looked at
			over = true
		}
	}
	if looked != nil {
		looked()
	}
	if err := json.Unmarshal(d.out.Bytes(), &d.rep); err != nil {
		d.Fatalf("exit %d, no report: %v\n%s\n%s", d.cmd.ProcessState.ExitCode(), err, d.out.String(), d.log.String())
	}
	d.settle()
	d.counts = d.model.Count()
	d.read()
}

// settle waits until the model has noticed that its clients are gone: what it
// counts as broken off is counted then.
func (d *drive) settle() {
	deadline, tick := time.After(5*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for c := d.model.Count(); c.Completed+c.Refused+c.Broken+c.Unscripted < c.Requests; c = d.model.Count() {
		select {
		case <-tick.C:
		case <-deadline:
			d.Errorf("the model still answers: %+v", c)
			return
		}
	}
}

// read takes the requests out of the journal.
func (d *drive) read() {
	d.Helper()
	log, err := journal.ReadFile(filepath.Join(d.rep.SessionDir, evidence.JournalFile))
	if err != nil {
		d.Fatal(err)
	}
	d.entries = log.Entries
	for _, e := range log.Entries {
		if e.Name != evidence.StepModel {
			continue
		}
		var rec record.ModelRequest
		if err := json.Unmarshal(e.Outputs, &rec); err != nil {
			d.Fatal(err)
		}
		if denied := e.Status == journal.Denied; denied != (rec.Refused != "") {
			d.Errorf("a request that was refused for %q is %s in the journal", rec.Refused, e.Status)
		}
		d.asked = append(d.asked, rec)
	}
}

// bodies are what the model was asked, without the gateway's own question.
func (d *drive) bodies() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.seen {
		if !strings.HasPrefix(s.Answer, "conversations[0]") {
			all = append(all, string(s.Body))
		}
	}
	return all
}

// script is what the model says: to the gateway's question, to requests beside
// the conversation, and to the agent.
func (r engineRow) script(d *drive) []byte {
	probe := r.probe
	if probe == nil {
		probe = does(call("ready", object{"ok": true}))
	}
	then := object{"text": "Repaired."}
	if r.then != nil {
		then = r.then(d)
	}
	conversation := object{"otherwise": then}
	if r.turns != nil {
		conversation["turns"] = r.turns(d)
	}
	text, err := json.Marshal(object{"usage": usage, "conversations": []object{
		{"when": object{"user": probeQuestion}, "otherwise": probe},
		{"when": object{"tools": false}, "otherwise": object{"text": "ok"}},
		conversation,
	}})
	if err != nil {
		d.Fatal(err)
	}
	return text
}

// repository has one function that is wrong, a test that says so, and a policy
// that switches the engine on.
func (r engineRow) repository(t *testing.T, a agentCLI) string {
	policy := object{"engines": object{a.engineName(): object{"enabled": true}}, "network": "gateway", "allowed_paths": []string{"*.py"},
		"verification_commands": []string{wrongTest}}
	for key, value := range r.policy {
		policy[key] = value
	}
	text, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"remit.yaml": string(text)}
	all := wrongFiles
	if r.files != nil {
		all = r.files(t)
	}
	maps.Copy(files, all)
	return gitRepo(t, files)
}

// The fault of the repository, and its repair.
const (
	wrongFile = "calc.py"
	wrongLine = "    return a - b\n"
	rightLine = "    return a + b\n"
	wrongText = "def add(a, b):\n" + wrongLine
)

var wrongFiles = map[string]string{wrongFile: wrongText}

// wrongTest passes with the repair. The row of the shipped fixture has a test suite.
const wrongTest = "grep -qx '    return a + b' " + wrongFile

// repair are turns that look at the file, leave a process behind and put the
// fault right.
func repair(d *drive) []object { return changes(d, rightLine) }

func changes(d *drive, line string) []object {
	look := does(d.agent.shell("(sh -c 'sleep 999; exit 1' /workspace/" + d.marker + " >/dev/null 2>&1 &); cat " + wrongFile))
	return append([]object{look}, d.agent.replace(wrongFile, wrongLine, line)...)
}

// repairThen is repair with one more turn.
func repairThen(turn object) func(*drive) []object {
	return func(d *drive) []object { return slices.Concat(repair(d), []object{turn}) }
}
