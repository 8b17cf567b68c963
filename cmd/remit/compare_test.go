package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"remit/law/ladder"
	"remit/proof/evidence"
	"remit/proof/reason"
	"remit/work/agentconf"
	"remit/work/session"
)

var updateComparison = flag.Bool("update-comparison", false, "write testdata/compare anew")

func TestParseLane(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]laneName{
		"pi":                        {"pi", "", ""},
		" codex=openai/gpt-5.5":     {"codex", "openai", "gpt-5.5"},
		"pi=local/Org/Model_Q4:8b":  {"pi", "local", "Org/Model_Q4:8b"},
		"claude=a/b=c":              {"claude", "a", "b=c"},
		"pi=openai/gpt-5.5/preview": {"pi", "openai", "gpt-5.5/preview"},
	} {
		if got, err := parseLane(entry); err != nil || got != want {
			t.Errorf("%q: %v, %v", entry, got, err)
		}
	}
	for _, entry := range []string{"", " ", "=openai/x", "pi=", "pi=openai", "pi=openai/", "pi=/x"} {
		if got, err := parseLane(entry); err == nil {
			t.Errorf("%q is taken for %v", entry, got)
		}
	}
}

// TestLabels: lanes have different labels, and none is longer named
// than that takes.
func TestLabels(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lanes []laneName
		want  []string
	}{
		"engines":          {[]laneName{{"pi", "a", "b"}, {"fake", "", ""}}, []string{"pi", "fake"}},
		"models":           {[]laneName{{"pi", "a", "b"}, {"pi", "a", "c"}}, []string{"pi=a/b", "pi=a/c"}},
		"the same":         {[]laneName{{"pi", "a", "b"}, {"pi", "a", "b"}}, []string{"pi=a/b", "pi=a/b#2"}},
		"without a model":  {[]laneName{{"fake", "", ""}, {"fake", "", ""}, {"fake", "", ""}}, []string{"fake", "fake#2", "fake#3"}},
		"a model for some": {[]laneName{{"pi", "", ""}, {"pi", "a", "b"}}, []string{"pi", "pi=a/b"}},
	} {
		if got := labels(tc.lanes); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLaneFlags: what is said of all lanes, of one engine and of one provider
// comes together, and nothing of one lane reaches another.
func TestLaneFlags(t *testing.T) {
	t.Parallel()
	f := &compareFlags{bins: laneValues{"pi": "/opt/pi"}, only: []string{"pi:engine-model=known", "local:base-url=http://127.0.0.1:8080/v1", "local:local-model"}}
	f.model = modelFlags{provider: "openai", model: "gpt-5.5", keyEnv: "MY_KEY"}
	for name, tc := range map[string]struct {
		lane laneName
		want modelFlags
	}{
		"defaults":           {laneName{engine: "codex"}, modelFlags{provider: "openai", model: "gpt-5.5", keyEnv: "MY_KEY"}},
		"a model of its own": {laneName{"codex", "openai", "gpt-5.4"}, modelFlags{provider: "openai", model: "gpt-5.4", keyEnv: "MY_KEY"}},
		"engine, provider": {laneName{"pi", "local", "q"}, modelFlags{provider: "local", model: "q", keyEnv: "MY_KEY", bin: "/opt/pi", engineModel: "known",
			baseURL: "http://127.0.0.1:8080/v1", local: true}},
		"engine":   {laneName{engine: "pi"}, modelFlags{provider: "openai", model: "gpt-5.5", keyEnv: "MY_KEY", bin: "/opt/pi", engineModel: "known"}},
		"provider": {laneName{"claude", "local", "q"}, modelFlags{provider: "local", model: "q", keyEnv: "MY_KEY", baseURL: "http://127.0.0.1:8080/v1", local: true}},
		"built in": {laneName{engine: "fake"}, modelFlags{}},
	} {
		got, _, err := new(app).laneFlags(f, &lane{laneName: tc.lane}, nil)
		if err != nil || !reflect.DeepEqual(got.model, tc.want) || got.engine != tc.lane.engine {
			t.Errorf("%s: %+v, %v", name, got.model, err)
		}
	}
	if f.model.engineModel != "" || f.model.baseURL != "" {
		t.Errorf("a lane changed the defaults: %+v", f.model)
	}
}

// TestLanesTakeWhatIsSettled: each lane has the settings of its own engine, and none
// of them where anything is said of a model.
func TestLanesTakeWhatIsSettled(t *testing.T) {
	t.Parallel()
	a := &app{home: session.Home{Dir: t.TempDir()}}
	for engine, m := range map[string]agentconf.Model{
		"pi":    {Provider: "local", Name: "q", BaseURL: "http://127.0.0.1:8080", Local: true, KeyFile: "/k"},
		"codex": {Provider: "openai", Name: "gpt-5.5", KeyEnv: "MY_KEY"},
	} {
		if err := (&agentconf.Agent{Engine: engine, Bin: "/opt/" + engine, Model: m}).Save(a.home.Dir); err != nil {
			t.Fatal(err)
		}
	}
	ofPi := modelFlags{provider: "local", model: "q", baseURL: "http://127.0.0.1:8080", local: true, keyFile: "/k", bin: "/opt/pi"}
	for name, tc := range map[string]struct {
		flags compareFlags
		lane  laneName
		want  modelFlags
	}{
		"settled":         {compareFlags{}, laneName{engine: "pi"}, ofPi},
		"another lane":    {compareFlags{}, laneName{engine: "codex"}, modelFlags{provider: "openai", model: "gpt-5.5", keyEnv: "MY_KEY", bin: "/opt/codex"}},
		"not set up":      {compareFlags{}, laneName{engine: "claude"}, modelFlags{}},
		"built in":        {compareFlags{}, laneName{engine: "fake"}, modelFlags{}},
		"in the entry":    {compareFlags{}, laneName{"pi", "acme", "x"}, modelFlags{provider: "acme", model: "x"}},
		"a flag":          {compareFlags{runFlags: runFlags{model: modelFlags{keyEnv: "K"}}}, laneName{engine: "pi"}, modelFlags{keyEnv: "K"}},
		"a flag of lanes": {compareFlags{only: []string{"pi:base-url=http://127.0.0.1:1"}}, laneName{engine: "pi"}, modelFlags{baseURL: "http://127.0.0.1:1"}},
	} {
		l := &lane{laneName: tc.lane}
		got, _, err := a.laneFlags(&tc.flags, l, nil)
		taken := tc.want.bin != ""
		if err != nil || !reflect.DeepEqual(got.model, tc.want) || (l.settled != "") != taken || taken && l.provider != tc.want.provider {
			t.Errorf("%s: %+v, %q, %v", name, got.model, l.settled, err)
		}
	}
}

// TestUnmixed: no key of a provider goes to the address of another, for all
// lanes or for those of one engine.
func TestUnmixed(t *testing.T) {
	t.Parallel()
	two := []laneName{{"codex", "openai", "a"}, {"codex", "acme", "b"}, {"pi", "local", "c"}}
	for only, wrong := range map[string]bool{
		"codex:base-url=https://acme.example": true,
		"codex:key-file=/k":                   true,
		"codex:local-model":                   true,
		"codex:engine-model=x":                false,
		"acme:base-url=https://acme.example":  false,
		"pi:base-url=http://127.0.0.1:8080":   false,
		"claude:base-url=https://x.example":   true, // of no provider
	} {
		f := &compareFlags{only: []string{only}}
		if err := f.unmixed(new(cobra.Command), two); (err != nil) != wrong {
			t.Errorf("%s: %v", only, err)
		}
	}
}

// TestFitting: one lane a processor, as long as there is memory, and always one.
func TestFitting(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lanes, processors int
		memory, free      int64
		want              int
	}{
		"processors":     {8, 4, 1000, 100_000, 4},
		"lanes":          {2, 4, 1000, 100_000, 2},
		"memory":         {8, 4, 1000, 2500, 2},
		"default memory": {8, 4, 0, 2048*3 + 1, 3},
		"none left":      {8, 4, 1000, 10, 1},
		"not known":      {8, 4, 1000, 0, 4},
	} {
		if got := fitting(tc.lanes, tc.processors, tc.memory, tc.free); got != tc.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	if mb, err := availableMB(strings.NewReader("MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable:    4096000 kB\n")); mb != 4000 || err != nil {
		t.Errorf("%d MB, %v", mb, err)
	}
	for _, text := range []string{"", "MemFree: 1 kB\n", "MemAvailable: x kB\n", "MemAvailable: 1\n"} {
		if mb, err := availableMB(strings.NewReader(text)); err == nil {
			t.Errorf("%q is %d MB", text, mb)
		}
	}
}

func TestComparisonExitCode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		codes []int
		want  int
	}{
		"all passed":         {[]int{0, 0}, 0},
		"one blocked":        {[]int{0, 3, 0}, 3},
		"failed and blocked": {[]int{3, 2, 0}, 2},
		"an internal error":  {[]int{3, 1, 2}, 1},
		"nothing":            {nil, 0},
	} {
		var rows []laneRow
		for _, code := range tc.codes {
			rows = append(rows, laneRow{ExitCode: code})
		}
		if got := exitOf(rows); got != tc.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// sampleComparison has a line of every kind.
func sampleComparison() *comparison {
	text := func(s string) *string { return &s }
	ms := func(n int64) *int64 { return &n }
	basis := map[string]string{"task": "sha256:aa", "base": "c0ffee", "remit": "1.0 (abc)", "host": "linux/amd64", "sandbox": "bwrap 0.8 overlay"}
	elsewhere := maps.Clone(basis)
	elsewhere["sandbox"] = "none  copy"
	session := func(r laneRow) laneRow {
		r.SessionID = "20261121T093012Z-slug-" + r.Lane
		r.SessionDir, r.Phase, r.ContractSHA256, r.BaselineCommit = "/state/"+r.SessionID, "sealed", "sha256:cc", "c0ffee"
		r.taskID, r.title = "slug", "Slugs are lower case"
		rep := &evidence.Report{Status: r.Status, ChangedFiles: r.ChangedFiles, AllowedWritesPassed: r.Code == "", ArtifactPaths: []string{"patch.diff", "backend/own.log"}}
		if r.Code != "" {
			rep.Blockers = []evidence.Blocker{{Code: reason.Code(r.Code)}}
		}
		r.shown = ladder.Shown{Report: rep, Fields: []string{"schema", "status"}}
		return r
	}
	refused := refusedRow(&lane{label: "claude", laneName: laneName{"claude", "anthropic", "claude-opus-5-5"}},
		reason.Errorf(reason.ProviderUnavailable, "no claude\x1b[2J on this machine").WithHint("make agents"))
	return &comparison{Schema: comparisonSchema, TaskID: "slug", Title: "Slugs are lower case", ContractSHA256: "sha256:cc", BaselineCommit: "c0ffee", Parallel: 2, Lanes: []laneRow{
		session(laneRow{Lane: "pi", Engine: "pi", EngineVersion: "0.73.1", ModelProvider: text("openai"), Model: text("gpt-5.5"), Status: "pass",
			Delta: laneDelta{1, 3, 1}, ChangedFiles: []string{"src/slug.go"}, PatchSHA256: "sha256:p1", VerificationDelta: 1,
			Usage: &laneUsage{5, 12345, true, 61725, true, 2000, 9345, 1000}, DurationMS: ms(31240), EngineMS: ms(20100), VerifierMS: ms(9120), basis: basis}),
		session(laneRow{Lane: "codex", Engine: "codex", EngineVersion: "0.169.0", ModelProvider: text("local"), Model: text("qwen"), Status: "fail",
			Code: "verification_failed", Reason: "the tests fail", ExitCode: 2, Delta: laneDelta{2, 10, 0}, ChangedFiles: []string{"src/slug.go", "src/\x1b[31mnew.go"},
			PatchSHA256: "sha256:p2", Usage: &laneUsage{3, 900, false, 0, false, 800, 0, 100}, DurationMS: ms(9000), EngineMS: ms(8000), basis: basis}),
		refused,
		session(laneRow{Lane: "fake", Engine: "fake", EngineVersion: "1", Status: "pass", Delta: laneDelta{1, 3, 1}, ChangedFiles: []string{"src/slug.go"},
			PatchSHA256: "sha256:p1", DurationMS: ms(2100), EngineMS: ms(40), basis: elsewhere}),
	}}
}

// TestComparisonGolden keeps the document and the table what they are.
func TestComparisonGolden(t *testing.T) {
	t.Parallel()
	c := sampleComparison()
	c.conclude(orderGiven)
	var doc, table bytes.Buffer
	if err := printJSON(&doc, c); err != nil {
		t.Fatal(err)
	}
	if err := printComparison(&table, c); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(table.Bytes(), '\x1b') {
		t.Error("the table would drive a terminal")
	}
	for name, got := range map[string][]byte{"comparison.json": doc.Bytes(), "table.txt": table.Bytes()} {
		file := filepath.Join("testdata", "compare", name)
		if *updateComparison {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s (go test -update-comparison writes it anew):\n%s", name, got)
		}
	}
}

// TestComparisonOrder: the order that was given stays unless another is asked
// for, and a lane without the figure is never first.
func TestComparisonOrder(t *testing.T) {
	t.Parallel()
	for order, want := range map[string][]string{
		orderGiven: {"pi", "codex", "claude", "fake"},
		orderCost:  {"fake", "pi", "codex", "claude"}, // fake asked no model; what codex cost is not known
		orderTime:  {"fake", "codex", "pi", "claude"},
		orderDelta: {"pi", "fake", "codex", "claude"},
	} {
		c := sampleComparison()
		c.conclude(order)
		var got []string
		for _, r := range c.Lanes {
			got = append(got, r.Lane)
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %s: %v", order, got)
		}
	}
}

// TestInterruptedComparison: Ctrl-C ends every lane with its evidence, keeps
// what was done, and starts no other.
func TestInterruptedComparison(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	home := t.TempDir()
	repo := gitRepo(t, map[string]string{"a.txt": "a\n"})
	cmd := cli(t, home, "compare", "--engines", "fake,command,command", "--parallel", "1", "--repo", repo, "--allow", "a.txt", "--verify", "true", "--allow-no-diff",
		"--json", "--", "sh", "-c", "echo x >> a.txt; echo READY; exec sleep 1000")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(pipe); scan.Scan(); {
		if strings.Contains(scan.Text(), "READY") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // the exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != 3 {
		t.Fatalf("exit code %d, want 3\n%s", code, stdout.String())
	}
	var c comparison
	if err := json.Unmarshal(stdout.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Lanes) != 3 || c.Lanes[0].Status != "pass" {
		t.Fatalf("%+v", c.Lanes)
	}
	cut, never := c.Lanes[1], c.Lanes[2]
	if cut.Status != "blocked" || cut.Code != "cancelled" || !slices.Equal(cut.ChangedFiles, []string{"a.txt"}) || cut.Phase != "sealed" {
		t.Errorf("the lane that ran: %+v", cut)
	}
	if never.Status != "blocked" || never.Code != "cancelled" || never.SessionID != "" {
		t.Errorf("the lane that had not begun: %+v", never)
	}
	if out, err := cli(t, home, "audit", cut.SessionDir).CombinedOutput(); err != nil {
		t.Errorf("audit: %v\n%s", err, out)
	}
}
