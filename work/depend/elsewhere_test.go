package depend

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"remit/fixtures/tally"
	"remit/law/task"
)

// sameElsewhere makes the layers of an environment once more: in another store, with
// another work directory, from a base at another path, with other modes and times of
// its files, two years later. All of that says nothing of what a layer has.
func sameElsewhere(t testing.TB, b *Builder, env task.Environment, base Base, p *Prepared) {
	t.Helper()
	moved := filepath.Join(t.TempDir(), "another place", "for the same")
	must(t, os.CopyFS(moved, os.DirFS(base.Dir)))
	old := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	must(t, filepath.WalkDir(moved, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if err := os.Chmod(path, 0o640); err != nil {
			return err
		}
		return os.Chtimes(path, old, old)
	}))
	store, err := OpenStore(filepath.Join(t.TempDir(), "another home", "environments"))
	must(t, err)
	other := *b
	other.Store, other.Scratch, other.Clock = store, t.TempDir(), func() time.Time { return time.Now().AddDate(2, 0, 0) }
	again, err := other.Prepare(context.Background(), env, Base{Dir: moved, Tree: base.Tree})
	must(t, err)
	defer again.Release()
	for i, l := range p.Layers {
		if o := again.Layers[i]; o.Key != l.Key || o.ContentSHA256 != l.ContentSHA256 || o.DeliveriesSHA256 != l.DeliveriesSHA256 {
			t.Errorf("elsewhere %s makes another layer, key %s and %s: %s", l.Recipe.Ecosystem, Short(l.Key), Short(o.Key), firstDifference(contentOf(t, l.Tree), contentOf(t, o.Tree)))
		}
	}
}

// TestUmaskSaysNothing makes a layer with two umasks. It is a property of the process,
// so no other test runs meanwhile.
func TestUmaskSaysNothing(t *testing.T) {
	tally.AtItsTurn(t, 1, 4)
	r := openRegistry(t)
	base := Base{Dir: writeTree(t, t.TempDir(), app(t, r)), Tree: "1111111111111111111111111111111111111111"}
	b := openBuilder(t, r.URL, "npm")
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: ".", Build: []string{"npm rebuild"}}}}
	p, err := b.Prepare(context.Background(), env, base)
	must(t, err)
	defer p.Release()
	for _, mask := range []int{0o077, 0} {
		was := syscall.Umask(mask)
		func() {
			defer syscall.Umask(was)
			sameElsewhere(t, b, env, base, p)
		}()
	}
}
