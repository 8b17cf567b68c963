package registry

import (
	"strings"
)

// Client is the configuration that points a package client in the sandbox at the front.
type Client struct {
	Env map[string]string
	// Files are configuration that has to be written, by their path below the
	// client's home directory.
	Files map[string]string
}

// nowhere is where a client finds no configuration: neither that of a repository nor
// of the machine says where packages come from.
const nowhere = "/dev/null"

// Configure returns the configuration of an ecosystem's client for a front whose
// base is "http://127.0.0.1:PORT". The client asks no other address: what a project's own
// configuration names cannot be reached from the sandbox.
func Configure(e Ecosystem, base string) Client {
	base = strings.TrimRight(base, "/")
	switch e {
	case NPM:
		return Client{Env: map[string]string{
			"npm_config_registry":        base + "/npm/",
			"npm_config_globalconfig":    nowhere,
			"npm_config_ignore_scripts":  "true",
			"npm_config_audit":           "false", // a POST with the names of all packages
			"npm_config_fund":            "false",
			"npm_config_update_notifier": "false",
			"npm_config_fetch_retries":   "1",
		}}
	case PyPI:
		return Client{Env: map[string]string{
			"PIP_INDEX_URL":                 base + "/pypi/simple",
			"PIP_CONFIG_FILE":               nowhere,
			"PIP_NO_INPUT":                  "1",
			"PIP_RETRIES":                   "1",
			"PIP_DISABLE_PIP_VERSION_CHECK": "1",
		}}
	case Crates:
		return Client{
			Env: map[string]string{"CARGO_NET_RETRY": "1", "CARGO_NET_GIT_FETCH_WITH_CLI": "false"},
			// An environment variable cannot replace a source.
			Files: map[string]string{".cargo/config.toml": "[source.crates-io]\nreplace-with = \"remit\"\n\n" +
				"[source.remit]\nregistry = \"sparse+" + base + "/crates/\"\n"},
		}
	case Go:
		return Client{Env: map[string]string{
			"GOPROXY":     base + "/go",
			"GOSUMDB":     DefaultSumDB,
			"GOPRIVATE":   "",
			"GONOPROXY":   "",
			"GONOSUMDB":   "",
			"GOVCS":       "*:off",
			"GOENV":       "off",
			"GOAUTH":      "off",
			"GOTOOLCHAIN": "local",
			"GOFLAGS":     "-modcacherw",
		}}
	}
	return Client{}
}
