package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestCasts holds the recordings of docs/casts: each is an asciicast of version 2,
// tells of no machine, ends with a change that passed, and shows only commands that
// this program takes. scripts/casts.sh makes them.
func TestCasts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/casts/*.cast")
	if err != nil || len(files) != 3 {
		t.Fatalf("%d recordings (%v), want those of Go, Node and Python", len(files), err)
	}
	for _, file := range files {
		lines := strings.Split(strings.TrimSuffix(fileText(t, file), "\n"), "\n")
		var header struct {
			Version, Width, Height int
			Title                  string
		}
		if err := json.Unmarshal([]byte(lines[0]), &header); err != nil || header.Version != 2 || header.Width < 80 || header.Title == "" {
			t.Fatalf("%s: header %s (%v)", file, lines[0], err)
		}
		var shown strings.Builder
		last := 0.0
		for i, line := range lines[1:] {
			var event [3]any
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatalf("%s:%d: %v", file, i+2, err)
			}
			at, isNumber := event[0].(float64)
			text, isText := event[2].(string)
			if !isNumber || !isText || event[1] != "o" || at < last {
				t.Fatalf("%s:%d: %s is no output behind the one before it", file, i+2, line)
			}
			last = at
			shown.WriteString(text)
		}
		commands := 0
		for line := range strings.Lines(shown.String()) {
			_, typed, isCommand := strings.Cut(strings.TrimRight(line, "\r\n"), "$ remit ")
			if !isCommand {
				continue
			}
			commands++
			cmd, rest, err := newRoot().Find(strings.Fields(typed))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil || !cmd.Runnable() {
				t.Errorf("%s: remit %s: %v", file, typed, err)
			}
		}
		if commands < 2 || !strings.Contains(shown.String(), "PASS  2") || strings.Contains(shown.String(), "BLOCKED") {
			t.Errorf("%s: %d commands, and it does not end well", file, commands)
		}
		for _, place := range []string{"/root", "/home/", "/tmp/", "/work/"} {
			if strings.Contains(shown.String(), place) {
				t.Errorf("%s: it tells of %s of the machine that made it", file, place)
			}
		}
	}
}
