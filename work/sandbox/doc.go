// Package sandbox runs untrusted commands over a writable view of a tree that
// stays untouched, and reads back what they changed.
//
// # The idea
//
// [Driver.Run] takes a base directory, changes to lay over it, and commands. It
// returns how each command ended, which caps really held, and what differs
// from the base afterwards. Nothing else of a run remains: no mount, process,
// file or control group, also when Remit itself is killed in the middle.
//
// # How the default driver works
//
// Run starts its own binary again ([Init]) as a keeper: process 1 of a new pid
// namespace with a mount namespace of its own, and for an ordinary user a user
// namespace. The keeper mounts one tmpfs of limited size, and on it an overlay
// whose lower layer is the base tree, an id-mapped clone of it as root. For
// each command it starts the program bwrap (bubblewrap) there, as root under
// another uid, with empty environment, fresh namespaces for everything, no
// capability, a seccomp filter, pipes instead of files, and only these mounts:
//
//	/usr and its links     read-only, the host's
//	/etc                   a few files of ours, alternatives, ld.so.cache, and
//	                       of ssl the certificates and openssl.cnf
//	/workspace             the tree, and above it the layers of [Spec.Layers]
//	/tmp, /dev/shm         empty, limited
//	/cache                 the named part of the user's Go module cache,
//	                       read-only, and a private layer over the lent Go
//	                       build caches and Remit's own
//	/proc, /dev            new and minimal
//
// With [Rooted] the layers of an image stand in the place of /usr and its links, as
// one read-only overlay below a layer of ours that has the places of the other
// mounts and a few files of /etc. Everything else is the same: an image is one
// more thing to look at, and no other way of running commands.
//
// What is the host's is shown through overlays without an upper layer: a socket,
// a FIFO or a lock inside is another one than the host's. The devices in /dev are
// the host's own.
//
// bwrap is born in the run's control groups and waits for its options on a
// pipe; in that moment the keeper puts it under its resource limits, before it
// has a child that could escape them. The outputs go to the parent directly, which
// counts them. When every process is dead the keeper reads the upper layer of
// the overlay and streams the changes to the parent (package tree).
//
// Inside there is no network but a loopback of its own. With [Spec.Loopback]
// there is one listener on it, which is served from outside: the keeper makes
// the network namespace in the place of bwrap, listens there, hands the
// descriptor to the parent and keeps none. So a gateway can be lent without a
// path, a forwarder or a process of ours inside. Lent is 127.0.0.1 only: a
// command may take the same port of another loopback address, so name it by
// its number and not as localhost.
//
// What a Run adds to the Go build cache is thrown away, unless [Spec.KeepCache]
// names a directory for it, which later Runs can be lent ([Spec.Caches]): a
// private layer of each is over the same read-only ones. The keeper streams the
// new entries when every process is dead, and the parent writes regular files
// under the names of entries, within bounds. A compiler believes its cache, so a
// cache must not be lent to a Run whose outcome the commands that filled it may
// not decide. A lent cache changes neither the arguments nor the environment of
// a command, but its entries and the number of layers can be seen inside.
// Results of tests are never taken from it: they all expired when the Run began.
//
// A start must be cheap, or people leave the sandbox out. A keeper without a
// task stands by for the next Run, which saves the start of a process on the way
// of each, and the result of a probe is remembered until the host, this program
// or bwrap changes. Measured with whole runs of 100 files in turns, on two busy
// cores (medians of 60 and 25 pairs): without the keeper that stands by a run
// takes 70 ms longer (12 %), without the memory 100 ms (12 %) and 80 ms more of
// processor time. Neither weakens a wall: a keeper serves one Run, holds nothing
// before it and is not used if the mounts changed after its start; a memory
// that another user could have written does not count, and a Run that cannot
// begin has the host probed anew.
//
// A start with one bind takes 14 ms on two cores: 7 of them in bwrap, 1.5 in
// the mounts of the keeper, 0.5 in control groups, 2.5 until the kernel has
// freed what the keeper had, the rest in starting processes. Of bwrap's part five
// in six are namespaces; all mounts together are the sixth. BenchmarkStart prints
// the sums.
//
// Where the base tree cannot be the lower layer of an overlay, the keeper
// copies it to the tmpfs and compares whole trees; [Result.Layer] says which.
//
// A layer is what commands find in the workspace and no commit has, installed
// dependencies for one. It is another lower directory of the same overlay, above
// the tree, so that a thousand directories cost one mount. Commands may write
// there; what they write is no change of the tree and is reported separately. An
// overlay hides a path of the tree without an error, so a path that both have is
// refused before.
//
// # What is promised
//
// Each cap appears in [Result.Caps] with how it is held, or with
// Enforced false and why not. [Description.NotEnforced] says the same in
// advance. Driver "none" promises nothing and must be asked for by name.
//
// The kernel is shared: a kernel exploit is not stopped by any of this.
//
// # Failure modes
//
// A driver that cannot be had, or whose probe fails, is sandbox_unavailable; so
// is a Run that cannot begin on a host that changed after its probe. A
// sandbox that breaks under a command is infrastructure_fault and never a
// failed command: bwrap tells whether the program was really executed. A
// missing program is CommandResult.Started false with exit code 127. A tree
// above the bounds of package tree is resource_limit. A writer that fails is
// artifact_write_failure. After a cancellation Run returns the cause together
// with the partial result, changes included.
package sandbox
