//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// startTime bounds initdb and the start of the server, each.
const startTime = 60 * time.Second

// supervise starts a server and ends it, with its directory, when its standard
// input does: that happens when the test process ends, however it ends.
const supervise = `"$1/postgres" -D "$3/data" -k "$2" -c listen_addresses= -c max_connections=300 \
  -c shared_buffers=32MB -c log_min_messages=fatal -c jit=off -c fsync="$4" -c full_page_writes="$4" </dev/null >"$2/log" 2>&1 &
server=$!
cat >/dev/null
kill -QUIT $server 2>/dev/null
wait $server
rm -rf "$2" "$3"`

// leash is the write end of the server's standard input: it stays open, and
// unused, as long as this process lives.
var leash struct{ end io.WriteCloser }

// start runs a server of its own and returns its DSN.
func start() (string, error) {
	bin, err := binaries()
	if err != nil {
		return "", err
	}
	who, err := unprivileged()
	if err != nil {
		return "", err
	}
	// A socket's path is short by necessity, so it is not below TMPDIR. The databases
	// are: each test copies some thousand files.
	var dirs []string
	remove := func(why error) (string, error) {
		for _, dir := range dirs {
			why = errors.Join(why, os.RemoveAll(dir))
		}
		return "", why
	}
	for _, at := range []string{"/tmp", roomy(who)} {
		dir, err := os.MkdirTemp(at, "remitpg")
		if err != nil {
			return remove(err)
		}
		if dirs = append(dirs, dir); who == nil {
			continue
		}
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return remove(err)
		}
	}
	dir, data := dirs[0], filepath.Join(dirs[1], "data")
	ctx, stop := context.WithTimeout(context.Background(), startTime)
	defer stop()
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data,
		"-U", "remit", "--auth=trust", "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions")
	initdb.Dir = dir
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return remove(fmt.Errorf("initdb: %w: %s", err, out))
	}
	server := exec.Command("/bin/sh", "-c", supervise, "sh", bin, dir, dirs[1], durable())
	server.Dir = dir
	// Its own group: an interrupt from the terminal must not end it first.
	server.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true}
	if leash.end, err = server.StdinPipe(); err != nil {
		return remove(err)
	}
	if err := server.Start(); err != nil {
		return remove(err)
	}
	u := url.URL{Scheme: "postgres", User: url.User("remit"), Path: "/postgres",
		RawQuery: url.Values{"host": {dir}, "sslmode": {"disable"}}.Encode()}
	return u.String(), ready(u.String(), filepath.Join(dir, "log"))
}

// roomy is the directory for temporary files, or /tmp where the user of the server cannot
// get into it.
func roomy(who *syscall.Credential) string {
	look := exec.Command("/bin/sh", "-c", `cd "$1"`, "sh", os.TempDir())
	look.Dir, look.SysProcAttr = "/", &syscall.SysProcAttr{Credential: who}
	if look.Run() != nil {
		return "/tmp"
	}
	return os.TempDir()
}

// durable is the server's setting of fsync and full_page_writes: no test ends the server,
// so only benchmarks need what it writes to be on disk.
func durable() string {
	if bench := flag.Lookup("test.bench"); bench != nil && bench.Value.String() != "" {
		return "on"
	}
	return "off"
}

// ready waits until the server answers.
func ready(server, log string) error {
	ctx, stop := context.WithTimeout(context.Background(), startTime)
	defer stop()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		err := run(ctx, server, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(log)
			return fmt.Errorf("the server does not answer: %w: %s", err, said)
		}
	}
}

// binaries finds the directory of initdb and postgres. Debian keeps them off
// PATH.
func binaries() (string, error) {
	if found, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(found); err == nil {
			return filepath.Dir(real), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("no initdb in PATH or /usr/lib/postgresql")
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// unprivileged is whom the server runs as: it refuses to run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("root cannot run a server, and there is no user postgres or nobody")
}
