package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// writeManPages writes the page of a command, and those of its subcommands, below a
// directory, and returns how many there are. A page is man(7) source, which says the same whenever it is written.
//
// It is our own writer: that of cobra takes a parser of Markdown and one of YAML into
// the program, which costs each start of it a twentieth of its time.
func writeManPages(cmd *cobra.Command, dir string) (pages int, err error) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			below, err := writeManPages(c, dir)
			if err != nil {
				return 0, err
			}
			pages += below
		}
	}
	return pages + 1, os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), []byte(manPage(cmd)), 0o644) // a page is for every user
}

// manName is the name of a command's page, remit-run for `remit run`.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of a command.
func manPage(cmd *cobra.Command) string {
	var p roff
	name := manName(cmd)
	p.line(`.TH %s 1 "" %q Remit`, roffText(strings.ToUpper(name)), "Remit "+version)
	p.section("NAME")
	p.line(`%s \- %s`, roffText(name), roffText(cmd.Short))
	p.section("SYNOPSIS")
	if cmd.Runnable() || !cmd.HasSubCommands() {
		p.bold(cmd.UseLine())
	} else {
		p.bold(cmd.CommandPath() + " COMMAND")
	}
	p.section("DESCRIPTION")
	p.text(cmp.Or(cmd.Long, cmd.Short))
	if cmd.HasAvailableSubCommands() {
		p.section("COMMANDS")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				p.item(`\fB`+roffText(c.Name())+`\fR`, c.Short)
			}
		}
	}
	p.options("OPTIONS", cmd.NonInheritedFlags())
	p.options("GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.section("EXAMPLES")
		p.block(strings.Split(strings.Trim(cmd.Example, "\n"), "\n"))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			also = append(also, manName(c))
		}
	}
	if len(also) > 0 {
		p.section("SEE ALSO")
		for i, name := range also {
			also[i] = `\fB` + roffText(name) + `\fR(1)`
		}
		p.line("%s", strings.Join(also, ",\n"))
	}
	return p.String()
}

// roff collects man(7) source.
type roff struct{ strings.Builder }

func (p *roff) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *roff) section(title string) { p.line(".SH %s", title) }

func (p *roff) bold(text string) { p.line(`\fB%s\fR`, roffText(text)) }

// item is a term with what it means.
func (p *roff) item(term, text string) { p.line(".TP\n%s\n%s", term, roffText(text)) }

// text writes paragraphs; lines that are indented stay as they are.
func (p *roff) text(text string) {
	for i, part := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		lines := strings.Split(part, "\n")
		for len(lines) > 0 {
			n := 0
			for n < len(lines) && strings.HasPrefix(lines[n], " ") == strings.HasPrefix(lines[0], " ") {
				n++
			}
			if strings.HasPrefix(lines[0], " ") {
				p.block(lines[:n])
			} else {
				p.line("%s", roffText(strings.Join(lines[:n], "\n")))
			}
			lines = lines[n:]
		}
	}
}

// block writes lines as they are.
func (p *roff) block(lines []string) {
	p.line(".nf\n%s\n.fi", roffText(strings.Join(lines, "\n")))
}

// options lists flags, as the help does.
func (p *roff) options(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.section(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := `\fB` + roffText("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			term = `\fB` + roffText("-"+f.Shorthand) + `\fR, ` + term
		}
		if value != "" {
			term += ` \fI` + roffText(value) + `\fR`
		}
		if def := f.DefValue; def != "" && def != "[]" && def != "false" && def != "0" && def != "0s" && !strings.Contains(usage, "(default") {
			usage += " (default " + def + ")"
		}
		p.item(term, usage)
	})
}

// roffText is a text that roff shows as it is: hyphens that can be copied, no
// escapes, no line that is a request, and nothing beyond ASCII.
func roffText(text string) string {
	var b strings.Builder
	start := true
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case start && (r == '.' || r == '\''):
			b.WriteString(`\&` + string(r))
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
		start = r == '\n'
	}
	return b.String()
}
