// Package image gets the system layer of an environment: an OCI image, checked,
// unpacked once and kept by digest, whose layers a sandbox stacks as its root.
//
// # From a name to directories
//
// [Store.Pull] takes a reference: NAME@sha256:…, NAME:TAG, oci:DIR,
// oci-archive:FILE or docker-archive:FILE. A tag is resolved once, and what it
// meant is recorded. A manifest is held against its digest before it is read. A
// blob is downloaded whole and held against digest and size before a byte of it is
// parsed. A layer is unpacked once by its diff id, which is checked over the whole
// uncompressed stream, into a directory that is renamed into its place at the end.
// One pull works at a time in a store. What a crash leaves is in the staging
// directory, and the next pull removes it.
//
// # What becomes of a layer
//
// Everything is written through os.Root. Links in the way of an entry are
// resolved by the rules of the image's own root; a way that leaves it is refused.
// Whiteouts become character devices 0/0 and opaque directories get
// user.overlay.opaque: an ordinary user can make both, and a stack of layers has
// to be mounted with userxattr. A whiteout hides what is below its layer, never
// what is in it, in whatever order the two come.
//
// Kept are directories, files, links, their times and the nine bits of their
// modes without write access for others than the owner. Times are kept because
// compiled files name the time of their source. Not kept are owners (everything
// belongs to the user of the store), set-id bits, extended attributes (an entry
// could otherwise be an overlay mark of its own making), devices and FIFOs; what
// was dropped is counted.
//
// # Credentials
//
// They come from the user's docker configuration by its own rules, stay in the
// HTTP client, and appear in no error: what a registry says is bounded and
// escaped, and addresses lose query and user.
//
// # Failure modes
//
// Each refusal has a code of its own in the domain image of docs/reasons.md, and
// leaves nothing in the store. What was changed on disk after it was unpacked is
// seen by [Store.Find], by inode and time of change, and refused.
package image
