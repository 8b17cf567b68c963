// Package depend makes the dependency layers of a repository: what a package
// manager installs from a lock file of the base commit, kept by digest in a store
// below REMIT_HOME, and mounted above the tree by package sandbox.
//
// # Two phases
//
// While foreign code runs, a way out to a registry is a way out for the user's
// source. So a layer is made in two sandboxes:
//
//   - fetch reaches the registry through a front of package registry, and runs no
//     code of a package or of the repository. Its tree has nothing but manifests
//     and lock files that were parsed as data here and written anew, without
//     scripts and without configuration, so that no .npmrc, .pnpmfile, build.rustc
//     or install script can be in it.
//   - build runs the commands that the policy names over the base tree, and has no
//     network at all.
//
// What comes from elsewhere than the registry (git, a path, a URL) is refused by
// the name of the package (dependency_refused).
//
// # The key and the content
//
// The [Recipe] says everything that the result depends on; its digest is the key
// under which the layer is found again. The content has a digest of its own, over
// a listing of every path, which is recorded: two builds of a recipe can differ
// (compiled add-ons), and then both digests say so.
//
// What is kept is normalised: times are 0, modes are 0644, 0755 or those of a link,
// nothing has an owner or an attribute. Set-id files, devices, sockets and links
// that leave the workspace are refused (layer_refused).
//
// # The store
//
//	layers/KEY/manifest.json   the recipe, the digest of the content, what was delivered
//	layers/KEY/listing         what is there, path by path
//	layers/KEY/index           what stat said of all that, when it was complete
//	layers/KEY/lock            held by who uses the layer
//	layers/KEY/tree/           what is mounted
//	staging/                   layers that are being made
//
// A layer appears by one rename of a complete directory: of two builders at once
// the first one wins, and a crash leaves nothing but staging. Before each use the
// index is compared, which proves without reading a file that nothing was touched;
// where it differs every byte is compared, and a layer that is not what its
// manifest says is refused (layer_changed) and never repaired.
package depend
