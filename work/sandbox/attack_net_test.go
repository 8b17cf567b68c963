//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// netAttack is the part of the hostile program that knows of a listener on the
// loopback and wants more than it.
func netAttack(part string, args []string) int {
	n := new(tries)
	switch part {
	case "dial":
		for _, target := range args {
			n.attempt("connect to "+target, dialed(target))
		}
	case "listeners":
		n.listeners(args[0])
	case "descriptors":
		n.descriptors()
	case "foreign":
		if err := n.foreign(args); err != nil {
			fmt.Println(err)
			return 1
		}
	case "bind":
		n.bind(args[0])
	case "change":
		n.changeNetwork()
	case "flood":
		count, _ := strconv.Atoi(args[1])
		n.flood(args[0], count)
	default:
		fmt.Println("no attack on the network", part)
		return 1
	}
	return n.end()
}

func dialed(target string) error {
	network, address, _ := strings.Cut(target, ":")
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if !strings.HasPrefix(network, "udp") {
		return nil
	}
	_, err = c.Write([]byte("hello"))
	return err
}

// listeners looks for sockets in this network besides the one port, in the
// kernel's own lists and by knocking.
func (n *tries) listeners(port string) {
	for _, list := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6", "unix"} {
		text, err := os.ReadFile("/proc/self/net/" + list)
		if err == nil {
			err = errors.New("none there")
			for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
				fields := strings.Fields(line)
				mine := fmt.Sprintf("0100007F:%04X", atoi(port))
				if len(fields) > 1 && fields[1] != mine && (len(fields) < 3 || !strings.HasSuffix(fields[2], mine[8:])) {
					err = nil
					fmt.Println(line)
				}
			}
		}
		n.attempt("find a socket in the list "+list, err)
	}
	for other := 1; other < 1<<16; other += 97 {
		if other != atoi(port) {
			n.attempt("knock at port "+strconv.Itoa(other), dialed("tcp:127.0.0.1:"+strconv.Itoa(other)))
		}
	}
}

func atoi(text string) int {
	i, _ := strconv.Atoi(text)
	return i
}

// descriptors looks for a socket among those that this process was given.
func (n *tries) descriptors() {
	for fd := range 1024 {
		n.attempt(fmt.Sprintf("use descriptor %d", fd), isSocket(fd))
	}
}

// foreign looks for sockets of the processes, by their files and by taking a
// copy. It only looks: whose they are is not known. Without any named it tries
// all that it sees, and so never does that outside of a sandbox.
func (n *tries) foreign(pids []string) error {
	if len(pids) == 0 {
		if name, err := os.ReadFile("/proc/1/comm"); err != nil || string(name) != "bwrap\n" {
			return errors.New("not in a sandbox: the processes of the host must not be tried")
		}
		pids = numbered("/proc")
	}
	for _, pid := range pids {
		for _, fd := range numbered("/proc/" + pid + "/fd") {
			target, err := os.Readlink("/proc/" + pid + "/fd/" + fd)
			if err == nil && !strings.HasPrefix(target, "socket:") {
				err = errors.New("it is " + target)
			}
			n.attempt("find a socket at "+pid+"/"+fd, err)
		}
		pidfd, err := unix.PidfdOpen(atoi(pid), 0)
		if err == nil {
			err = copied(pidfd)
			unix.Close(pidfd)
		}
		n.attempt("take a socket of process "+pid, err)
	}
	return nil
}

// copied reports no error if a process lets have one of its sockets.
func copied(pidfd int) error {
	for fd := range 64 {
		mine, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err != nil {
			continue
		}
		err = isSocket(mine)
		unix.Close(mine)
		if err == nil {
			return nil
		}
	}
	return errors.New("none to be had")
}

// isSocket reports no error if the descriptor is one.
func isSocket(fd int) error {
	_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err
}

// bind tries to have the port, or a share of it.
func (n *tries) bind(port string) {
	for _, how := range []struct {
		name    string
		options []int
	}{{"plainly", nil}, {"with reuse of the address", []int{unix.SO_REUSEADDR}}, {"with reuse of the port", []int{unix.SO_REUSEPORT}},
		{"with both", []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT}}} {
		for name, address := range map[string]unix.Sockaddr{
			"127.0.0.1":          &unix.SockaddrInet4{Port: atoi(port), Addr: [4]byte{127, 0, 0, 1}},
			"0.0.0.0":            &unix.SockaddrInet4{Port: atoi(port)},
			"[::]":               &unix.SockaddrInet6{Port: atoi(port)},
			"[::ffff:127.0.0.1]": &unix.SockaddrInet6{Port: atoi(port), Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}},
		} {
			n.attempt("listen on "+name+" "+how.name, listened(address, how.options))
		}
	}
}

func listened(address unix.Sockaddr, options []int) error {
	family := unix.AF_INET
	if _, six := address.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, o := range options {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o, 1)
	}
	if err := unix.Bind(fd, address); err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}

// changeNetwork tries to get another interface, address or route.
func (n *tries) changeNetwork() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer unix.Close(fd)
	for name, op := range map[string]uint{"address": unix.SIOCSIFADDR, "mask": unix.SIOCSIFNETMASK, "size of packets": unix.SIOCSIFMTU} {
		req, _ := unix.NewIfreq("lo")
		if name == "size of packets" {
			req.SetUint32(1500)
		} else {
			_ = req.SetInet4Addr([]byte{10, 0, 0, 1})
		}
		n.attempt("change the "+name+" of the loopback", unix.IoctlIfreq(fd, op, req))
	}
	down, _ := unix.NewIfreq("lo")
	down.SetUint16(0)
	n.attempt("switch the loopback off", undo(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, down), func() { _ = raise(fd, "lo") }))
	for name, kind := range map[string]uint16{"interface": unix.RTM_NEWLINK, "address": unix.RTM_NEWADDR, "route": unix.RTM_NEWROUTE, "rule": unix.RTM_NEWRULE} {
		n.attempt("ask for a new "+name, asked(kind))
	}
	for _, option := range []struct {
		name         string
		level, value int
	}{{"mark packets", unix.SOL_SOCKET, unix.SO_MARK}, {"send from any address", unix.SOL_IP, unix.IP_TRANSPARENT}, {"force a buffer", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE}} {
		n.attempt(option.name, unix.SetsockoptInt(fd, option.level, option.value, 1))
	}
	for name, kind := range map[string][2]int{"raw": {unix.AF_INET, unix.SOCK_RAW}, "raw, version 6": {unix.AF_INET6, unix.SOCK_RAW}, "packet": {unix.AF_PACKET, unix.SOCK_RAW}} {
		s, err := unix.Socket(kind[0], kind[1], unix.IPPROTO_TCP)
		n.attempt("open a socket for "+name+" packets", undo(err, func() { unix.Close(s) }))
	}
	for _, name := range []string{"ipv4/ip_forward", "ipv4/ip_unprivileged_port_start", "ipv4/conf/all/route_localnet", "ipv6/conf/all/forwarding", "core/somaxconn", "ipv4/tcp_rmem"} {
		f, err := os.OpenFile("/proc/sys/net/"+name, os.O_WRONLY, 0)
		n.attempt("set "+name, undo(err, func() { f.Close() }))
	}
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	n.attempt("open a tunnel", undo(err, func() { f.Close() }))
}

// asked sends one empty request to the kernel's routing tables. With the right
// to change them it is refused as malformed, without it as forbidden.
func asked(kind uint16) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request := make([]byte, unix.SizeofNlMsghdr+32)
	request[0] = byte(len(request))
	request[4], request[5] = byte(kind), byte(kind>>8)
	request[6], request[7] = unix.NLM_F_REQUEST|unix.NLM_F_ACK, unix.NLM_F_CREATE>>8
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	got, _, err := unix.Recvfrom(s, reply, 0)
	if err != nil || got < unix.SizeofNlMsghdr+4 {
		return errors.Join(err, errors.New("no answer"))
	}
	errno := unix.Errno(-int32(uint32(reply[16]) | uint32(reply[17])<<8 | uint32(reply[18])<<16 | uint32(reply[19])<<24))
	if errno == unix.EPERM || errno == unix.EACCES {
		return errno
	}
	return nil
}

// flood opens connections until it may not, and holds them until the other end
// closes one.
func (n *tries) flood(address string, count int) {
	var open []net.Conn
	for range count {
		c, err := net.DialTimeout("tcp", address, 2*time.Second)
		if err != nil {
			break
		}
		open = append(open, c)
	}
	fmt.Println("open", len(open))
	for i, c := range open {
		// An answer shows that a server took the connection.
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		if i >= maxConnections {
			n.attempt(fmt.Sprintf("be served on connection %d", i), err)
		} else if err != nil {
			fmt.Printf("connection %d was not served: %v\n", i, err)
		}
	}
}
