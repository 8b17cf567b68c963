package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// blocks are the shell blocks of a section of a document, in order.
func blocks(t *testing.T, document, heading string) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		out = append(out, m[1])
	}
	return out
}

// freeAddress returns an address at which no server listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	return free.Addr().String()
}

// TestTenMinutes runs the section of docs/nexus.md as it stands there: from
// nothing to a job that is paid in eight commands, what came of it, and a second
// person. The blocks of other sections that need no more than that follow. Only the
// ports are the test's.
func TestTenMinutes(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	parts := blocks(t, "../../docs/nexus.md", "Ten minutes on one machine")
	if len(parts) != 3 {
		t.Fatalf("%d blocks, want the commands, what came of it, and other people", len(parts))
	}
	if n := len(regexp.MustCompile(`(?m)^remit `).FindAllString(parts[0], -1)); n != 8 {
		t.Errorf("%d commands, want eight", n)
	}
	if strings.Contains(strings.Join(parts, ""), "curl") {
		t.Error("operators type commands, not curl")
	}
	dir := t.TempDir()
	repo := filepath.Join(dir, "demo")
	if err := os.Mkdir(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(repo, "Makefile"), []byte("test:\n\t@echo tested\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "base"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, words...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", words, err, out)
		}
	}
	address, relay := freeAddress(t), freeAddress(t)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(), filepath.Join(bin, "remit")); err != nil {
		t.Fatal(err)
	}
	script := "set -e\n" + parts[0] + "echo WHAT CAME OF IT\n" + parts[1] + "echo OTHER PEOPLE\n" + parts[2] +
		"echo RUNS\n" + blocks(t, "../../docs/nexus.md", "What the nexus knows of a run")[0] + blocks(t, "../../docs/nexus.md", "Approvals")[1] +
		"kill %1\nwait %1\necho MIRROR\n" + blocks(t, "../../docs/nexus.md", "The mirror")[0] + "kill %2\nwait %2\nkill %3 %4\nwait\n"
	script = strings.NewReplacer("127.0.0.1:7777", relay, "127.0.0.1:7340", address).Replace(script)
	cmd := exec.Command("bash", "-m", "-c", script) // -m: the jobs have numbers
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "REMIT_HOME="+filepath.Join(dir, "home"),
		"REMIT_LISTEN="+address, "REMIT_NEXUS=http://"+address, "REMIT_TOKEN=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	keepThread(t)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if strings.Contains(out.String(), "sandbox_unavailable") {
			t.Skipf("a provider here cannot hold its caps: %s", out.String())
		}
		t.Fatalf("%v\n%s", err, out.String())
	}
	said := out.String()
	for _, want := range []string{"passed, exit code 0; 1000 msats released.", "RunCreated", "PaymentReleased", "make test: exit 0", "rack-1", "49000",
		"user:alice", "registration", `"job_type": "oa.sandbox_run.v1"`, "1 provider ads, 2 receipt pointers"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, name := range []string{"admin.token", "rack-1.token", "alice.token", "rack-2.token", "lead.token"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(said, strings.TrimSpace(string(text))) {
			t.Errorf("the text of %s was printed (%v)", name, err)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}
