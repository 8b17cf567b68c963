// Package registry is the way out of a sandbox in which a package client fetches
// what a lock file names: a reverse proxy on the sandbox's loopback listener.
//
// # What it promises
//
//   - Inside there is plain HTTP to one address, with one path for each kind of
//     registry: /npm/, /pypi/, /go/, /crates/, /debian/, /rubygems/. TLS, certificates, credentials and the
//     address of a mirror stay outside.
//   - Nothing that the client chose reaches a registry but the names of packages,
//     versions and files, read by the grammar of the ecosystem, allowed by the
//     caller ([Options].Allow) and written anew. GET and HEAD only; no body, no
//     query, no header of the client's. A path that is not clean is refused, not
//     cleaned.
//   - The address that was checked is the one that is dialled. Only the registry
//     that the user configured may be on a private address, and only when that was
//     said ([Upstream].Local). Redirects are followed here, under the same check,
//     and a credential goes to the registry's own origin alone.
//   - Index pages are read as data and written again, with every link led back
//     through the front. A file that an index did not name, or that a lock file
//     does not name, is not fetched.
//   - Everything is bounded: the length of a path, each answer, all answers, the
//     time, the connections, the records ([Limits]).
//   - Everything is reported: [Front.Close] ends what is under way and returns each
//     delivery with the digest of what the sandbox got, and each refusal with its
//     code. That list is what was installed. No address of a mirror and no
//     credential is in it.
//
// # What it does not
//
// It does not vouch for content: the client inside holds each file against the
// hash in its lock file. A client that is hostile can still choose which of the
// allowed packages it asks for, and in which order; that is why no foreign code
// runs while this way out is open.
//
// # Failures
//
// Each has a reason code of the domain "registry": refused (nothing was asked of
// anybody), address_refused, unreachable, missing, answer_invalid, too_large,
// incomplete; and unusable, for a configuration ([New], [Discover]). The client gets
// status 403, 404, 405 or 502 with one line of text that says the same. What is no HTTP
// at all is answered with 400 or 431 and is not reported: no registry was asked.
package registry
