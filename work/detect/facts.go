// Package detect says what a repository is: its languages and package managers,
// the commands that run its tests, what they need installed, and which of its
// paths an engine may change. From that it writes the remit.yaml of a repository
// that has none ([Facts.Policy]).
//
// # What it reads
//
// The files of one commit, through an [fs.FS], and nothing else: no clock, no
// network, no process, no configuration of the machine. Manifests, makefiles and
// CI workflows are parsed as data; nothing of the repository is executed. The
// same tree gives the same facts, in the same order.
//
// # What it does not believe
//
// A repository can be anybody's. Names and files are bounded ([MaxEntries],
// [MaxDepth], [MaxFileBytes], [MaxReadBytes]), symbolic links are not followed,
// and what exceeds a bound or cannot be parsed is a [Note] and no fact. Words of
// the repository reach remit.yaml only when they are short, printable and on one
// line, and then quoted; a command line is taken from a CI file only if it is one
// plain call of a known test runner. Nothing is run here: that a test script is
// `rm -rf /` matters to the sandbox, which is where it would run.
//
// # How commands are chosen
//
// A project's own runner is preferred to a wrapper around it, since only a plain
// call of a runner can be read and controlled test by test. Where no project
// names one, a makefile's test target counts, then a test script, then the CI
// workflows. What was seen and not taken is kept in [Facts.Others].
package detect

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"remit/law/task"
)

// Facts are what was found. Every list is in a stable order.
type Facts struct {
	Languages []Language `json:"languages"`
	Projects  []Project  `json:"projects"`
	Commands  []Command  `json:"commands"` // that verify a change
	Others    []Command  `json:"others"`   // that look like tests too, and are not taken
	Prepare   []Prepare  `json:"prepare"`
	// Image and Env are what a description of a development container names.
	Image     *Image            `json:"image,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Allowed   []string          `json:"allowed_paths"`
	Forbidden []string          `json:"forbidden_paths"`
	Protected []string          `json:"protected_paths"`
	Notes     []Note            `json:"notes"`

	envFrom string // the file that Env is from
}

// Language is a programming language and how many files are in it.
type Language struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
}

// Project is a directory with a manifest.
type Project struct {
	Dir       string `json:"dir"`       // "." for the top
	Ecosystem string `json:"ecosystem"` // go, node, python, rust, maven, gradle, ruby, php, dotnet, cmake, …
	Manager   string `json:"manager,omitempty"`
	Manifest  string `json:"manifest"`
	Lock      string `json:"lock,omitempty"`
	Workspace bool   `json:"workspace,omitempty"` // it holds further projects
}

// Command is a command that runs tests: one line, or a group of lines that build
// on each other.
type Command struct {
	Lines []string `json:"lines"`
	From  string   `json:"from"` // what says so: a file, and the place in it
}

// Prepare is what has to be installed before the commands run: a step of
// environment.prepare.
type Prepare struct {
	Ecosystem task.Ecosystem `json:"ecosystem"`
	Dir       string         `json:"dir"`
	Lock      string         `json:"lock"`
}

// Note is what a person should know: something that was not read, or that has to
// be done by hand.
type Note struct {
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

// finder collects the facts.
type finder struct {
	*tree
	facts  Facts
	looked int // files without an end that were looked into
	// npmBats says that a script of npm runs tests of bats.
	npmBats bool
	can     []task.Ecosystem // whose packages environment.prepare installs
}

// Look reads a tree. can are the ecosystems that environment.prepare may have; a
// lock file of another one is a note. The error is one of the file system: what
// the tree holds is never an error.
func Look(fsys fs.FS, can []task.Ecosystem) (*Facts, error) {
	t, err := readTree(fsys)
	if err != nil {
		return nil, err
	}
	f := &finder{tree: t, can: can}
	f.languages()
	for _, look := range []func(*finder){
		(*finder).golang, (*finder).rust, (*finder).node, (*finder).deno, (*finder).python,
		(*finder).jvm, (*finder).ruby, (*finder).php, (*finder).dotnet, (*finder).native, (*finder).bats,
	} {
		look(f)
	}
	for _, look := range []func(*finder){(*finder).makefiles, (*finder).scripts, (*finder).workflows, (*finder).devcontainer, (*finder).compose} {
		look(f)
	}
	f.debian()
	f.paths()
	f.settle()
	return &f.facts, nil
}

// MaxCommands bounds what verifies a change: each of them runs several times in
// every run.
const MaxCommands = 12

// maxPrepare is how many steps environment.prepare may have.
const maxPrepare = 8

// maxListed bounds the other lists.
const maxListed = 40

// settle bounds the lists and makes empty ones of those that are not there.
func (f *finder) settle() {
	facts := &f.facts
	if more := len(facts.Commands) - MaxCommands; more > 0 {
		f.note("", "%d more test commands were found than the %d that are taken: name those that matter with --test", more, MaxCommands)
		facts.Others = append(facts.Commands[MaxCommands:], facts.Others...)
		facts.Commands = facts.Commands[:MaxCommands]
	}
	if more := len(facts.Prepare) - maxPrepare; more > 0 {
		f.note("", "%d more lock files were found than the %d that environment.prepare takes", more, maxPrepare)
		facts.Prepare = facts.Prepare[:maxPrepare]
	}
	facts.Others = slices.DeleteFunc(facts.Others, func(c Command) bool { return facts.takes(c) })
	facts.Others = facts.Others[:min(len(facts.Others), maxListed)]
	if len(facts.Commands) == 0 {
		f.note("", "no test command found: name one with --test 'CMD'")
	}
	facts.Notes = append(facts.Notes, f.tree.notes...)
	facts.Notes = facts.Notes[:min(len(facts.Notes), maxListed)]
	facts.Languages = noNil(facts.Languages)
	facts.Projects = noNil(facts.Projects)
	facts.Commands = noNil(facts.Commands)
	facts.Others = noNil(facts.Others)
	facts.Prepare = noNil(facts.Prepare)
	facts.Notes = noNil(facts.Notes)
}

func noNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// takes reports whether a command is one of those that verify.
func (f *Facts) takes(c Command) bool {
	return slices.ContainsFunc(f.Commands, func(d Command) bool { return slices.Equal(c.Lines, d.Lines) })
}

// Use has these commands verify in the place of those that were found.
func (f *Facts) Use(lines []string) {
	found := f.Commands
	f.Commands = nil
	for _, line := range lines {
		f.Commands = append(f.Commands, Command{Lines: []string{line}, From: "--test"})
	}
	f.Others = slices.DeleteFunc(append(found, f.Others...), f.takes)
	f.Notes = slices.DeleteFunc(f.Notes, func(n Note) bool { return strings.HasPrefix(n.Text, "no test command found") })
}

// command takes a command; one that cannot stand in remit.yaml is a note.
func (f *finder) command(from string, lines ...string) {
	if c, ok := f.checked(from, lines); ok && !f.facts.takes(c) {
		f.facts.Commands = append(f.facts.Commands, c)
	}
}

// other keeps a command that was seen and is not taken.
func (f *finder) other(from string, lines ...string) {
	c, ok := f.checked(from, lines)
	if ok && len(f.facts.Others) < maxListed && !slices.ContainsFunc(f.facts.Others, func(d Command) bool { return slices.Equal(c.Lines, d.Lines) }) {
		f.facts.Others = append(f.facts.Others, c)
	}
}

func (f *finder) checked(from string, lines []string) (Command, bool) {
	for _, line := range lines {
		if !oneLine(line) {
			f.note(from, "has a test command that is not one short printable line: it is not taken")
			return Command{}, false
		}
	}
	return Command{Lines: lines, From: from}, true
}

func (f *finder) project(p Project) { f.facts.Projects = append(f.facts.Projects, p) }

// prepare has the packages of a lock file installed, where that can be done.
func (f *finder) prepare(ecosystem task.Ecosystem, p Project) {
	if !slices.Contains(f.can, ecosystem) {
		f.byHand(cmp.Or(p.Lock, p.Manifest), string(ecosystem))
		return
	}
	f.facts.Prepare = append(f.facts.Prepare, Prepare{Ecosystem: ecosystem, Dir: p.Dir, Lock: p.Lock})
}

func (f *finder) note(path, format string, args ...any) { f.tree.note(path, format, args...) }

// note remembers what a person should know.
func (t *tree) note(path, format string, args ...any) {
	n := Note{Path: path, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(t.notes, n) && len(t.notes) < maxListed {
		t.notes = append(t.notes, n)
	}
}
