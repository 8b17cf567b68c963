package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
		_ = printJSON(c.OutOrStdout(), helpOf(c)) // as cobra: what cannot be printed is nobody's error
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
