//go:build linux

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindToolchain(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE", "XDG_CACHE_HOME", "PATH", EnvBuildCache} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	got, err := findToolchain(nil, BuildCache{})
	if err != nil || len(got.binds) > 0 || got.goCache != "" || got.env["GOMODCACHE"] != "" {
		t.Errorf("empty home: %+v, %v", got, err)
	}
	write(t, home+"/go/pkg/mod/cache/x", "")
	// The user's build cache holds other projects' code and test output: it is never lent.
	write(t, home+"/.cache/go-build/README", "")
	if got, err = findToolchain(nil, BuildCache{}); err != nil || got.goCache != "" {
		t.Errorf("the user's Go build cache is lent: %+v, %v", got, err)
	}
	write(t, home+"/sdk/go1.26/VERSION", "go1.26\ntime 2026\n")
	write(t, home+"/sdk/go1.26/pkg/tool/x", "")
	write(t, home+"/sdk/go1.26/bin/go", "#!/bin/sh\n")
	write(t, home+"/node/bin/node", "")
	must(t, os.Chmod(home+"/sdk/go1.26/bin/go", 0o755))
	must(t, os.MkdirAll(home+"/bin", 0o755))
	must(t, os.Symlink("../sdk/go1.26/bin/go", home+"/bin/go"))
	t.Setenv("PATH", home+"/bin")
	got, err = findToolchain([]string{home + "/node"}, BuildCache{})
	must(t, err)
	real, err := filepath.EvalSymlinks(home)
	must(t, err)
	want := []Bind{{real + "/node", home + "/node"}, {real + "/sdk/go1.26", insideGoRoot}}
	if !slices.Equal(got.binds, want) || got.goCache != real+"/.cache/remit/gocache/go1.26/go-build" || got.modCache != real+"/go/pkg/mod" || !slices.Equal(got.pathDirs, []string{home + "/node/bin", insideGoRoot + "/bin"}) {
		t.Errorf("%+v", got)
	}
	t.Setenv("GOMODCACHE", "off") // not a path
	t.Setenv("GOPATH", home+"/gp:"+home+"/other")
	write(t, home+"/gp/pkg/mod/x", "")
	if got, err = findToolchain(nil, BuildCache{}); err != nil || got.modCache != real+"/gp/pkg/mod" {
		t.Errorf("GOPATH: %+v, %v", got, err)
	}
}

func TestToolchainInside(t *testing.T) {
	t.Parallel()
	open1(t)
	dir := t.TempDir()
	write(t, dir+"/bin/mytool", "#!/bin/sh\necho mine\n")
	must(t, os.Chmod(dir+"/bin/mytool", 0o755))
	tools, err := findToolchain([]string{dir}, BuildCache{})
	must(t, err)
	d := &bwrap{path: open1(t).path, tools: tools}
	write(t, dir+"/flat/mine", "#!/bin/sh\necho flat\n") // a directory without bin is put on PATH itself
	must(t, os.Chmod(dir+"/flat/mine", 0o755))
	flat, err := findToolchain([]string{dir + "/flat"}, BuildCache{})
	must(t, err)
	if o := shell(t, &bwrap{path: d.path, tools: flat}, Spec{}, "mine"); o.out != "flat\n" {
		t.Errorf("a toolchain without bin: %q", o.out)
	}
	o := shell(t, d, Spec{}, `mytool; (echo x >>`+dir+`/bin/mytool) 2>/dev/null && exit 1; ls `+filepath.Dir(dir))
	if lines := strings.Fields(o.out); len(lines) != 2 || lines[0] != "mine" || lines[1] != filepath.Base(dir) {
		t.Errorf("output %q", o.out)
	}
}

// The options are the sandbox: a change here is a change of the walls.
func TestBwrapArgs(t *testing.T) {
	t.Parallel()
	got := strings.Join(bwrapArgs(view{
		Dir: "sub", Env: map[string]string{"B": "2", "A": "1"}, Tree: "/tmp/ws", Tmp: "/tmp/disk/tmp", GoCache: "/tmp/disk/go-build",
		Binds: []Bind{{"/tmp/mnt/0", "/opt/x"}}, System: []Bind{{"/tmp/system/0", "/usr"}, {"/tmp/system/1", "/etc/ssl/certs"}},
		Links: map[string]string{"/lib": "usr/lib", "/bin": "usr/bin"}, Masked: []string{"/proc/keys"}, Seccomp: 5, Status: 4, As: identity{uid: 64242, gid: 64242},
	}), " ")
	want := "--unshare-all --unshare-user --disable-userns --cap-drop ALL --uid 64242 --gid 64242 --die-with-parent --new-session --hostname sandbox" +
		" --json-status-fd 4 --clearenv --setenv A 1 --setenv B 2 --symlink usr/bin /bin --symlink usr/lib /lib" +
		" --ro-bind /tmp/etc /etc --ro-bind /tmp/system/0 /usr --ro-bind /tmp/system/1 /etc/ssl/certs --proc /proc --ro-bind /tmp/mask /proc/keys" +
		" --dev /dev --dev-bind /tmp/pts /dev/pts --size 16777216 --tmpfs /dev/shm --remount-ro /dev" +
		" --bind /tmp/disk/tmp /tmp --bind /tmp/disk/go-build /cache/go-build --ro-bind /tmp/mnt/0 /opt/x --bind /tmp/ws /workspace" +
		" --remount-ro / --chdir /workspace/sub --seccomp 5"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	root := t.TempDir()
	must(t, os.MkdirAll(root+"/usr/bin", 0o755))
	must(t, os.Symlink("usr/bin", root+"/bin"))
	must(t, os.Mkdir(root+"/lib", 0o755))
	if links, dirs := systemPlaces(root); len(links) != 1 || links["/bin"] != "usr/bin" || !slices.Equal(dirs, []string{root + "/lib"}) {
		t.Errorf("links %q, directories %q", links, dirs)
	}
}

func TestSignalNames(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{0: "", 1: "", 127: "", 128: "", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 128 + 40: "SIG40", 255: "", -1: ""} {
		if got := signalName(code); got != want {
			t.Errorf("%d: %q", code, got)
		}
	}
}

// Of the configuration that Java and Maven have below /etc a command sees what they
// need to start, and not the settings that may hold a password.
func TestConfigurationOfJava(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/etc/maven/m2.conf"); err != nil {
		t.Skip("NOT INSTALLED: maven")
	}
	o := shell(t, open1(t), Spec{}, `mvn -v >/dev/null 2>&1 && ls /etc/maven && cd "$(dirname "$(readlink -f "$(command -v java)")")/../conf" && grep -q ^security.provider security/java.security`)
	if o.out != "logging\nm2.conf\n" {
		t.Errorf("output %q", o.out)
	}
}

// TestModulesOfPHP: php loads the modules that the host has it load, and of their files
// nothing else is shown.
func TestModulesOfPHP(t *testing.T) {
	t.Parallel()
	const own = "; the agent of a service\nextension = apm.so\nzend_extension=\"opcache\"\napm.key = secret\nextension=/home/x/evil.so\nextension=a.so secret\n"
	if got := modulesOnly([]byte(own)); got != "extension = apm.so\nzend_extension=\"opcache\"\n" {
		t.Errorf("shown: %q", got)
	}
	if len(belowEtc(phpModules)) == 0 {
		t.Skip("NOT INSTALLED: php")
	}
	host, err := exec.Command("php", "-n", "-r", `foreach (glob("/etc/php/" . PHP_MAJOR_VERSION . "." . PHP_MINOR_VERSION . "/cli/conf.d/*.ini") as $f) { foreach (file($f) as $l) { if (preg_match('/^extension=([a-z]+)/', $l, $m)) echo $m[1], "\n"; } }`).Output()
	if err != nil {
		t.Fatal(err)
	}
	o := shell(t, open1(t), Spec{}, "php -m && ls /etc/php/*/cli && cat /etc/php/*/cli/conf.d/*.ini")
	for name := range strings.FieldsSeq(string(host)) {
		if !strings.Contains(strings.ToLower(o.out), "\n"+name+"\n") {
			t.Errorf("the module %s is not loaded:\n%s", name, o.out)
		}
	}
	if strings.Contains(o.out, "priority") || strings.Contains(o.out, "php.ini") {
		t.Errorf("more is shown:\n%s", o.out)
	}
}
