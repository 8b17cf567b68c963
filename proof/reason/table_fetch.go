package reason

// fetchCodes are the entries that the way out to the package registries can
// meet.
var fetchCodes = []Info{
	// registry: what a front to a package registry let through, and what not.
	{RegistryRefused, "registry", Blocked,
		"a client asked the front to a package registry for something that the lock file does not name, or in a form that no client needs",
		"the message names the package and the path. A package that the project needs belongs in its lock file: add it with the package manager's own command, and commit the lock file. Any other path is not to be had"},
	{RegistryAddress, "registry", Blocked,
		"a package registry, or a host that its answer leads to, has an address that is not public",
		"a mirror of your own on a private address has to be stated as one, in the client's own configuration; see docs/environments.md"},
	{RegistryUnreachable, "registry", Blocked,
		"a package registry could not be reached, refused the request, or did not answer in time",
		"look at the registry that the message is about, at its credential and its CA, then run again"},
	{RegistryMissing, "registry", Blocked,
		"a package registry does not have what was asked for",
		"the lock file was perhaps made with another registry: make it again with the one that is configured, or add the package to the mirror"},
	{RegistryAnswer, "registry", Blocked,
		"the answer of a package registry is not what its protocol says, so nothing of it was passed on",
		"look at the registry or mirror: a page for a login, or an error page, often stands in the place of the answer"},
	{RegistryTooLarge, "registry", Blocked,
		"an answer of a package registry, or all of them together, are larger than a fetch may be",
		"the message names the bound; a smaller set of dependencies, or several steps under environment.prepare, stay below it"},
	{RegistryIncomplete, "registry", Blocked,
		"an answer of a package registry ended before its end, so that the sandbox got only a part of it",
		"run again; the client reads the package anew"},
	{RegistryUnusable, "registry", Blocked,
		"the registry that a package client is configured for cannot be used from a sandbox",
		"configure an https registry in the client (`npm config set registry URL`, `go env -w GOPROXY=URL`, `pip config set global.index-url URL`)"},
}
