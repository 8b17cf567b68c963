package task

import (
	"maps"
	"slices"
	"strings"

	"remit/proof/form"
	"remit/proof/reason"
)

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
