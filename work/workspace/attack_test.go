package workspace

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/work/git"
	"remit/work/tree"
)

// trap is a repository that names a program at every place where git would start one. Each program leaves a file
// with the name of its place in a directory: the canary.
type trap struct {
	*repo
	canary, program string
}

// hookNames are all hooks that git knows.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "post-index-change", "fsmonitor-watchman",
}

// settings of the trap; %s is the command line that leaves a canary, and the key follows as its argument.
var trapSettings = []string{
	"core.fsmonitor", "core.editor", "core.askPass", "core.pager", "core.sshCommand", "core.gitProxy", "core.alternateRefsCommand", "sequence.editor",
	"filter.x.clean", "filter.x.smudge", "diff.external", "diff.x.command", "diff.x.textconv", "merge.x.driver", "merge.tool", "mergetool.x.cmd",
	"difftool.x.cmd", "gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "credential.helper", "uploadpack.packObjectsHook",
	"gc.recentObjectsHook", "interactive.diffFilter", "trailer.x.command", "trailer.x.cmd", "tar.x.command", "remote.origin.uploadpack",
	"remote.origin.receivepack", "remote.evil.uploadpack", "submodule.mod.update", "browser.x.cmd", "man.x.cmd", "instaweb.httpd", "help.browser",
	"pager.diff-tree", "pager.cat-file", "sendemail.toCmd", "imap.tunnel", "core.sshVariant", "guitool.x.cmd", "web.browser",
	"alias.diff-tree", "alias.cat-file", "alias.rev-parse", "alias.fast-import", "alias.index-pack", "alias.apply", "alias.check-ignore", "alias.update-ref",
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	home := t.TempDir()
	tr := &trap{canary: filepath.Join(home, "canary"), program: filepath.Join(home, "leave")}
	if err := os.Mkdir(tr.canary, 0o777); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nPATH=/usr/bin:/bin\ncase \"$1\" in /*|.*|'') set -- other;; esac\n: >" + tr.canary + "/\"$1\"\nexit 1\n"
	if err := os.WriteFile(tr.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	tr.repo = simple(t)
	tr.write("text", "one\n")
	tr.write(".gitignore", "*.ignored\n")
	tr.commit()
	sub := simple(t)
	tr.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub.dir, "mod")
	tr.write(".gitattributes", "* filter=x diff=x merge=x\n")
	tr.commit()
	tr.git("branch", "other")
	tr.git("worktree", "add", "-q", "--detach", filepath.Join(home, "linked"))
	tr.write("untracked/nested/x", "")
	nested := newRepoAt(t, tr.path("untracked/nested"))
	tr.arm(tr.path(".git"))
	tr.arm(tr.path(".git/modules/mod"))
	tr.arm(nested.path(".git"))
	tr.write("text", "two\n") // the index is stale: git must look at the content
	if err := os.Chtimes(tr.path("a file"), someTime, someTime); err != nil {
		t.Fatal(err)
	}
	return tr
}

// arm writes the configuration, hooks and attributes of a git directory.
func (tr *trap) arm(dir string) {
	tr.t.Helper()
	var all strings.Builder
	for _, key := range trapSettings {
		section, name := key[:strings.LastIndex(key, ".")], key[strings.LastIndex(key, ".")+1:]
		head, sub, ok := strings.Cut(section, ".")
		if ok {
			head += ` "` + sub + `"`
		}
		bang := ""
		if head == "alias" || strings.HasPrefix(head, "credential") || strings.HasPrefix(head, "submodule") {
			bang = "!"
		}
		fmt.Fprintf(&all, "[%s]\n\t%s = \"%s%s %s\"\n", head, name, bang, tr.program, key)
	}
	all.WriteString("[filter \"x\"]\n\trequired = true\n[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n" +
		"[extensions]\n\tworktreeConfig = true\n[protocol]\n\tallow = always\n[protocol \"ext\"]\n\tallow = always\n" +
		"[remote \"evil\"]\n\turl = \"ext::" + tr.program + " ext\"\n\tpromisor = true\n\tfetch = +refs/heads/*:refs/remotes/evil/*\n" +
		"[remote \"origin\"]\n\turl = \"ext::" + tr.program + " ext\"\n[core]\n\tlogAllRefUpdates = always\n\tbigFileThreshold = 1\n" +
		"[core]\n\thooksPath = " + dir + "/myhooks\n[include]\n\tpath = more\n[includeIf \"gitdir:**\"]\n\tpath = more\n[rerere]\n\tenabled = true\n")
	more := "[core]\n\tfsmonitor = \"" + tr.program + " included\"\n[filter \"x\"]\n\tprocess = \"" + tr.program + " filter.x.process\"\n"
	appendTo(tr.t, filepath.Join(dir, "config"), all.String())
	appendTo(tr.t, filepath.Join(dir, "more"), more)
	appendTo(tr.t, filepath.Join(dir, "config.worktree"), "[core]\n\tfsmonitor = \""+tr.program+" config.worktree\"\n")
	appendTo(tr.t, filepath.Join(dir, "info", "attributes"), "* filter=x diff=x merge=x\n")
	for _, hooks := range []string{"hooks", "myhooks"} {
		for _, hook := range hookNames {
			name := filepath.Join(dir, hooks, hook)
			os.MkdirAll(filepath.Dir(name), 0o755)
			if err := os.WriteFile(name, []byte("#!/bin/sh\nexec "+tr.program+" hook."+hook+"\n"), 0o755); err != nil {
				tr.t.Fatal(err)
			}
		}
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	os.MkdirAll(filepath.Dir(name), 0o755)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// sprung returns what was executed since the last call.
func (tr *trap) sprung() []string {
	tr.t.Helper()
	var names []string
	entries, err := os.ReadDir(tr.canary)
	if err != nil {
		tr.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		os.Remove(filepath.Join(tr.canary, e.Name()))
	}
	return names
}

// surround makes the environment of this process hostile too: what it holds must not reach git.
func (tr *trap) surround(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	os.Mkdir(bin, 0o755)
	for _, name := range []string{"git", "cat", "sh", "false", "ssh"} {
		os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec "+tr.program+" path."+name+"\n"), 0o755)
	}
	config := "[core]\n\tfsmonitor = " + tr.program + " home\n\thooksPath = " + tr.path(".git/myhooks") + "\n"
	os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o644)
	for name, value := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": home, "PATH": bin + ":.:" + os.Getenv("PATH"),
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": tr.program + " env",
		"GIT_CONFIG_GLOBAL": home + "/.gitconfig", "GIT_EXTERNAL_DIFF": tr.program + " env.diff", "GIT_EXEC_PATH": bin, "GIT_SSH_COMMAND": tr.program,
		"GIT_TRACE": tr.canary + "/trace", "GIT_DIR": tr.path(".git"), "GIT_WORK_TREE": tr.dir, "GIT_INDEX_FILE": tr.path(".git/index"),
		"GIT_PAGER": tr.program, "GIT_EDITOR": tr.program, "GIT_TEMPLATE_DIR": tr.path(".git"), "GIT_ASKPASS": tr.program,
	} {
		t.Setenv(name, value)
	}
}

// The trap works: plain git falls into it.
func TestTheTrapCatchesPlainGit(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "fsmonitor"},
		{[]string{"add", "text"}, "filter"},
		{[]string{"update-ref", "refs/heads/x", "HEAD"}, "hook.reference-transaction"},
		{[]string{"-c", "filter.x.process=", "-c", "filter.x.clean=cat", "-c", "filter.x.required=false", "diff", "--no-ext-diff"}, "diff.x.textconv"},
		{[]string{"-c", "filter.x.process=", "-c", "filter.x.clean=cat", "-c", "filter.x.required=false", "diff"}, "diff"},
		{[]string{"checkout", "-f", "other"}, "filter"},
		{[]string{"fetch", "evil"}, "ext"},
	} {
		tr.sprung()
		_, _ = tr.tryGit(test.args...) // the programs fail, so git does
		got := tr.sprung()
		if !slices.ContainsFunc(got, func(s string) bool {
			return strings.Contains(s, test.want) || test.want == "fsmonitor" && (s == "included" || s == "config.worktree")
		}) {
			t.Errorf("git %v: %v ran, not %s", test.args, got, test.want)
		}
	}
}

// pure lists what takes no repository, and lends nothing to git. Everything else that the two packages export must be
// walked; see TestNothingOfARepositoryIsExecuted.
var pure = []string{
	"git.Find", "git.Format.EmptyTree", "git.Format.IsID", "git.Format.NewHash", "git.Format.Size", "git.Format.ScanPack", "git.Format.Sum", "git.Format.Valid", "git.Format.Zero",
	"git.FormatOf", "git.Hex", "git.ValidBranch", "git.ValidRef", "git.Error.Error", "git.Error.Unwrap", "git.Dir.ObjectsDir", "git.Dir.Packs",
	"workspace.CheckPath", "workspace.OpenCache", "workspace.Fingerprint.Compare",
	"workspace.Source.Bare", "workspace.Source.Common", "workspace.Source.Root", "workspace.Source.GitDir", "workspace.Source.Format", "workspace.Source.Remote",
	"workspace.Store.Baseline", "workspace.Looked.Dir",
}

func TestNothingOfARepositoryIsExecuted(t *testing.T) { // not parallel: it changes the environment
	tr := newTrap(t)
	tr.surround(t)
	walked := map[string]bool{}
	walk := func(name string, f func() error) {
		t.Helper()
		walked[name] = true
		err := f()
		if got := tr.sprung(); len(got) > 0 {
			t.Errorf("%s executed %v", name, got)
		}
		t.Logf("%s: %v", name, err)
	}
	src, err := OpenSource(t.Context(), tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	untouched(t, src, func() { tr.walkWorkspace(t, tr.dir, walk, false) })
	for _, path := range []string{tr.dir, filepath.Join(filepath.Dir(tr.canary), "linked"), tr.path(".git"), tr.path("mod")} {
		tr.walkWorkspace(t, path, walk, true)
	}
	tr.walkGit(t, walk)
	missing(t, walked)
}

// walkWorkspace calls everything that package workspace does with a repository.
func (tr *trap) walkWorkspace(t *testing.T, path string, walk func(string, func() error), publish bool) {
	t.Helper()
	ctx := t.Context()
	var src *Source
	var base Baseline
	var st *Store
	var co *Checkout
	var patch bytes.Buffer
	must := func(err error) error {
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return err
	}
	walk("workspace.OpenSource", func() (err error) { src, err = OpenSource(ctx, path); return must(err) })
	walk("workspace.OpenSourceIn", func() error { _, err := OpenSourceIn(ctx, path, []string{"/"}); return must(err) })
	walk("workspace.Source.Resolve", func() (err error) { base, err = src.Resolve(ctx, "HEAD~0"); return must(err) })
	walk("workspace.Source.Commit", func() error { _, err := src.Commit(ctx, "HEAD"); return must(err) })
	walk("workspace.Source.Names", func() error { _, err := src.Names("HEAD"); return must(err) })
	walk("workspace.Source.ReadFile", func() error { _, _ = src.ReadFile(ctx, "HEAD", "text"); return nil }) // not each of them has the file
	walk("workspace.Source.CommitText", func() error { _, err := src.CommitText(ctx, "HEAD"); return must(err) })
	walk("workspace.Source.FirstCommit", func() error { _, err := src.FirstCommit(ctx, "HEAD"); return must(err) })
	walk("workspace.Source.Look", func() error { _, err := src.Look(ctx, "HEAD", []string{"text"}); return must(err) })
	walk("workspace.Source.Below", func() error { _, err := src.Below("refs/"); return must(err) })
	walk("workspace.Source.Holding", func() error { _, err := src.Holding(ctx, base, []string{base.Tree}); return must(err) })
	walk("workspace.Source.UntrackedTests", func() error {
		_, err := src.UntrackedTests(ctx, func(string) bool { return true })
		return must(err)
	})
	walk("workspace.Source.Fingerprint", func() error { _, err := src.Fingerprint(ctx); return must(err) })
	walk("workspace.Source.ChangedAt", func() error { _ = src.ChangedAt("worktree: text"); return nil })
	walk("workspace.Source.Worktrees", func() error { _, err := src.Worktrees(); return must(err) })
	walk("workspace.Source.Dirty", func() error { _, err := src.Dirty(ctx); return must(err) })
	walk("workspace.NewStore", func() (err error) {
		st, err = NewStore(ctx, filepath.Join(t.TempDir(), "st"), src, base)
		return must(err)
	})
	if t.Failed() {
		return
	}
	head := base.Tree
	walk("workspace.TempStore", func() error {
		_, done, err := TempStore(ctx, src, base)
		if err == nil {
			done()
		}
		return must(err)
	})
	walk("workspace.Store.Bound", func() error { st.Bound(time.Minute, 1000); return nil })
	walk("workspace.Store.Has", func() error { _, err := st.Has(ctx, base.Tree, "text"); return must(err) })
	walk("workspace.Store.WithoutIgnored", func() error {
		_, _, err := st.WithoutIgnored(ctx, base.Tree, []tree.Change{file("n.ignored", "x"), file("mod/new", "x"), file(".gitattributes", "* filter=evil")})
		return must(err)
	})
	walk("workspace.Store.Import", func() error {
		im, err := st.Import(ctx, base.Tree, []tree.Change{
			file("text", "three\n"), file(".gitattributes", "* filter=x diff=x text=auto\n"), file("n.ignored", ""), symlink("l", tr.path(".git")), special("q", "fifo"),
		})
		if err == nil {
			head = im.Tree
		}
		return must(err)
	})
	walk("workspace.Store.Diff", func() error { _, err := st.Diff(ctx, base.Tree, head, &patch); return must(err) })
	walk("workspace.Store.Apply", func() error { _, err := st.Apply(ctx, base.Tree, &patch); return must(err) })
	walk("workspace.Store.List", func() error { _, err := st.List(ctx, head); return must(err) })
	walk("workspace.Store.ReadFile", func() error { _, err := st.ReadFile(ctx, head, "text"); return must(err) })
	walk("workspace.Store.Changes", func() error {
		changes, err := st.Changes(ctx, base.Tree, head)
		for _, c := range changes {
			if c.Open != nil {
				r, err := c.Open()
				if must(err) == nil {
					_, err = io.Copy(io.Discard, r)
					must(err)
				}
			}
		}
		return must(err)
	})
	walk("workspace.Cache.Checkout", func() (err error) { co, err = newCache(t).Checkout(ctx, st, head); return must(err) })
	walk("workspace.Cache.Find", func() error {
		found, err := co.cache.Find(ctx, head)
		if found != nil {
			found.Release()
		}
		return must(err)
	})
	walk("workspace.Checkout.Verify", func() error { return must(co.Verify(ctx)) })
	walk("workspace.Checkout.Release", func() error { co.Release(); return nil })
	walk("workspace.Cache.Trim", func() error { _, err := co.cache.Trim(ctx, 0); return must(err) })
	var commit string
	walk("workspace.Store.CommitTree", func() (err error) {
		commit, err = st.CommitTree(ctx, head, base.Commit, "m", time.Now())
		return must(err)
	})
	var pack bytes.Buffer
	walk("workspace.Store.History", func() error { _, err := st.History(ctx, commit); return must(err) })
	walk("workspace.Store.Rebase", func() error { _, err := st.Rebase(ctx, base.Tree, head, packLimit); return must(err) })
	walk("workspace.Store.Pack", func() error { return must(st.Pack(ctx, commit, &pack)) })
	walk("workspace.Store.Receive", func() error { return must(st.Receive(ctx, bytes.NewReader(pack.Bytes()))) })
	walk("workspace.OpenPack", func() error {
		_, err := OpenPack(ctx, filepath.Join(t.TempDir(), "pack"), &pack, commit, packLimit)
		return must(err)
	})
	if publish {
		branch := "remit/" + commit[:8] + strings.ReplaceAll(filepath.Base(path), ".", "_")
		walk("git.MayPublish", func() error { return must(git.MayPublish(src.GitDir(), branch)) })
		walk("git.PublishBranch", func() error { return must(git.PublishBranch(ctx, src.GitDir(), st.Dir(), commit, branch)) })
		walk("git.PublishBeside", func() error {
			return must(git.PublishBeside(ctx, src.GitDir(), st.Dir(), commit, "refs/notes/"+branch, ""))
		})
		walk("git.DeleteBranch", func() error {
			gone, err := git.DeleteBranch(ctx, src.GitDir(), src.Format(), branch, commit)
			if gone {
				t.Error("the branch that was published is not there")
			}
			return must(err)
		})
	}
	walk("workspace.Store.Dir", func() error { _ = st.Dir(); return nil })
	walk("workspace.Store.Close", func() error { return st.Close() })
}

// walkGit calls everything that package git exports. Reading goes further than we ever do: the trap itself is the git
// directory. Calls that use an index get a directory of ours, with the trap's index, work tree and objects; with
// the trap as git directory no flag would stop a filter there, which is why they are never used so.
func (tr *trap) walkGit(t *testing.T, walk func(string, func() error)) {
	t.Helper()
	ctx := t.Context()
	d := git.Dir{Path: tr.path(".git"), Format: git.SHA1, WorkTree: tr.dir}
	id := func(rev string) string { return tr.git("rev-parse", rev) }
	before, after, blob := id("HEAD~:"), id("HEAD:"), id("HEAD:text")
	tr.sprung()
	lost := strings.Repeat("1", 40) // makes a promisor remote fetch
	walk("git.CommonDir", func() error { _, err := git.CommonDir(d.Path); return err })
	walk("git.ParseConfig", func() error {
		src, err := os.ReadFile(tr.path(".git/config"))
		if err != nil {
			return err
		}
		_, err = git.ParseConfig(ctx, src)
		return err
	})
	walk("git.Dir.RevParse", func() error { _, err := d.RevParse(ctx, "HEAD~1^{tree}"); return err })
	walk("git.Dir.Sizes", func() error { _, err := d.Sizes(ctx, []string{blob, lost}); return err })
	walk("git.Dir.Present", func() error { return d.Present(ctx, map[string]string{"x": lost}) })
	var b *git.Batch
	walk("git.Dir.Batch", func() (err error) { b, err = d.Batch(ctx); return err })
	walk("git.Batch.Bound", func() error { b.Bound(time.Minute); return nil })
	walk("git.Started", func() error { git.Started(); return nil })
	walk("git.Batch.Read", func() error { _, _, err := b.Read(blob, 100); return err })
	walk("git.Batch.Each", func() error {
		return b.Each([]string{blob, lost}, func(git.Object, io.Reader) error { return nil })
	})
	walk("git.Batch.Close", func() error { b.Close(); return nil })
	walk("git.Dir.Diff", func() error { _, err := d.Diff(ctx, before, after, 1000, io.Discard); return err })
	walk("git.Dir.Diff", func() error { _, err := d.Diff(ctx, lost, after, 1000, nil); return err })
	walk("git.Dir.ReadIndex", func() error { _, err := d.ReadIndex(); return err })
	walk("git.Dir.CheckIgnore", func() error {
		_, err := d.CheckIgnore(ctx, []string{"a", "b.ignored", "untracked/nested/x"})
		return err
	})
	walk("git.Dir.Import", func() error {
		_, err := d.Import(ctx, after, []git.Edit{{Path: "x", Mode: "100644", ID: blob}}, git.Commit{Parent: id("HEAD")})
		return err
	})
	walk("git.Dir.WriteCommit", func() error {
		_, err := d.WriteCommit(ctx, fmt.Appendf(nil, "tree %s\nauthor a <a@b.c> 1 +0000\ncommitter a <a@b.c> 1 +0000\n\nm\n", after))
		return err
	})
	walk("git.OwnSigning", func() error { _, err := git.OwnSigning(ctx); return err })
	walk("git.Dir.SignedCommit", func() error {
		_, _, err := d.SignedCommit(ctx, &git.Signing{Name: "a", Email: "a@b.c"}, after, git.Commit{Parent: id("HEAD"), Message: "m", When: time.Now()})
		return err
	})
	walk("git.Dir.IndexPack", func() error {
		packs, err := d.Packs()
		if err != nil || len(packs) == 0 {
			t.Errorf("no packs: %v", err)
			return err
		}
		f, err := os.Open(packs[0])
		if err != nil {
			return err
		}
		defer f.Close()
		return d.IndexPack(ctx, f)
	})
	walk("git.Dir.PackCommit", func() error { return d.PackCommit(ctx, id("HEAD"), io.Discard) })
	walk("git.Dir.PackNew", func() error { return d.PackNew(ctx, []string{id("HEAD")}, []string{id("HEAD~1")}, io.Discard) })
	walk("git.Dir.MergeBase", func() error { _, err := d.MergeBase(ctx, id("HEAD"), id("HEAD~1")); return err })
	walk("git.Dir.FirstCommit", func() error { _, err := d.FirstCommit(ctx, id("HEAD")); return err })
	walk("git.Dir.Authors", func() error { _, err := d.Authors(ctx, id("HEAD~1"), id("HEAD"), 10); return err })
	walk("git.Dir.Inventory", func() error { _, err := d.Inventory(ctx, 1000); return err })
	walk("git.Dir.IndexPackFile", func() error {
		packs, err := d.Packs()
		if err != nil || len(packs) == 0 {
			t.Errorf("no packs: %v", err)
			return err
		}
		return d.IndexPackFile(ctx, packs[0])
	})
	tr.walkIndex(t, blob, walk)
}

func (tr *trap) walkIndex(t *testing.T, blob string, walk func(string, func() error)) {
	t.Helper()
	ctx := t.Context()
	var own git.Dir
	walk("git.Create", func() (err error) { own, err = git.Create(filepath.Join(t.TempDir(), "own"), git.SHA1); return err })
	own.WorkTree, own.Alternates, own.Index = tr.dir, []string{tr.path(".git/objects")}, filepath.Join(own.Path, "copied")
	index, err := os.ReadFile(tr.path(".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own.Index, index, 0o644); err != nil {
		t.Fatal(err)
	}
	must := func(err error) error {
		if err != nil {
			t.Error(err)
		}
		return err
	}
	patch := newFile("fresh")
	walk("git.Dir.NormalizeIndex", func() error { return must(own.NormalizeIndex(ctx)) })
	walk("git.Dir.UpdateIndex", func() error {
		return must(own.UpdateIndex(ctx, []git.IndexEntry{{Path: "n", Mode: "100644", ID: blob}}))
	})
	walk("git.Dir.PatchPaths", func() error { _, err := own.PatchPaths(ctx, strings.NewReader(patch)); return must(err) })
	walk("git.Dir.ApplyCached", func() error { return must(own.ApplyCached(ctx, strings.NewReader(patch), nil)) })
	walk("git.Dir.WriteBlob", func() error {
		return must(own.WriteBlob(own.Format.Sum("blob", []byte("w")), 1, strings.NewReader("w")))
	})
	walk("git.Dir.OpenBlob", func() error {
		_, r, err := own.OpenBlob(own.Format.Sum("blob", []byte("w")))
		if must(err) == nil {
			r.Close()
		}
		return err
	})
	walk("git.Dir.WriteIndex", func() error { return must(own.WriteIndex(nil)) })
	walk("git.Dir.CheckIgnore", func() error { _, err := own.CheckIgnore(ctx, []string{"mod/x", "b.ignored"}); return must(err) })
}

// missing fails for everything exported that was neither walked nor is pure.
func missing(t *testing.T, walked map[string]bool) {
	t.Helper()
	exported := map[string]bool{}
	for name, dir := range map[string]string{"git": "../git", "workspace": "."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				maps.Copy(exported, exportedFuncs(t, name, file))
			}
		}
	}
	if len(exported) < 40 {
		t.Fatalf("found only %d functions", len(exported))
	}
	for _, name := range pure {
		delete(exported, name)
	}
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if !walked[name] {
			t.Errorf("%s is exported, and was not walked over the trap", name)
		}
	}
}

func exportedFuncs(t *testing.T, pkg, file string) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() {
			continue
		}
		name := pkg + "."
		if fn.Recv != nil {
			typ := fn.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			ident := typ.(*ast.Ident)
			if !ident.IsExported() {
				continue
			}
			name += ident.Name + "."
		}
		names[name+fn.Name.Name] = true
	}
	return names
}
