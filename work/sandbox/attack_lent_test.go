//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lentAttack tries to meet a process of the host in files that are shown: each
// argument is a directory with what plant made in it, or such a file to lock.
func lentAttack(places []string) int {
	n := new(tries)
	for _, p := range places {
		lock := p
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			lock = p + "/lock"
			c, err := net.Dial("unix", p+"/sock")
			n.attempt("connect to "+p+"/sock", undo(err, func() { c.Close() }))
			// Only a FIFO with a reader can be opened so.
			fd, err := unix.Open(p+"/fifo", unix.O_WRONLY|unix.O_NONBLOCK, 0)
			n.attempt("reach the reader of "+p+"/fifo", undo(err, func() { unix.Close(fd) }))
		}
		f, err := os.Open(lock)
		if err != nil {
			fmt.Println(err) // then the attempts would say nothing
			return 1
		}
		var met error
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			met = errors.New("it is free")
		}
		n.attempt("meet the lock of "+lock, met)
		record := unix.Flock_t{Type: unix.F_RDLCK}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &record); err == nil && record.Type == unix.F_UNLCK {
			err = errors.New("it is free")
			n.attempt("meet the record lock of "+lock, err)
		} else {
			n.attempt("meet the record lock of "+lock, err)
		}
	}
	return n.end()
}

// holdAttack keeps locks on a file that is shown until it is killed.
func holdAttack(path string) int {
	f, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("holding")
	for { // until it is killed; without a timer the runtime would call it a deadlock and exit
		time.Sleep(time.Hour)
	}
}

// plant makes a socket, a FIFO and a locked file, with this process at their
// other end.
func plant(dir string) error {
	l, err := net.Listen("unix", dir+"/sock")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if err := unix.Mkfifo(dir+"/fifo", 0o666); err != nil {
		return err
	}
	if _, err := unix.Open(dir+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err := os.WriteFile(dir+"/lock", []byte("x"), 0o666); err != nil {
		return err
	}
	fd, err := unix.Open(dir+"/lock", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Flock(fd, unix.LOCK_EX), unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}),
		os.Chmod(dir+"/sock", 0o777), os.Chmod(dir+"/fifo", 0o666), os.Chmod(dir, 0o755))
}

// mounted is started in a mount namespace of its own. It mounts a file system
// below a directory, plants there and beside, and attacks from a sandbox that is
// lent the directory, as this user and as an ordinary one. The second argument
// is "" at first, and then who it is.
func mounted(dir, who string) int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	if who == "" {
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		for _, sub := range []string{"/beside", "/deep/below"} {
			err = errors.Join(err, os.MkdirAll(dir+sub, 0o755))
		}
		err = errors.Join(err, os.WriteFile(dir+"/deep/file", []byte("text"), 0o644), os.Symlink("deep/file", dir+"/link"),
			unix.Mount("tmpfs", dir+"/deep/below", "tmpfs", 0, ""), plant(dir+"/deep/below"), plant(dir+"/beside"))
		if err != nil {
			return fail(err)
		}
		for _, as := range []uint32{0, testUID} {
			cmd := exec.Command(os.Args[0], "mounted", dir, fmt.Sprint(as))
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			cmd.Env = append(os.Environ(), "HOME="+dir+"/home", "TMPDIR="+dir+"/tmp")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as, Gid: as}}
			if err := cmd.Run(); err != nil {
				return fail(err)
			}
		}
		return 0
	}
	d, err := Open(context.Background(), Options{})
	if err != nil {
		return fail(err)
	}
	for _, tt := range []struct {
		name    string
		control controlled
		through bool // the mount below is shown, as below /usr
	}{{"lent", controlled{noSocketScan: true}, false}, {"system", controlled{noSocketScan: true, mountsBelow: true}, true}} {
		places := []string{"/opt/lent/beside"}
		if tt.through {
			places = append(places, "/opt/lent/deep/below")
		}
		walls := d.(*bwrap)
		inner := bwrap{path: walls.path, tools: walls.tools, desc: walls.desc, control: tt.control}
		r, err := inner.Run(context.Background(), Spec{Lower: dir + "/empty", Env: map[string]string{"GORACE": endAtOnce},
			Binds: []Bind{{dir, "/opt/lent"}, {os.Args[0], attackPath}}, Commands: []Command{
				{Argv: []string{"sh", "-c", "cd /opt/lent; cat link; ls deep/below; echo x >deep/file || echo refused"}, Stdout: os.Stdout},
				{Argv: append([]string{attackPath, "attack", "lent"}, places...), Stdout: os.Stdout, Stderr: os.Stdout}}})
		if err != nil {
			return fail(err)
		}
		fmt.Println(tt.name, "as", who, r.Commands[1].ExitCode)
	}
	return 0
}
