package workos

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"remit/proof/reason"
)

// hint says how to come by the program. GitHub has its source and nothing else.
const hint = "build it: check out commit 30b1fa1285a9 of the WorkOS Case repository, `npm install --save-exact bun@1.4.5`, " +
	"`bun install`, `bun run build:binary`; then --bin dist/ca"

func unavailable(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.ProviderUnavailable, format, args...).WithHint(hint)
}

// nativeMagic begins every program that the kernel loads by itself.
const nativeMagic = "\x7fELF"

// program checks what the user named, and returns its place without links.
func (e *Engine) program() (string, error) {
	if e.bin == "" {
		return "", unavailable("the agent case has no place of its own: its program has to be named with --bin")
	}
	file, err := filepath.EvalSymlinks(e.bin)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return "", unavailable("the agent case: %w", withoutPath(err))
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", unavailable("the agent case: %w", withoutPath(err))
	case !info.Mode().IsRegular():
		return "", unavailable("the agent case: what was named is no file")
	case info.Mode()&0o111 == 0:
		return "", unavailable("the agent case: the file that was named cannot be executed")
	}
	if native, err := isNative(file); err != nil {
		return "", unavailable("the agent case: %w", withoutPath(err))
	} else if !native {
		return "", unavailable("the agent case: the file that was named is no native program, so its digest would not say what is executed")
	}
	return file, nil
}

func isNative(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	begin := make([]byte, len(nativeMagic))
	if _, err := io.ReadFull(f, begin); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return bytes.Equal(begin, []byte(nativeMagic)), nil
}

// withoutPath keeps places of this machine out of what becomes evidence.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
