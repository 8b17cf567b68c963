//go:build linux

package sandbox

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/bpf"
)

// The seccomp program is the second wall behind namespaces and dropped
// capabilities: it takes away the system calls that widen the kernel's attack
// surface and that no build or test needs. The answer to each call is data, one
// line of a table that names every call of the architecture; a call that is
// younger than the table does not exist inside. Each rule is a self-contained
// block with jumps to its own end only, because one wrong distance in a longer
// jump opens a hole that reading does not show.

// Offsets in struct seccomp_data; arguments are 64 bits wide, low half first
// on the architectures that have a program here.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
)

// Answers of a filter.
const (
	retKill  = 0x80000000 // the process
	retErrno = 0x00050000 // | errno
	retAllow = 0x7fff0000
)

// table is what a program needs to know about an architecture.
type table struct {
	arch    uint32 // AUDIT_ARCH_*
	foreign uint32 // a bit in the number that selects another ABI, 0 if none
	calls   []rule // in the order of their numbers
	clone   uint32
	ioctl   uint32
	socket  uint32
}

// rule is the answer to one system call.
type rule struct {
	nr     uint32
	name   string
	answer string // one of the answers below
}

// The answers in a table of system calls.
const (
	answerAllow = "allow"
	answerPerm  = "EPERM"
	answerNoSys = "ENOSYS" // as if the kernel were too old, so that programs fall back
	answerLook  = "look"   // decided by the arguments
)

// parseRules reads a table. It is ours, so a fault in it is a broken invariant.
func parseRules(text string) (rules []rule) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		nr, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || len(fields) < 3 || len(rules) > 0 && uint32(nr) <= rules[len(rules)-1].nr {
			panic(fmt.Sprintf("sandbox: table of system calls: %q", line))
		}
		rules = append(rules, rule{uint32(nr), fields[1], fields[2]})
	}
	return rules
}

const (
	// Any CLONE_NEW* flag in clone(2). CLONE_NEWTIME shares its bit with the
	// exit signal there, and no signal has that number.
	cloneNewMask = 0x7e020080
	// Only the low half counts: the kernel ignores the upper 32 bits of the request.
	ioctlTIOCSTI   = 0x5412
	ioctlTIOCLINUX = 0x541c
)

const (
	errnoPERM        = 1
	errnoNOSYS       = 38
	errnoAFNOSUPPORT = 97
)

// socketFamilies are the allowed address families: UNIX, INET, INET6, NETLINK.
var socketFamilies = []uint32{1, 2, 10, 16}

// seccompProgram returns the filter for this architecture as an array of
// struct sock_filter, nil where there is no table.
func seccompProgram() []byte {
	t, ok := nativeTable()
	if !ok {
		return nil
	}
	raw, err := bpf.Assemble(t.instructions())
	if err != nil {
		panic("sandbox: seccomp program does not assemble: " + err.Error())
	}
	var out []byte
	for _, in := range raw {
		out = binary.NativeEndian.AppendUint16(out, in.Op)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out
}

func (t table) instructions() []bpf.Instruction {
	program := []bpf.Instruction{
		load(offsetArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: t.arch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		load(offsetNumber),
	}
	if t.foreign != 0 {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: t.foreign, SkipTrue: 1},
			bpf.RetConstant{Val: retKill})
	}
	next := uint32(0) // the lowest number that was not decided yet
	for _, r := range t.calls {
		if r.nr > next {
			program = append(program, between(next, r.nr-1, deny(errnoNOSYS))...)
		}
		next = r.nr + 1
		switch r.answer {
		case answerAllow, answerLook:
		case answerPerm:
			program = append(program, ifNumber(r.nr, deny(errnoPERM))...)
		case answerNoSys:
			program = append(program, ifNumber(r.nr, deny(errnoNOSYS))...)
		default:
			panic(fmt.Sprintf("sandbox: table of system calls: %s has the answer %q", r.name, r.answer))
		}
	}
	program = append(program, between(next, ^uint32(0), deny(errnoNOSYS))...)
	program = append(program, ifNumber(t.clone,
		load(offsetArg0),
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: cloneNewMask, SkipTrue: 1},
		deny(errnoPERM),
		allow())...)
	program = append(program, ifNumber(t.ioctl,
		load(offsetArg1),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ioctlTIOCSTI, SkipTrue: 1},
		deny(errnoPERM),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ioctlTIOCLINUX, SkipTrue: 1},
		deny(errnoPERM),
		allow())...)
	families := []bpf.Instruction{load(offsetArg0)}
	for _, family := range socketFamilies {
		families = append(families, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, allow())
	}
	program = append(program, ifNumber(t.socket, append(families, deny(errnoAFNOSUPPORT))...)...)
	return append(program, allow())
}

// ifNumber runs block for one system call; block must end in a return.
func ifNumber(nr uint32, block ...bpf.Instruction) []bpf.Instruction {
	jump := bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(block))}
	return append([]bpf.Instruction{jump}, block...)
}

// between ends with answer for the numbers from low to high.
func between(low, high uint32, answer bpf.Instruction) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: low, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: high, SkipTrue: 1},
		answer,
	}
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }
func deny(errno uint32) bpf.Instruction  { return bpf.RetConstant{Val: retErrno | errno} }
func allow() bpf.Instruction             { return bpf.RetConstant{Val: retAllow} }
