//go:build !crashpoints

package journal

// crash does nothing: what is shipped has no way to be killed from outside.
func crash(crashPlace, int64, storage, []byte) {}
