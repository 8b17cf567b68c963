// Package git is the only package that starts the git binary.
//
// # Why git is dangerous
//
// git runs programs that are named by repository-local configuration, hooks and attributes, and it follows
// redirections inside a git directory (`.git` files, commondir, alternates, includes). A user who can write a
// repository can therefore choose what runs when `git status` is run in it. Remit is handed such
// repositories every day, so nothing in one may ever choose what runs here.
//
// # What this package promises
//
//   - The environment of every call is built from empty: no variable of ours reaches git, no system or user
//     configuration is read, nothing can prompt, page, sign, dial or fetch.
//   - Every call carries a list of `-c` settings that beat any repository's configuration, an explicit GIT_DIR
//     (so that git discovers nothing), an explicit index and flags that switch external programs off.
//   - The directory it works in is one that [Create] wrote. A user's repository only ever appears as a list of
//     object directories to read from ([Dir.Alternates]); its configuration, hooks, index, attributes and refs are
//     not seen by git at all. [PublishBranch], which must create one ref in a user's repository, is the one
//     exception and says how it is contained.
//   - Calls that write objects never see foreign object directories through the same process, unless git is known
//     not to touch them: git refreshes the time stamp of an existing object instead of writing it again, and
//     that would be a write to the user's repository. fast-import and index-pack do not do this.
//   - Output is bounded, errors carry a short printable excerpt of standard error, a cancelled context kills
//     the whole process group.
//   - What git says an object contains is hashed again ([Batch.Each]), because a pack index may lie.
//
// # Failure modes
//
// A missing or too old binary is provider_unavailable. A missing object is objects_missing (a partial or
// damaged clone; nothing is ever fetched). An object whose content is not what its id says is
// repository_invalid. Every other failure is an [*Error] with the subcommand and its exit code.
package git
