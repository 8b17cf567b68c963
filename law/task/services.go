package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// Service is a program that commands reach over the loopback of their sandbox, such
// as a database. Each command has one of its own, started anew from the base.
type Service struct {
	Name    string `json:"name"`
	Prepare string `json:"prepare,omitempty"` // shell command line that ends before Run begins
	Run     string `json:"run"`               // shell command line that stays in the foreground
	Ready   string `json:"ready"`             // shell command line, repeated until it exits 0
	// Env are plain variables for every command and service, as those of the
	// environment are.
	Env map[string]string `json:"env,omitempty"`
	// TimeoutSeconds bounds Prepare, and Run until Ready succeeds, each.
	TimeoutSeconds int64 `json:"timeout_seconds"`
}

// Bounds on services, those of package sandbox.
const (
	MaxServices           = 8
	defaultServiceSeconds = 30
	maxServiceSeconds     = 600
)

var serviceName = form.Lazy(`^[a-z][a-z0-9-]{0,31}$`)

// Timeout is TimeoutSeconds.
func (s Service) Timeout() time.Duration { return time.Duration(s.TimeoutSeconds) * time.Second }

// Digest is over the definition as canonical JSON.
func (s Service) Digest() (string, error) { return canon.DigestOf(s) }

// Variables are those of the environment with those of its services: what every
// command sees. Where two state one, they agree.
func (e Environment) Variables() map[string]string {
	if len(e.Env) == 0 && len(e.Services) == 0 {
		return nil
	}
	out := maps.Clone(e.Env)
	if out == nil {
		out = map[string]string{}
	}
	for _, s := range e.Services {
		maps.Copy(out, s.Env)
	}
	return out
}

func services(to *[]Service) reader {
	return list(func(count int) { *to = make([]Service, count) }, func(i int) reader { return service(&(*to)[i]) })
}

func service(s *Service) reader {
	return func(r *report, field string, n ast.Node) {
		s.TimeoutSeconds = defaultServiceSeconds
		object([]key{{"name", text(&s.Name)}, {"prepare", text(&s.Prepare)}, {"run", text(&s.Run)}, {"ready", text(&s.Ready)},
			{"env", byName(&s.Env, "variable", variableForm, "capital letters, digits and underscores", text[string])},
			{"timeout_seconds", integer(&s.TimeoutSeconds)}})(r, field, n)
	}
}

// checkServices holds the services of an environment against their rules.
func (e *Environment) checkServices(r *report, field string) {
	if len(e.Services) > MaxServices {
		r.field(field, reason.ContractValue, "each runs beside every command and counts in its limits", "%d services, at most %d", len(e.Services), MaxServices)
		return
	}
	stated := maps.Clone(e.Env)
	if stated == nil {
		stated = map[string]string{}
	}
	for i, s := range e.Services {
		at := fmt.Sprintf("%s[%d]", field, i)
		s.check(r, at)
		if slices.ContainsFunc(e.Services[:i], func(other Service) bool { return other.Name == s.Name }) && s.Name != "" {
			r.field(join(at, "name"), reason.ContractValue, "give each service a name of its own", "two services have the name %q", s.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			if value, ok := stated[name]; ok && value != s.Env[name] {
				r.field(join(join(at, "env"), name), reason.ContractValue, "every command sees the variables of all services: state it once",
					"%s is %q here and %q before", name, s.Env[name], value)
			}
			stated[name] = s.Env[name]
		}
	}
	if len(e.Services) == 0 {
		e.Services = nil // the same rules have the same digest
	}
}

func (s Service) check(r *report, at string) {
	if s.Name == "" {
		r.field(join(at, "name"), reason.ContractMissingKey, "name: db", "name is missing")
	} else if !serviceName().MatchString(s.Name) {
		r.field(join(at, "name"), reason.ContractValue, "small letters, digits and dashes, a letter first, at most 32", "%.100q is no name of a service", s.Name)
	}
	for _, line := range []struct {
		key, text, missing string
	}{
		{"run", s.Run, "the command line that starts it and stays in the foreground"},
		{"ready", s.Ready, "a command line that exits 0 once the service answers, such as pg_isready -h 127.0.0.1"},
		{"prepare", s.Prepare, ""},
	} {
		field := join(at, line.key)
		switch {
		case strings.TrimSpace(line.text) == "" && line.missing != "":
			r.field(field, reason.ContractMissingKey, "write "+line.key+": "+line.missing, "%s is missing", line.key)
		case len(line.text) > MaxCommandBytes:
			r.field(field, reason.ContractValue, "one shell command line of at most 16 KiB", "not a command line")
		default:
			checkText(r, field, line.text, true)
		}
	}
	if s.TimeoutSeconds < 1 || s.TimeoutSeconds > maxServiceSeconds {
		r.field(join(at, "timeout_seconds"), reason.ContractValue, "", "%d is not between 1 and %d", s.TimeoutSeconds, maxServiceSeconds)
	}
	checkVariables(r, join(at, "env"), s.Env)
}

var variableForm = form.Lazy(`^[A-Z_][A-Z0-9_]{0,63}$`)

// A variable that a policy may not set is one of three kinds: Remit or a reader of
// test results sets it; it says which program, library or configuration a tool
// takes, so that a verdict would no longer be about the named tools; or its name
// says that its value is a secret, and a policy is read by everyone.
var (
	takenVariables = strings.Fields(`
		PATH HOME TMPDIR TMP TEMP LANG PWD OLDPWD SHELL USER LOGNAME
		IFS ENV BASH_ENV CDPATH SHELLOPTS BASHOPTS PS4 GLOBIGNORE
		GOCACHE GOENV GOEXPERIMENT GOFLAGS GOINSECURE GOMAXPROCS GOMODCACHE GONOPROXY GONOSUMDB GOPATH GOPRIVATE GOPROXY GOROOT GOSUMDB
		GOTOOLCHAIN GOTOOLDIR GOVCS GOWORK CC CXX CPP LD AR AS
		NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_REPL_EXTERNAL_MODULE NODE_V8_COVERAGE MOCHA_OPTIONS
		PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX
		PYTHONBREAKPOINT PYTHONINSPECT PYTEST_ADDOPTS PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD VIRTUAL_ENV
		RUBYOPT RUBYLIB SPEC_OPTS PERL5OPT PERL5LIB PHPRC PHP_INI_SCAN_DIR CLASSPATH JAVA_HOME JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS
		_JAVA_OPTIONS MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS JAVA_OPTS DOTNET_STARTUP_HOOKS CORECLR_PROFILER MAKEFLAGS MAKEFILES GNUMAKEFLAGS
		HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY REQUESTS_CA_BUNDLE CURL_CA_BUNDLE SOURCE_DATE_EPOCH
		RUSTFLAGS RUSTDOCFLAGS RUSTDOC`)
	takenPrefixes = strings.Fields(`LD_ DYLD_ GIT_ REMIT_ NPM_CONFIG_ YARN_ PNPM_ COREPACK_ PIP_ UV_ POETRY_ CARGO_ RUSTC RUSTUP_ BUNDLE_ GEM_
		COMPOSER_ NUGET_ SSL_ GLIBC_ MALLOC_ BASH_FUNC`)
	secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "API_KEY", "PRIVATE_KEY", "ACCESS_KEY"}
)

// RefusedVariable says why a policy may not set a variable, "" if it may.
func RefusedVariable(name string) string {
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return "its name is that of a secret, and no secret belongs in a policy or a sandbox"
		}
	}
	taken := slices.Contains(takenVariables, name) ||
		slices.ContainsFunc(takenPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	if taken {
		return "it changes which programs and settings the tools take, or Remit sets it"
	}
	return ""
}

func checkVariables(r *report, field string, env map[string]string) {
	if len(env) > maxEnvironment {
		r.field(field, reason.ContractValue, "", "%d variables, at most %d", len(env), maxEnvironment)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := join(field, name)
		if why := RefusedVariable(name); why != "" {
			r.field(at, reason.ContractValue, "set it in the command that needs it, as in NAME=value npm test, if it must be",
				"%s cannot be set here: %s", name, why)
			continue
		}
		if len(env[name]) > maxVariableText {
			r.field(at, reason.ContractValue, "", "%d bytes, at most %d", len(env[name]), maxVariableText)
		}
		checkText(r, at, env[name], false)
	}
}
