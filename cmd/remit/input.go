package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"remit/proof/reason"
)

// readCommands reads one shell command a line; blank lines and lines that begin
// with # are left out.
func readCommands(file string) ([]string, error) {
	text, err := readInput(file)
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		e := reason.Errorf(reason.ContractValue, "has no command: one a line")
		e.File = file
		return nil, fmt.Errorf("reading the checks: %w", e)
	}
	return out, nil
}

// readFlagFile reads a file that a flag names, at most limit bytes and one more:
// that it is too long is for the reader of its content to say.
func readFlagFile(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func upper(s string) string { return strings.ToUpper(s) }

// maxInput bounds a text that a flag names.
const maxInput = 1 << 20

func readInput(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, reason.Errorf(reason.ContractUnreadable, "reading the issue: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxInput)
	}
	if err != nil {
		return nil, reason.Errorf(reason.ContractUnreadable, "reading the issue: %w", err)
	}
	return b, nil
}
