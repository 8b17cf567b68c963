//go:build linux

package sandbox

import (
	"encoding/binary"

	"golang.org/x/net/bpf"
)

// The seccomp program is a deny list, the second wall behind namespaces and
// dropped capabilities: it takes away the system calls that widen the kernel's
// attack surface and that no build or test needs. Each rule is a self-contained
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
	arch    uint32   // AUDIT_ARCH_*
	foreign uint32   // a bit in the number that selects another ABI, 0 if none
	denied  []uint32 // EPERM
	clone   uint32
	clone3  uint32
	ioctl   uint32
	socket  uint32
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
	for _, nr := range t.denied {
		program = append(program, ifNumber(nr, deny(errnoPERM))...)
	}
	// The flags of clone3 are behind a pointer, which a filter cannot follow.
	// With ENOSYS the C libraries and Go fall back to clone.
	program = append(program, ifNumber(t.clone3, deny(errnoNOSYS))...)
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

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }
func deny(errno uint32) bpf.Instruction  { return bpf.RetConstant{Val: retErrno | errno} }
func allow() bpf.Instruction             { return bpf.RetConstant{Val: retAllow} }
