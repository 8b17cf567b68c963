package agent

import (
	_ "embed"
	"fmt"
	"net/url"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine"
)

// InsideDir is where lent agents stand in the sandbox.
const InsideDir = "/opt/remit/agents"

// Setting is a configuration file of an agent.
type Setting struct{ Name, Text string }

// Link is a symbolic link in an agent's directory to a place where something is
// lent.
type Link struct{ Name, Target string }

// Launch is how an agent is started.
type Launch struct {
	Home      string    // name of its directory below $HOME, made with mode 0700
	Variables []string  // environment variables that are to name that directory
	Settings  []Setting // files in it
	Links     []Link    // symbolic links in it
	Argv      []string
	// Drop is a basic regular expression of output lines that are left out,
	// "" for none. It is for lines that say again what a later one says, of
	// agents that print more than any limit allows.
	Drop string
}

// GitDir is the name at the top of the workspace under which an agent has a git
// repository of its own. It is scratch for every engine that is launched here.
const GitDir = ".git"

// repository makes that repository, in the sandbox: one commit with everything
// that is there, no remote, no history, no hooks. It is what an agent looks at
// its work with, and is thrown away with the workspace. Attributes of the tree
// convert nothing, so that git has byte by byte what there is. A workspace that
// cannot be made one (no git, no space) is used as it is. Only $HOME can say that
// an overlay's owner is right: agents keep variables from their commands.
//
//go:embed repository.sh
var repository string

// Words is the command line: a shell that makes the workspace a repository,
// writes the settings and becomes the agent. Nothing of an agent's or a user's
// making is part of the script.
func (l Launch) Words() []string {
	script := []string{"set -eu", strings.TrimSpace(repository), "umask 077", `dir=$HOME/` + l.Home, `mkdir -p "$dir"`}
	words := make([]string, 0, len(l.Settings)+len(l.Links)+len(l.Argv))
	for _, s := range l.Settings {
		script = append(script, `printf '%s\n' "$1" >"$dir/`+s.Name+`"`, "shift")
		words = append(words, s.Text)
	}
	for _, link := range l.Links {
		script = append(script, `ln -s "$1" "$dir/`+link.Name+`"`, "shift")
		words = append(words, link.Target)
	}
	for _, name := range l.Variables {
		script = append(script, "export "+name+`="$dir"`)
	}
	if l.Drop == "" {
		script = append(script, `exec "$@"`)
	} else {
		// The agent's exit code is the one that counts, and a pipe hides it.
		script = append(script, `{ code=0; "$@" || code=$?; echo $code >"$dir/exit"; } | LC_ALL=C grep -av --line-buffered '`+l.Drop+`' || :`,
			`exit "$(cat "$dir/exit")"`)
	}
	words = append(words, l.Argv...)
	return append([]string{"/bin/sh", "-c", strings.Join(script, "\n"), "remit-agent"}, words...)
}

// MaxPrompt bounds the prompt of an agent: the kernel takes no longer word on a
// command line than 128 KiB.
const MaxPrompt = 120 << 10

// Prompt is what an agent gets to read of its task. It never begins with what a
// command line takes for an option, a file or a subcommand.
func Prompt(t engine.Task) (string, error) {
	prompt := fmt.Sprintf("Task: %s\n\n%s\n", t.Title, strings.TrimSpace(t.Instructions))
	if len(prompt) > MaxPrompt {
		return "", reason.Errorf(reason.ContractValue, "the instructions have %d bytes; an agent takes %d", len(prompt), MaxPrompt).
			WithHint("put the details into a file of the repository and name it")
	}
	if strings.Contains(prompt, "\x00") {
		return "", reason.Errorf(reason.ContractValue, "the instructions have a NUL character in them")
	}
	return prompt, nil
}

var (
	modelForm = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)
	tokenForm = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,499}$`)
)

// anyToken is what an agent presents to a gateway that asks for nothing: no
// agent starts without a key.
const anyToken = "none"

// Model returns the task's way to a model, checked: its parts become words of
// command lines and values in configuration files.
func Model(name string, t engine.Task) (engine.Model, error) {
	if t.Model == nil {
		return engine.Model{}, reason.Errorf(reason.LocalConfigMissing, "the engine %s needs a model, and the run has no way to one", name)
	}
	m := *t.Model
	if m.Token == "" {
		m.Token = anyToken
	}
	u, err := url.Parse(m.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return m, reason.Errorf(reason.LocalConfigMissing, "the address of the model gateway is no plain http address")
	case !modelForm().MatchString(m.Name):
		return m, reason.Errorf(reason.LocalConfigMissing, "%q cannot be the name of a model", m.Name)
	case !tokenForm().MatchString(m.Token):
		return m, reason.Errorf(reason.LocalConfigMissing, "the token of the model gateway has characters that no header carries")
	}
	m.URL = strings.TrimRight(m.URL, "/")
	return m, nil
}

// Briefing is what an agent gets: its model and its prompt.
func Briefing(name string, t engine.Task) (m engine.Model, prompt string, err error) {
	if m, err = Model(name, t); err != nil {
		return m, "", err
	}
	prompt, err = Prompt(t)
	return m, prompt, err
}
