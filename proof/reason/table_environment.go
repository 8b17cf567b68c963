package reason

// environmentCodes are the entries of dependency layers: what a policy has made
// from the lock files of the base, and mounts above the tree.
var environmentCodes = []Info{
	{EnvironmentUnavailable, "environment", Blocked,
		"the dependencies that the policy names could not be fetched or built, so nothing was run with less than them",
		"the message has what the package manager said; `remit env build` tries it alone"},
	{LockFileInvalid, "environment", Blocked,
		"a manifest or lock file of the base is missing, cannot be read as data, or is of a version that Remit does not know",
		"make it with the package manager, commit it, or correct dir in environment.prepare"},
	{DependencyRefused, "environment", Blocked,
		"a lock file names a dependency that comes from git, a path, a URL or another host, or has no digest, and Remit fetches from registries only",
		"take a released version from the registry; the message names the package and where it was to come from"},
	{LayerRefused, "environment", Blocked,
		"what was installed holds something that no layer may have: a set-id file, a device, a socket, or a link that leaves the workspace",
		"the message names the file; leave out the package that makes it"},
	{LayerChanged, "environment", Blocked,
		"a layer in the store, or in a file that is imported, is not what its manifest says",
		"`remit env gc --key KEY` removes it, and `remit env build` makes it again; look at who could write below REMIT_HOME"},
	{LayerOverlap, "environment", Blocked,
		"a path is in a dependency layer and in the tree, and one of them would hide the other",
		"do not track what a package manager makes, or name other paths in environment.prepare"},
}
