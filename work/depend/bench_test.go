package depend

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"remit/law/task"
	"remit/work/sandbox"
)

// middle is the median of some times, in milliseconds.
func middle(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2]) / float64(time.Millisecond)
}

// benchFiles are the files of the layer, in packages of a hundred.
const benchFiles = 6000

// BenchmarkLayer measures what a warm layer of npm adds to one use of the sandbox (to
// find it in the store, and to mount it), what it costs to make it, and `npm ci` by
// hand from the same registry.
func BenchmarkLayer(b *testing.B) {
	r := openRegistry(b)
	files := map[string]string{"index.js": "module.exports = 1"}
	for i := range 98 {
		files[fmt.Sprintf("lib/f%d.js", i)] = fmt.Sprintf("// %d\n%1000d\n", i, i)
	}
	wanted, packages := map[string]any{}, map[string]any{}
	for i := range benchFiles / 100 {
		name := fmt.Sprintf("p%d", i)
		wanted[name], packages["node_modules/"+name] = "^1.0.0", r.publish(b, name, "1.0.0", files)
	}
	packages[""] = map[string]any{"name": "app", "version": "1.0.0", "dependencies": wanted}
	manifest := fmt.Sprintf(`{"name": "app", "version": "1.0.0", "dependencies": {"p0": "^1.0.0"%s}}`, func() (more string) {
		for i := 1; i < benchFiles/100; i++ {
			more += fmt.Sprintf(`, "p%d": "^1.0.0"`, i)
		}
		return more
	}())
	base := Base{Dir: writeTree(b, b.TempDir(), map[string]string{"package.json": manifest, "package-lock.json": lockText(b, packages), "a.txt": "a"})}
	builder := openBuilder(b, r.URL, "npm")
	builder.Tell = nil
	env := task.Environment{Prepare: []task.Prepare{{Ecosystem: task.NPM, Dir: "."}}}
	ctx := context.Background()
	began := time.Now()
	p, err := builder.Prepare(ctx, env, base)
	must(b, err)
	made := time.Since(began)
	p.Release()

	hand := filepath.Join(b.TempDir(), "hand")
	must(b, os.CopyFS(hand, os.DirFS(base.Dir)))
	began = time.Now()
	cmd := exec.CommandContext(ctx, "/usr/bin/npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--registry", r.URL, "--cache", b.TempDir())
	cmd.Dir, cmd.Env = hand, append(os.Environ(), "HOME="+b.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("npm ci: %v: %s", err, out)
	}
	byHand := time.Since(began)

	run := func(layers []sandbox.Layer) time.Duration {
		began := time.Now()
		res, err := builder.Sandbox.Run(ctx, sandbox.Spec{Lower: base.Dir, Layers: layers, Commands: []sandbox.Command{{Argv: []string{"sh", "-c", "exit 0"}}}})
		if err != nil || res.Commands[0].ExitCode != 0 {
			b.Fatal(err, res)
		}
		return time.Since(began)
	}
	run(nil)
	var found, more []time.Duration
	for b.Loop() { // interleaved, so that a busy moment hits all alike
		began := time.Now()
		p, err := builder.Prepare(ctx, env, base)
		must(b, err)
		found = append(found, time.Since(began))
		without := run(nil)
		more = append(more, run(p.Mounts())-without)
		p.Release()
	}
	b.ReportMetric(benchFiles, "files")
	b.ReportMetric(middle(found), "find-ms")
	b.ReportMetric(middle(more), "mount-ms")
	b.ReportMetric(float64(made.Milliseconds()), "make-ms")
	b.ReportMetric(float64(byHand.Milliseconds()), "npm-ci-ms")
}
