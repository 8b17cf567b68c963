package provider

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"remit/law/job"
	"remit/proof/evidence"
	"remit/proof/form"
	"remit/proof/reason"
	"remit/work/engine/command"
	"remit/work/engine/fake"
	"remit/work/prove"
)

// engineName is a name that an operator may give to an engine: it stands in
// requests and receipts.
var engineName = form.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseEngine reads NAME=COMMAND ARG…, as an operator writes it. The command is
// cut into words as a shell does it, and nothing else of a shell happens: single
// and double quotes and the backslash keep a word together, and what a shell
// would act on is refused, so that it is not expected to be.
func ParseEngine(text string) (name string, argv []string, err error) {
	name, line, found := strings.Cut(text, "=")
	if !found {
		return "", nil, fmt.Errorf("%q is not NAME=COMMAND", text)
	}
	if argv, err = words(line); err != nil {
		return "", nil, fmt.Errorf("engine %q: %w", name, err)
	}
	return name, argv, nil
}

// words cuts a command line at its blanks.
func words(line string) ([]string, error) {
	var out []string
	var word strings.Builder
	begun, quote, escaped := false, rune(0), false
	for _, c := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune(`"\$`+"`", c) {
				word.WriteByte('\\') // as a shell has it: it escapes nothing else there
			}
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			begun, escaped = true, true
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			begun, quote = true, c
		case quote == 0 && strings.ContainsRune(" \t\n", c):
			if begun {
				out = append(out, word.String())
				word.Reset()
			}
			begun = false
		case quote != '\'' && strings.ContainsRune("$`", c), quote == 0 && strings.ContainsRune("|&;<>()*?[~#", c):
			return nil, fmt.Errorf("there is no shell that would act on %q: quote it, or say sh -c '…'", c)
		default:
			begun = true
			word.WriteRune(c)
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("the last word has no end")
	}
	if begun {
		out = append(out, word.String())
	}
	return out, nil
}

// openEngines makes the engines that this machine offers. A program that is
// named by its path is made absolute here: a repository that has a file of that
// name must not put it in the engine's place.
func openEngines(offered map[string][]string) (map[string]*command.Engine, error) {
	engines := map[string]*command.Engine{}
	for name, argv := range offered {
		if !engineName().MatchString(name) || name == fake.Name {
			return nil, fmt.Errorf("engine %q: not a name that an engine can have here", name)
		}
		if len(argv) == 0 || argv[0] == "" {
			return nil, fmt.Errorf("engine %q: no command", name)
		}
		argv = append([]string{}, argv...)
		if strings.ContainsRune(argv[0], os.PathSeparator) {
			program, err := filepath.Abs(argv[0])
			if err == nil {
				err = executable(program)
			}
			if err != nil {
				return nil, fmt.Errorf("engine %q: %w", name, err)
			}
			argv[0] = program
		}
		engines[name] = &command.Engine{Argv: argv, Dir: string(os.PathSeparator)}
	}
	return engines, nil
}

func executable(program string) error {
	info, err := os.Stat(program)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is not a program", program)
	}
	return err
}

// worker is the engine that a request names, with all that its run needs.
func (d *Daemon) worker(ctx context.Context, c job.EngineChoice, budget int64, rule rule) (worker, error) {
	if agent, ok := d.agents.find(c.Name); ok {
		return d.agent(ctx, agent, c, budget, rule)
	}
	e, err := d.program(ctx, c)
	if err != nil {
		return worker{}, err
	}
	w := worker{engine: e}
	q := prove.Question{Home: d.home, Signed: rule.signed, Engine: e, Identity: evidence.EngineIdentity{Name: command.Name},
		Driver: d.driver.Describe().Driver, Mode: rule.mode}
	if err := q.Into(&w.admission); err != nil {
		return worker{}, ownTrouble{err}
	}
	return w, nil
}

// program is the one that a request names. What a requester may not choose here
// is not silently left out: the answer would claim that it was.
func (d *Daemon) program(ctx context.Context, c job.EngineChoice) (*command.Engine, error) {
	e, ok := d.engines[c.Name]
	if !ok {
		return nil, reason.Errorf(reason.EngineUnknown, "this provider has no engine %q", c.Name)
	}
	if c.Model != "" {
		return nil, reason.Errorf(reason.JobInvalid, "engine %q is a program of this provider, and asks no model that could be chosen", c.Name)
	}
	if filepath.IsAbs(e.Argv[0]) {
		if err := executable(e.Argv[0]); err != nil {
			return nil, reason.Errorf(reason.ProviderUnavailable, "engine %q is gone: %w", c.Name, err)
		}
	}
	if c.Version == "" {
		return e, nil
	}
	build, err := e.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return e, sameVersion(c, build)
}

// sameVersion refuses a job that wants another build than there is.
func sameVersion(c job.EngineChoice, build evidence.EngineIdentity) error {
	if c.Version != "" && c.Version != build.Version && c.Version != build.SHA256 {
		return reason.Errorf(reason.EngineUnknown, "engine %q of this provider has version %s, %s", c.Name, build.Version, build.SHA256)
	}
	return nil
}
