package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"remit/law/secret"
	"remit/law/task"
	"remit/proof/reason"
)

// interrupted says in the program's words that a signal ended a command, which else is
// "signal: interrupt" and an internal error, or a sandbox whose probe failed. A command
// that has its own word for it, such as a run that closes its evidence, keeps that.
func interrupted(ctx context.Context, err error) error {
	var coded *reason.Error
	var exit exitCode
	cause := context.Cause(ctx)
	if cause == nil || errors.As(err, &exit) || !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		return err
	}
	if errors.As(err, &coded) && (coded.Code == reason.Cancelled || coded.Code == reason.Interrupted) {
		return err
	}
	return reason.Errorf(reason.Cancelled, "stopped before it was done: %w", cause).
		WithHint("type the command again; a cache that it was filling goes on from where it was")
}

// refusedByDisk gives an error of a file, which has no reason yet, one of its
// own: that of the place of sessions where this takes no more writes, else that
// of any file. A wrong command line stays one.
func refusedByDisk(err error, home string) error {
	var coded *reason.Error
	var wrong usageError
	if errors.As(err, &coded) || errors.As(err, &wrong) {
		return err
	}
	var place string
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		place = path.Path
	case errors.As(err, &link):
		place = link.New
	default:
		return err
	}
	if home != "" && (below(home, place) || below(place, home)) { // it, or where it would be made
		for _, cause := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.ENOTDIR} {
			if errors.Is(err, cause) {
				return reason.Errorf(reason.HomeUnusable, "%w", err).
					WithHint("free some space or repair the permissions of %s, or set REMIT_HOME to another place", home)
			}
		}
	}
	return reason.Errorf(reason.FileUnusable, "%w", err)
}

// below reports whether a path names a directory or a place in it, by its words.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// printError prints an error with its hint and returns the exit code: 2 or 3
// for a coded refusal, else 1.
func printError(w io.Writer, err error) int {
	if _, wrong := errors.AsType[usageError](err); wrong {
		printOne(w, err)
		return 1
	}
	var problems task.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			printOne(w, p)
		}
		return 3
	}
	var coded *reason.Error
	if errors.As(err, &coded) {
		printOne(w, err)
		return codeOf(coded.Code)
	}
	printOne(w, err)
	return 1
}

// messageOf is the text of an error without secrets: a message repeats the words
// of a command line, and a key may have been given in the place of a file's name.
func messageOf(err error) string { return secret.Redact(err.Error(), nil) }

func printOne(w io.Writer, err error) {
	show := plainText // it names files of strangers
	if inJob() {
		show = plain // no line of it begins a command
	}
	fmt.Fprintf(w, "remit: %s\n", show(messageOf(err)))
	if hint := adviceOn(err); hint != "" {
		fmt.Fprintf(w, "hint: %s\n", plainText(hint))
	}
}

// adviceOn is how to go on after an error, "" when there is no advice.
func adviceOn(err error) string {
	var coded *reason.Error
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		return wrong.hint()
	case errors.As(err, &coded) && coded.Hint != "":
		return coded.Hint
	case coded != nil:
		info, _ := reason.Lookup(coded.Code)
		return info.Hint
	}
	return ""
}

// codeOf is the exit code of a reason.
func codeOf(code reason.Code) int {
	if reason.StatusOf(code) == reason.Fail {
		return 2
	}
	return 3
}

// printJSON writes one indented document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// output is standard output, and knows whether a command has printed anything:
// one that failed before it had a document to print gets one about its error.
// A reader that went away is no error: what was to be done is done all the same,
// and the exit code says what came of it.
type output struct {
	file   *os.File
	used   bool
	unread atomic.Bool // its reader went away
	lost   error       // why something that was printed is nowhere, else nil

	screen *visible // not nil for a terminal: nothing of what is printed may drive it
}

func newOutput(file *os.File) *output {
	o := &output{file: file}
	if term.IsTerminal(int(file.Fd())) {
		o.screen = &visible{w: file}
	}
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.used = o.used || len(p) > 0
	write := o.file.Write
	if o.screen != nil {
		write = o.screen.Write
	}
	n, err := write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) { // a pipe, a terminal
		o.unread.Store(true)
		return len(p), nil
	}
	o.lost = cmp.Or(o.lost, err)
	return n, err
}

// unread reports whether the reader of w went away.
func unread(w io.Writer) bool {
	o, ok := w.(*output)
	return ok && o.unread.Load()
}

// raw writes every byte from here on, also to a terminal.
func (o *output) raw() { o.screen = nil }

// close writes what is left. Where something was lost, on a full disk, the command
// has not done what it was asked for, although most do not look at what they print.
func (o *output) close() error {
	if o.screen != nil {
		o.lost = cmp.Or(o.lost, o.screen.Close())
	}
	return o.lost
}

// wantsJSON reports whether a command line asks for JSON. It is looked at
// itself, since a command line that is wrong was not parsed to its end.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	for _, arg := range slices.Backward(args) {
		switch arg {
		case "--json", "--json=true", "--json=1":
			return true
		case "--json=false", "--json=0":
			return false
		}
	}
	return false
}

// errorDocument is what a command that failed prints with --json.
type errorDocument struct {
	Error    errorText   `json:"error"`
	More     []errorText `json:"more,omitempty"` // further problems of the same input
	ExitCode int         `json:"exit_code"`
}

// What errorText has for an error without a reason code, exit code 1.
const (
	usageCode    reason.Code = "usage"    // a wrong command line
	internalCode reason.Code = "internal" // a fault in Remit, or around it, that has no code
)

// errorText is one error.
type errorText struct {
	Code    reason.Code `json:"code"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"`
	File    string      `json:"file,omitempty"`
	Line    int         `json:"line,omitempty"`
	Field   string      `json:"field,omitempty"`
}

func documentOf(err error, code int) errorDocument {
	d := errorDocument{ExitCode: code}
	var problems task.Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		d.Error = textOf(err)
		return d
	}
	d.Error = textOf(problems[0])
	for _, p := range problems[1:] {
		d.More = append(d.More, textOf(p))
	}
	return d
}

func textOf(err error) errorText {
	t := errorText{Code: reason.CodeOf(err), Message: strings.ToValidUTF8(messageOf(err), "\uFFFD"), Hint: adviceOn(err)}
	var coded *reason.Error
	switch {
	case errors.As(err, &coded):
		t.File, t.Line, t.Field = strings.ToValidUTF8(coded.File, "\uFFFD"), coded.Line, coded.Field
	default:
		t.Code = internalCode
	}
	if _, wrong := errors.AsType[usageError](err); wrong {
		t.Code = usageCode
	}
	return t
}

// helpDocument is the help of a command, and what a group of commands prints,
// with --json.
type helpDocument struct {
	Command  string      `json:"command"`
	Short    string      `json:"short"`
	Long     string      `json:"long,omitempty"`
	Usage    string      `json:"usage"`
	Examples string      `json:"examples,omitempty"`
	Commands []helpEntry `json:"commands,omitempty"` // that it has
	Flags    []flagEntry `json:"flags,omitempty"`
}

type helpEntry struct {
	Name  string `json:"name"`
	Short string `json:"short"`
}

type flagEntry struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Default string `json:"default,omitempty"`
	Usage   string `json:"usage"`
}

// scriptDocument is a completion script with --json.
type scriptDocument struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

// speakJSON has the commands that cobra brings itself print one document, too:
// help, the version, and completion scripts.
func speakJSON(root *cobra.Command) {
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_ = printJSON(c.OutOrStdout(), helpOf(c)) // as cobra: what cannot be printed is not reported
	})
	text, err := json.Marshal(map[string]string{"version": version, "commit": commit})
	if err != nil {
		panic(err) // two strings
	}
	root.SetVersionTemplate(strings.ReplaceAll(string(text), "{{", "{ {") + "\n") // a template without an action
	// These commands write to what was the output when they were made.
	out, script := root.OutOrStdout(), new(bytes.Buffer)
	root.SetOut(script)
	root.InitDefaultCompletionCmd()
	root.SetOut(out)
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			for _, shell := range c.Commands() {
				wrapScript(shell, script)
			}
			refuseUnknown(c)
		}
	}
}

// wrapScript puts what a completion command writes to script into a document.
func wrapScript(c *cobra.Command, script *bytes.Buffer) {
	generate := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := generate(c, args); err != nil {
			return err
		}
		return printJSON(c.OutOrStdout(), scriptDocument{c.Name(), script.String()})
	}
}

func helpOf(c *cobra.Command) helpDocument {
	d := helpDocument{Command: c.CommandPath(), Short: c.Short, Long: c.Long, Usage: c.UseLine(), Examples: c.Example}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			d.Commands = append(d.Commands, helpEntry{sub.Name(), sub.Short})
		}
	}
	list := func(f *pflag.Flag) {
		if !f.Hidden {
			d.Flags = append(d.Flags, flagEntry{f.Name, f.Value.Type(), f.DefValue, f.Usage})
		}
	}
	c.NonInheritedFlags().VisitAll(list)
	c.InheritedFlags().VisitAll(list)
	return d
}
