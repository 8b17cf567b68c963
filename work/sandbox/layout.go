//go:build linux

package sandbox

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"remit/proof/form"
)

// Where things stand inside the sandbox.
const (
	insideHome     = "/tmp/home"
	insideGoCache  = "/cache/go-build"
	insideModCache = "/cache/go-mod"
	insideGoRoot   = "/toolchain/go"
)

// runUID and runGID are what a command sees as its identity.
const runUID, runGID = 64242, 64242

// stage is where the keeper, in its own mount namespace, covers an existing
// directory with its mounts. Everything below exists in that namespace only.
const (
	stage          = "/tmp"
	stageDisk      = stage + "/disk"         // the sized tmpfs
	stageLower     = stage + "/lower"        // clone of Spec.Lower
	stageLayers    = stage + "/layers"       // numbered clones of Spec.Layers
	stageWorkspace = stage + "/ws"           // what the commands see as WorkspacePath
	stageUpper     = stageDisk + "/up"       // upper layer of the workspace
	stageServed    = stage + "/served"       // what services see as WorkspacePath
	stageTheirs    = stage + "/theirs"       // clone of Spec.ServedTree
	stageServices  = stageDisk + "/services" // numbered places of services
	stageEtc       = stage + "/etc"
	stageEmpty     = stage + "/empty"
	stageGoCache   = stage + "/gocache"  // numbered clones of the lent ones and Remit's own, below the overlay
	stageModCache  = stage + "/modcache" // clone of the user's Go module cache, never shown itself
	stageModules   = stage + "/modules"  // the part of it that is lent
	stageSystem    = stage + "/system"   // numbered views of what every command sees of the host
	stageMounts    = stage + "/mnt"      // numbered views of everything else
	stageBelow     = stage + "/below"    // numbered clones below those views
	stageTerminals = stage + "/pts"      // pseudo-terminals
	stageMask      = stage + "/mask"     // an empty file, over what no process inside may read
)

// etcFromHost is what a program may need of /etc to start at all, as patterns of
// names; nothing else of it is visible. Debian and Fedora keep there what Java and
// Maven have beside their programs, as links from /usr. Maven's settings are not
// among it: they may hold passwords.
var etcFromHost = []string{"ld.so.cache", "alternatives", "ssl/certs", "ssl/openssl.cnf", "java-*-openjdk", "java/java-*-openjdk", "maven/m2.conf", "maven/logging"}

// etcPlaces are the names that this host has of etcFromHost.
func etcPlaces() []string { return belowEtc(etcFromHost...) }

// belowEtc are the names below /etc that match patterns, which are well-formed.
func belowEtc(patterns ...string) (names []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join("/etc", pattern))
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f, "/etc/"))
		}
	}
	return names
}

// phpModules is where Debian says which modules the php of the command line loads, as a
// pattern of names below /etc. phpModule is such a line: nothing else of these files is
// shown, as modules of services keep their keys there.
const phpModules = "php/*/cli/conf.d/*.ini"

var phpModule = form.Lazy(`(?m)^[ \t]*(?:zend_)?extension[ \t]*=[ \t]*"?[A-Za-z0-9_.-]+"?[ \t]*$`)

// modulesOnly is what is shown of such a file.
func modulesOnly(text []byte) string {
	var out strings.Builder
	for _, line := range phpModule().FindAll(text, -1) {
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.String()
}

// masked are files of /proc that an empty one covers. Process 1 inside is
// bwrap's, of the same user as the command: who writes to its memory forges what
// it reports. Keys are the user's, and their names tell about the host.
var masked = []string{"/proc/1/mem", "/proc/1/task/1/mem", "/proc/keys", "/proc/key-users"}

// systemDirs are the program directories of the root. On a merged-usr host they
// are links into /usr, which stay links inside.
var systemDirs = []string{"bin", "sbin", "lib", "lib64", "lib32", "libx32"}

// view is what bwrap needs to know to build the mounts of one command.
type view struct {
	Dir     string
	Env     map[string]string
	Tmp     string            // host directory that becomes /tmp
	Tree    string            // host directory that becomes the workspace
	GoCache string            // host directory that becomes the build cache
	Binds   []Bind            // staged, read-only
	System  []Bind            // staged, read-only: what every command sees of the host
	Links   map[string]string // links of the root into /usr
	Image   string            // the root itself, "" where it is made of System and Links
	As      identity          // of the command, inside
	Masked  []string          // files of /proc that no process inside may read
	Seccomp int               // descriptor of the filter, 0 for none
	Status  int               // descriptor for the JSON status
	// TreeReadOnly has the workspace be read only.
	TreeReadOnly bool
	KeepNet      bool // stay in the keeper's network namespace, which then is the sandbox's
}

// shmBytes sizes /dev/shm.
const shmBytes = 16 << 20

// bwrapArgs returns the options. Order matters: a mount sits
// on those before it, and the root is made read-only last.
func bwrapArgs(v view) []string {
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
		"--uid", strconv.Itoa(v.As.uid), "--gid", strconv.Itoa(v.As.gid),
		"--die-with-parent", "--new-session", "--hostname", "sandbox",
		"--json-status-fd", strconv.Itoa(v.Status), "--clearenv",
	}
	if v.KeepNet {
		args = append(args, "--share-net")
	}
	for _, name := range slices.Sorted(maps.Keys(v.Env)) {
		args = append(args, "--setenv", name, v.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(v.Links)) {
		args = append(args, "--symlink", v.Links[name], name)
	}
	if v.Image != "" {
		args = append(args, "--ro-bind", v.Image, "/")
	} else {
		args = append(args, "--ro-bind", stageEtc, "/etc")
	}
	for _, b := range v.System {
		args = append(args, "--ro-bind", b.Host, b.Inside)
	}
	args = append(args, "--proc", "/proc")
	for _, path := range v.Masked {
		args = append(args, "--ro-bind", stageMask, path)
	}
	args = append(args, "--dev", "/dev", "--dev-bind", stageTerminals, "/dev/pts",
		"--size", strconv.Itoa(shmBytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--bind", v.Tmp, "/tmp", "--bind", v.GoCache, insideGoCache)
	for _, b := range v.Binds {
		args = append(args, "--ro-bind", b.Host, b.Inside)
	}
	workspace := "--bind"
	if v.TreeReadOnly {
		workspace = "--ro-bind"
	}
	args = append(args, workspace, v.Tree, WorkspacePath, "--remount-ro", "/",
		"--chdir", filepath.Join(WorkspacePath, v.Dir))
	if v.Seccomp > 0 {
		args = append(args, "--seccomp", strconv.Itoa(v.Seccomp))
	}
	return args
}

// systemPlaces finds the program directories next to /usr: links, and where a
// host has no merged /usr directories.
func systemPlaces(root string) (links map[string]string, dirs []string) {
	links = map[string]string{}
	for _, name := range systemDirs {
		host := filepath.Join(root, name)
		if target, err := os.Readlink(host); err == nil {
			links["/"+name] = target
		} else if info, err := os.Stat(host); err == nil && info.IsDir() {
			dirs = append(dirs, host)
		}
	}
	return links, dirs
}

// nulJoin encodes args for bwrap's --args.
func nulJoin(args []string) []byte {
	var out bytes.Buffer
	for _, a := range args {
		out.WriteString(a)
		out.WriteByte(0)
	}
	return out.Bytes()
}

// etcFiles are the files of /etc that we write ourselves. Without hosts and
// nsswitch the name localhost does not resolve.
func etcFiles() map[string]string {
	return map[string]string{
		"hosts":         "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"passwd": "root:x:0:0:root:/:/usr/sbin/nologin\n" +
			fmt.Sprintf("remit:x:%d:%d:remit:%s:/bin/sh\n", runUID, runGID, insideHome) +
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		"group": "root:x:0:\n" + fmt.Sprintf("remit:x:%d:\n", runGID) + "nogroup:x:65534:\n",
	}
}

// The values of Result.Layer.
const (
	layerOverlay = "overlay"
	layerCopy    = "copy"
)
