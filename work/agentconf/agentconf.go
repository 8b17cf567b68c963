// Package agentconf keeps what the user of this machine has settled about an agent:
// where its program is, whose model it asks, and where the key for that is read. So
// a run needs no flags about it. The files lie below REMIT_HOME, in agents/, one for
// each agent; they grant nothing (records and proofs do), and no key is in them.
package agentconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"remit/proof/atomicfile"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/redact"
)

// Schema names the file.
const Schema = "remit.agent.v1"

// Dir is where the files are, below REMIT_HOME.
const Dir = "agents"

// Agent is what is settled about one.
type Agent struct {
	Schema  string   `json:"schema"`
	Name    string   `json:"name"`    // the engine's, or acp- and the name of its program
	Engine  string   `json:"engine"`  // that drives it
	Command []string `json:"command"` // of an agent behind acp, else null
	Wire    string   `json:"wire"`    // what that speaks to its model, "" for what is known of it
	Bin     string   `json:"bin"`     // program, package or prefix; "" for where the engine looks
	// Version, SHA256 and Licence are those of the day on which it was set up.
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Licence string `json:"licence"`
	Model   Model  `json:"model"`
	SetUpAt string `json:"set_up_at"`
}

// Model is the pair that the agent asks, and the way to it.
type Model struct {
	Provider    string `json:"provider"`
	Name        string `json:"name"`
	EngineModel string `json:"engine_model"` // what the agent calls it, "" for the same
	BaseURL     string `json:"base_url"`     // "" for the well-known one
	Local       bool   `json:"local"`
	CAFile      string `json:"ca_file"`
	PricesFile  string `json:"prices_file"`
	// At most one of these says where the key is; none is the well-known variable.
	KeyEnv     string `json:"key_env"`
	KeyFile    string `json:"key_file"`
	KeyCommand string `json:"key_command"`
}

// maxBytes bounds a file.
const maxBytes = 64 << 10

var nameForm = form.Lazy(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// NameOf is the name under which an agent is settled: the engine's or, for a program
// behind acp, acp- and that program's.
func NameOf(engine string, command []string) string {
	if len(command) == 0 {
		return engine
	}
	return engine + "-" + strings.ToLower(filepath.Base(command[0]))
}

// Path is where an agent is kept.
func Path(home, name string) string { return filepath.Join(home, Dir, name+".json") }

// Load reads what is settled about an agent, nil for nothing. Others than the owner
// must not be able to write it, and the owner is the user or root: it names programs
// that are started.
func Load(home, name string) (*Agent, error) {
	if !nameForm().MatchString(name) {
		return nil, nil
	}
	path := Path(home, name)
	wrong := func(format string, args ...any) error {
		e := reason.Errorf(reason.HomeUnusable, format, args...)
		e.File = path
		return e.WithHint("remove the file and type `remit agent setup %s`, or give the flags about the model", name)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, wrong("reading what is settled about the agent: %w", err)
	case !info.Mode().IsRegular():
		return nil, wrong("it is no regular file")
	case info.Mode().Perm()&0o022 != 0:
		return nil, wrong("others can write it (mode %o), and it names programs that are started", info.Mode().Perm())
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 && uid != uint32(os.Geteuid()) { // a user's number
		return nil, wrong("it belongs to another user (%d), and it names programs that are started", uid)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, wrong("reading what is settled about the agent: %w", err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, wrong("it was replaced while it was read")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	a := &Agent{}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(a)
	}
	switch {
	case err != nil:
		return nil, wrong("reading what is settled about the agent: %w", err)
	case a.Schema != Schema:
		return nil, wrong("its schema is %q, want %q", a.Schema, Schema)
	case a.Name != name || NameOf(a.Engine, a.Command) != name:
		return nil, wrong("it is about %q of engine %q", a.Name, a.Engine)
	case a.Model.Provider == "" || a.Model.Name == "":
		return nil, wrong("it names no model")
	}
	return a, nil
}

// All are the agents that something is settled about, by name.
func All(home string) ([]*Agent, error) {
	entries, err := os.ReadDir(filepath.Join(home, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, reason.Errorf(reason.HomeUnusable, "reading the agents: %w", err)
	}
	var all []*Agent
	for _, e := range entries {
		name, settled := strings.CutSuffix(e.Name(), ".json")
		if !settled || e.IsDir() {
			continue
		}
		a, err := Load(home, name)
		if err != nil {
			return nil, err
		}
		if a != nil {
			all = append(all, a)
		}
	}
	return all, nil
}

// Save keeps what is settled about an agent, whole or not at all. It is refused with
// a credential in it.
func (a *Agent) Save(home string) error {
	a.Schema, a.Name = Schema, NameOf(a.Engine, a.Command)
	a.Command = slices.Clone(a.Command)
	if !nameForm().MatchString(a.Name) {
		return reason.Errorf(reason.EngineUnknown, "an agent cannot be called %q", a.Name).WithHint("give its program another name, such as a link with lower-case letters")
	}
	if err := redact.RefuseRecord("what is settled about the agent", a); err != nil {
		return err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("keeping the agent: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(home, Dir), 0o700); err != nil {
		return fmt.Errorf("keeping the agent: %w", err)
	}
	if err := atomicfile.ReplaceDurably(Path(home, a.Name), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("keeping the agent: %w", err)
	}
	return nil
}
