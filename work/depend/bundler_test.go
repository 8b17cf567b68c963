package depend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"remit/fixtures/tally"
	"remit/law/task"
	"remit/proof/reason"
	"remit/work/registry"
	"remit/work/sandbox"
)

// gem builds a gem, puts it into a registry, and returns its digest.
func (r *npmRegistry) gem(t testing.TB, name, version, more string, files map[string]string) string {
	t.Helper()
	dir := writeTree(t, t.TempDir(), files)
	spec := "Gem::Specification.new do |s|\n  s.name, s.version, s.summary, s.authors, s.files = '" + name + "', '" + version + "', 'x', ['x'], Dir['**/*']\n" + more + "\nend\n"
	must(t, os.WriteFile(filepath.Join(dir, "x.gemspec"), []byte(spec), 0o600))
	cmd := exec.CommandContext(t.Context(), "gem", "build", "-q", "--norc", "x.gemspec")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir, "SOURCE_DATE_EPOCH=315532800")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("NO RUBYGEMS ON THIS HOST: %v: %s", err, out)
	}
	built, err := filepath.Glob(filepath.Join(dir, "*.gem"))
	if err != nil || len(built) != 1 {
		t.Fatal(built, err)
	}
	text, err := os.ReadFile(built[0])
	must(t, err)
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	r.files["/gems/"+filepath.Base(built[0])] = text
	file := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(built[0]), name+"-"), ".gem")
	index := string(r.files["/info/"+name])
	if index == "" {
		index = "---\n"
	}
	r.files["/info/"+name] = []byte(index + file + " other:>= 0|checksum:" + sum + ",ruby:>= 2.5\n")
	return sum
}

// Gems are found by bundler, by ruby and on the search path, whether the lock file has
// their digests or the registry's index; no Gemfile is read.
func TestBundlerLayer(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 1, 4)
	r := openRegistry(t)
	leaf := r.gem(t, "leaf", "1.0.1", "", map[string]string{"lib/leaf.rb": "module Leaf\n  SAYS = 'leaf'\nend\n"})
	tool := r.gem(t, "tool-kit", "2.0.0.rc1", "  s.bindir, s.executables = 'exe', ['toolkit']\n  s.add_dependency 'leaf', '~> 1.0'", map[string]string{
		"lib/tool/kit.rb": "require 'leaf'\nputs \"kit of #{Leaf::SAYS}\"\n", "exe/toolkit": "#!/usr/bin/env ruby\nrequire 'tool/kit'\nputs 'ran'\n"})
	const before = "GEM\n  remote: https://rubygems.org/\n  specs:\n    leaf (1.0.1)\n    tool-kit (2.0.0.rc1)\n      leaf (~> 1.0)\n\nPATH\n  remote: .\n  specs:\n    own (0.1.0)\n\nPLATFORMS\n  ruby\n  x86_64-linux\n\nDEPENDENCIES\n  tool-kit (= 2.0.0.rc1)\n"
	for name, sums := range map[string]string{
		"with digests": "\nCHECKSUMS\n  leaf (1.0.1) sha256=" + leaf + "\n  own (0.1.0)\n  tool-kit (2.0.0.rc1) sha256=" + tool + "\n",
		"by the index": "\nRUBY VERSION\n   ruby 3.1.2p20\n\nBUNDLED WITH\n   2.3.15\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := Base{Dir: writeTree(t, t.TempDir(), map[string]string{"Gemfile.lock": strings.Replace(before, "PATH\n  remote: .\n  specs:\n    own (0.1.0)\n\n", "", 1) + strings.Replace(sums, "  own (0.1.0)\n", "", 1),
				"Gemfile": "File.write('/workspace/evaluated', 'x') unless ENV['MAY']\nsource 'https://rubygems.org'\ngem 'tool-kit', '= 2.0.0.rc1'\n"}), Tree: "1111111111111111111111111111111111111111"}
			b := openBuilder(t, r.URL, "ruby", "gem")
			env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.Bundler, Dir: "."}}}
			p, err := b.Prepare(context.Background(), env, base)
			must(t, err)
			defer p.Release()
			if d := p.Layers[0].Deliveries; len(d) < 2 || d[len(d)-1].Name != "tool-kit" || d[len(d)-1].Version != "2.0.0.rc1" || d[len(d)-1].SHA256 != "sha256:"+tool && d[len(d)-1].SHA256 != tool {
				t.Errorf("delivered: %+v", d)
			}
			sameElsewhere(t, b, env, base, p)
			var out bytes.Buffer
			run := func(command string, want ...string) {
				t.Helper()
				out.Reset()
				res, err := b.Sandbox.Run(context.Background(), sandbox.Spec{Lower: base.Dir, Layers: p.Mounts(), Env: p.Variables(), PathDirs: p.Programs(),
					Commands: []sandbox.Command{{Argv: []string{"sh", "-c", command}, Stdout: &out, Stderr: &out}}})
				must(t, err)
				for _, w := range want {
					if !strings.Contains(out.String(), w) || res.Commands[0].ExitCode != 0 {
						t.Errorf("exit %d, no %q in\n%s", res.Commands[0].ExitCode, w, out.String())
					}
				}
			}
			run("ruby -e 'require %q(tool/kit)' && toolkit && ls; test ! -e evaluated", "kit of leaf\n", "ran\n")
			if _, err := os.Stat("/usr/bin/bundle"); err != nil {
				t.Skipf("SKIPPED, bundle is not tried with the layer: %v", err)
			}
			run("MAY=1 bundle exec toolkit", "kit of leaf\nran\n")
		})
	}
}

// A lock file without gems of the registry makes a layer without one, and a gem whose
// program would come before that of the system makes none.
func TestBundlerPrograms(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	const head = "GEM\n  remote: https://rubygems.org/\n  specs:\n"
	b := openBuilder(t, r.URL, "ruby", "gem")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.Bundler, Dir: "."}}}
	base := func(lock string) Base {
		return Base{Dir: writeTree(t, t.TempDir(), map[string]string{"Gemfile.lock": lock}), Tree: "1111111111111111111111111111111111111111"}
	}
	p, err := b.Prepare(context.Background(), env, base("PATH\n  remote: .\n  specs:\n    own (1)\n\n"+head+"\nPLATFORMS\n  ruby\n"))
	must(t, err)
	defer p.Release()
	exe := map[string]string{"exe/grep": "#!/usr/bin/env ruby\n", "exe/http-2": "#!/usr/bin/env ruby\n"}
	r.gem(t, "http-2", "0.11.0", "  s.bindir, s.executables = 'exe', ['http-2']", exe)
	q, err := b.Prepare(context.Background(), env, base(head+"    http-2 (0.11.0)\n"))
	must(t, err)
	defer q.Release()
	if d := q.Layers[0].Deliveries; len(d) != 1 || d[0].Name != "http-2" || d[0].Version != "0.11.0" {
		t.Errorf("delivered: %+v", d)
	}
	r.gem(t, "shadow", "1.0", "  s.bindir, s.executables = 'exe', ['grep']", exe)
	if _, err := b.Prepare(context.Background(), env, base(head+"    shadow (1.0)\n")); reason.CodeOf(err) != reason.LayerRefused || !strings.Contains(err.Error(), `"grep"`) {
		t.Errorf("got %v", err)
	}
}

// What is not locked, or is another file than was locked, makes no layer.
func TestBundlerFetch(t *testing.T) {
	t.Parallel()
	r := openRegistry(t)
	text := []byte("a gem")
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	r.files["/gems/leaf-1.0.gem"], r.files["/gems/other-1.gem"] = text, text
	r.files["/info/leaf"] = []byte("---\n0.9 |checksum:" + sum + "\n1.0 a:>= 1|checksum:" + sum + ",ruby:>= 2\n1.0-java |checksum:" + strings.Repeat("0", 64) + "\n")
	r.files["/info/other"] = []byte("---\n1 |checksum:" + strings.Repeat("0", 64) + "\n")
	r.files["/info/page"] = []byte("<html>sign in</html>")
	lock := func(gem, digest string) string {
		return "GEM\n  remote: https://rubygems.org/\n  specs:\n    " + gem + "\n\nCHECKSUMS\n  " + gem + digest + "\n"
	}
	for name, test := range map[string]struct {
		lock string
		code reason.Code
	}{
		"by its digest":       {lock("leaf (1.0)", " sha256="+sum), ""},
		"by the index":        {lock("leaf (1.0)", ""), ""},
		"another digest":      {lock("leaf (1.0)", " sha256="+strings.Repeat("0", 64)), reason.RegistryAnswer},
		"another in an index": {lock("other (1)", ""), reason.RegistryAnswer},
		"not in the index":    {lock("leaf (2.0)", ""), reason.RegistryMissing},
		"no index":            {lock("page (1)", ""), reason.RegistryAnswer},
		"not there":           {lock("none (1)", " sha256="+sum), reason.RegistryMissing},
	} {
		b := &Builder{Upstream: func(context.Context, registry.Ecosystem) (registry.Upstream, error) {
			return registry.Upstream{URL: r.URL, Local: true}, nil
		}}
		p := task.Prepare{Ecosystem: task.Bundler, Dir: "."}
		plan, err := planOf(os.DirFS(writeTree(t, t.TempDir(), map[string]string{"Gemfile.lock": test.lock})), p, func() []string { return nil })
		if err == nil {
			_, _, err = b.bundler(context.Background(), p, plan, t.TempDir())
		}
		if reason.CodeOf(err) != test.code || err != nil && test.code == "" {
			t.Errorf("%s: got %v, want %q", name, err, test.code)
		}
	}
}

func TestGemfileLockIsData(t *testing.T) {
	t.Parallel()
	const head = "GEM\n  remote: https://rubygems.org/\n  specs:\n"
	here, other := gemPlatforms[runtime.GOARCH][0], "riscv64-linux"
	for name, test := range map[string]struct {
		lock string
		want string // files of gems, or a code
	}{
		"control":              {head + "    a (1.0)\n      b (>= 1)\n    b (2.3.4.pre)\n", "a-1.0.gem b-2.3.4.pre.gem"},
		"of this machine":      {head + "    a (1.0)\n    a (1.0-" + here + ")\n    a (1.0-" + other + ")\n    a (1.0-java)\n", "a-1.0-" + here + ".gem"},
		"of source":            {head + "    a (1.0)\n    a (1.0-" + other + ")\n", "a-1.0.gem"},
		"for others only":      {head + "    a (1.0-" + other + ")\n", string(reason.EnvironmentUnavailable)},
		"CRLF":                 {strings.ReplaceAll(head+"    a (1.0)\n", "\n", "\r\n"), "a-1.0.gem"},
		"of the repository":    {"PATH\n  remote: engines/own\n  specs:\n    own (1)\n\n" + head + "    a (1.0)\n", "a-1.0.gem"},
		"from git":             {"GIT\n  remote: https://github.com/a/b\n  revision: 1\n  specs:\n    b (1)\n\n" + head + "    a (1.0)\n", string(reason.DependencyRefused)},
		"plugins":              {head + "    a (1.0)\n\nPLUGIN SOURCE\n  remote: x\n", string(reason.DependencyRefused)},
		"outside":              {"PATH\n  remote: ../own\n  specs:\n    own (1)\n\n" + head + "    a (1.0)\n", string(reason.DependencyRefused)},
		"outside, absolute":    {"PATH\n  remote: /etc\n  specs:\n    own (1)\n\n" + head + "    a (1.0)\n", string(reason.DependencyRefused)},
		"another registry":     {strings.Replace(head, "rubygems.org", "evil.example", 1) + "    a (1.0)\n", string(reason.DependencyRefused)},
		"a user of it":         {strings.Replace(head, "rubygems.org", "u:p@rubygems.org", 1) + "    a (1.0)\n", string(reason.DependencyRefused)},
		"one of the user's":    {strings.Replace(head, "rubygems.org", "mine.example", 1) + "    a (1.0)\n", "a-1.0.gem"},
		"a second registry":    {head + "    a (1.0)\n\nGEM\n  remote: https://evil.example/\n  specs:\n    b (1)\n", string(reason.DependencyRefused)},
		"nothing":              {"DEPENDENCIES\n  a\n", string(reason.LockFileInvalid)},
		"no gem":               {"GEM\n  remote: https://rubygems.org/\n  specs:\n\nPLATFORMS\n  ruby\n", ""},
		"of the tree alone":    {"PATH\n  remote: .\n  specs:\n    own (1)\n", ""},
		"a blank at the end":   {strings.Replace(head, "org/\n", "org/ \n", 1) + "    a (1.0)\n", string(reason.LockFileInvalid)},
		"no remote":            {"GEM\n  specs:\n    a (1.0)\n", string(reason.LockFileInvalid)},
		"a lone mark":          {head + "    a (1.0)\n=======\n    b (1)\n", string(reason.LockFileInvalid)},
		"a merge":              {head + "<<<<<<< HEAD\n    a (1.0)\n", string(reason.LockFileInvalid)},
		"a path as a name":     {head + "    ../a (1.0)\n", string(reason.LockFileInvalid)},
		"dots in a name":       {head + "    a..b (1.0)\n", string(reason.LockFileInvalid)},
		"a path as a version":  {head + "    a (1/../2)\n", string(reason.LockFileInvalid)},
		"an option as a name":  {head + "    --install-dir (1)\n", string(reason.LockFileInvalid)},
		"words as a name":      {head + "    a b (1)\n", string(reason.LockFileInvalid)},
		"a range":              {head + "    a (>= 1)\n", string(reason.LockFileInvalid)},
		"a digest of another":  {head + "    a (1)\n\nCHECKSUMS\n  a (1) md5=1\n", string(reason.LockFileInvalid)},
		"too many":             {head + strings.Repeat("    a (1)\n", 3) + gems(maxGems), string(reason.LockFileInvalid)},
		"control bytes":        {head + "    a\x1b (1)\n", string(reason.LockFileInvalid)},
		"a version as a name":  {head + "    1 (1)\n", "1-1.gem"},
		"a number in the name": {head + "    sass-3 (1.2)\n", "sass-3-1.2.gem"},
	} {
		plan, err := planOf(os.DirFS(writeTree(t, t.TempDir(), map[string]string{"Gemfile.lock": test.lock})), task.Prepare{Ecosystem: task.Bundler, Dir: "."},
			func() []string { return []string{"mine.example"} })
		got := string(reason.CodeOf(err))
		if err == nil {
			for _, g := range plan.gems {
				got += " " + g.file()
			}
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s: got %q (%v), want %q", name, got, err, test.want)
		}
	}
}

func gems(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "    g%d (1)\n", i)
	}
	return b.String()
}
