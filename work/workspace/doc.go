// Package workspace reads a user's repository without ever writing to it or believing it, and turns what happened
// in a sandbox into a git tree.
//
// # The idea
//
// Four values, each made from the one before:
//
//	Source    a repository on disk that belongs to the user. Its refs, index and configuration are read by Go as data;
//	          git is never started in it.
//	Baseline  the commit and tree that a revision of the Source names.
//	Store     a bare repository of ours for one session. It reads the Source's objects and writes only its own.
//	          Import, Diff, Apply, Changes and CommitTree work on tree ids in it.
//	Checkout  a tree as files, made once for each tree id and kept in a Cache that many sessions share.
//
// # What is promised
//
//   - The Source is not written, down to time stamps of its object files. [Source.Fingerprint] before and
//     [Fingerprint.Compare] after prove it; the promise does not rest on good intentions.
//   - Nothing that a repository contains is executed: no hook, filter, driver, alias or helper (package git).
//   - A Checkout holds byte for byte what its tree id stands for. Each commit, tree and blob is hashed in Go on its
//     way out of the object store; lines ends are not converted, LFS pointers stay pointers, submodules are empty
//     directories.
//   - Names are validated component by component before anything is created ([CheckPath]). A tree or change
//     with a name that some system would take for `.git`, or that cannot exist, is refused with path_unrepresentable;
//     a base commit that has one is repository_invalid, since no run can begin from it.
//   - A patch made by Diff gives exactly the same tree id when Apply lays it over the same base.
//
// # Cost
//
// Import, Apply and Changes grow with what changed, not with the repository. A warm Checkout is a lock and one
// small read; Verify is one stat call a file.
//
// # Failure modes
//
// not_a_repository, repository_invalid, unborn_head, base_not_found, objects_missing (partial clone),
// patch_invalid, protected_path, baseline_mismatch, tree_mismatch (a damaged checkout), all as [*reason.Error]
// with a hint.
package workspace
