package depend

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTrimKeepsTheNewest: what is used least lately goes first, and what is in use
// stays, however much it is.
func TestTrimKeepsTheNewest(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var layers []*Layer
	for i, dir := range []string{"old", "middle", "new"} {
		m := someManifest()
		m.Recipe.Dir, m.Recipe.Paths = dir, []string{dir + "/node_modules"}
		l, err := s.seal(context.Background(), m, from(textFile(dir+"/node_modules/a.js", "0123456789", false)))
		must(t, err)
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		must(t, os.Chtimes(filepath.Join(l.dir, lockFile), at, at))
		layers = append(layers, l)
	}
	have := func(want ...*Layer) {
		t.Helper()
		keys, err := s.Keys()
		must(t, err)
		if len(keys) != len(want) {
			t.Errorf("%d layers are left, want %d", len(keys), len(want))
		}
		for _, l := range want {
			if l, err := s.Look(l.Key); err != nil {
				t.Error(err)
			} else {
				l.Release()
			}
		}
	}
	layers[1].Release()
	layers[2].Release()
	trim := func(most int64) []Removed {
		t.Helper()
		removed, err := s.Trim(most)
		must(t, err)
		return removed
	}
	if removed := trim(3 * layers[0].Bytes); len(removed) != 0 {
		t.Errorf("removed although there is room: %+v", removed)
	}
	removed := trim(layers[0].Bytes)
	have(layers[0], layers[2]) // the oldest is in use
	if len(removed) != 2 || removed[0].Key != layers[1].Key || removed[0].Why != "" || removed[1].Why == "" {
		t.Errorf("%+v", removed)
	}
	layers[0].Release()
	trim(layers[0].Bytes)
	have(layers[2])
	trim(0)
	have()
}
