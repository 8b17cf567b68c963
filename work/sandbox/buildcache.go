package sandbox

import (
	"os"
	"path/filepath"
)

// BuildCache is Remit's own Go build cache: the standard library, compiled once
// for each Go version. The sandbox never shows the user's, which holds object
// code and test output of every project on the machine; this one holds the
// standard library and nothing else. A Run that needs it fills it first.
//
//	DIR/go1.26.8/go-build   what is lent, read-only
//	DIR/go1.26.8/filled     written last: the cache is whole
//	DIR/go1.26.8/lock       locked by the process that fills it
//
// A fill that was cut off leaves no file "filled". The next one begins again and
// keeps what is there: the go command never takes half an entry for a whole one.
type BuildCache struct {
	// Dir is an absolute path, "" the cache of this login.
	Dir string
	// Tell, when not nil, gets one line each when a fill begins, goes on and
	// has ended. Commands that go on at once may call it at once.
	Tell func(line string)
}

// CacheState is what a build cache has for the Go installation of this machine.
type CacheState struct {
	Go     string // "go1.26.8", "" where there is no Go to fill it for
	Dir    string // of BuildCache, resolved
	Filled bool
	Bytes  int64 // of all Go versions
	// Old is a cache where earlier versions of Remit kept it, outside of their
	// home; "" for none. Nothing uses it but a first fill.
	Old string
}

// EnvBuildCache names the variable that has the directory of a build cache for
// several homes.
const EnvBuildCache = "REMIT_GOCACHE"

// ofLogin is the place of the cache for programs that have no home of Remit.
func ofLogin() string {
	if dir := os.Getenv(EnvBuildCache); filepath.IsAbs(dir) {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "remit", "gocache")
}

// tell passes a line on if Tell is set.
func (c BuildCache) tell(line string) {
	if c.Tell != nil {
		c.Tell(line)
	}
}
