package twin

import (
	"context"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/fixtures/tally"
)

// phpProject is a test file with what people write in one.
const phpProject = `<?php
declare(strict_types=1);

namespace Shop\Tests;

use PHPUnit\Framework\Assert;
use PHPUnit\Framework\TestCase;

// Tests of "a" cart: it's ?: fine.
# And { this.
final class CartTest extends TestCase
{
    private const LIMIT = 25;
    private array $items = ['a' => 1, "b{\$x}" => 2];

    protected function setUp(): void { $this->items = ['a' => 1, 'b' => 2]; }

    public function testSame(): void
    {
        $this->assertSame(2, \count($this->items));
        self::assertEquals(['a' => 1, 'b' => 2], $this->items, "the {$this->items['a']} of \"\$this\"}");
        static::assertTrue(isset($this->items['a'])); Assert::assertNotNull($this->items);
    }

    public function testOneLine() { $this->assertCount(2, $this->items); }

    /** @test */
    public function it_reads_texts()
    {
        $expected = 'three words here';
        $this->assertSame($expected, implode(' ', ['three', 'words', 'here']));
        $text = <<<TEXT
          A heredoc with { and {$this->items['a']} and '
          TEXT;
        $this->assertStringContainsString('heredoc', $text);
        $this->assertMatchesRegularExpression('/^\s*A her/', $text);
        $this->assertSame(<<<'RAW'
        it's "raw" {$
        RAW, "it's \"raw\" {\$");
        $this->assertGreaterThan(3, strlen($text)); $this->assertLessThanOrEqual(300, strlen($text));
    }

    public function testThrows()
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->expectExceptionMessage('no such');
        throw new \InvalidArgumentException('no such thing');
    }

    public function testThrowsAny()
    {
        $this->expectException(\Exception::class);
        throw new \RuntimeException('x');
    }

    public static function rows(): array { return [[1, 2, 3], 'named' => [2, 2, 4]]; }

    /** @dataProvider rows */
    public function testRows(int $a, int $b, int $want)
    {
        foreach ([1, 2] as $n) {
            $this->assertSame($want, $a + $b, "row $n");
        }
        if ($a > 100) {
            return;
        }
        $this->assertEqualsWithDelta(3.5, $want + 0.5, 2);
    }

    public function testProducer() { $this->assertTrue(true); return 5; }

    /** @depends testProducer */
    public function testConsumer($five) { $this->assertSame(5, $five); $this->assertSame(self::LIMIT, 25); }

    public function testSkipped() { $this->markTestSkipped('later'); }

    public function testEmpty() { $this->expectNotToPerformAssertions(); }

    public function testArrays()
    {
        $this->assertSame(['x' => [1, 'two', 3.5], 'y' => null], ['x' => array(1, 'two', 3.5), 'y' => null]);
        $this->assertArrayHasKey('a', $this->items); $this->assertContains(2, $this->items);
        $this->assertInstanceOf(\ArrayObject::class, new \ArrayObject());
        $this->assertSame(-7, array_sum(array_map(function ($x) { $this->assertIsInt($x); return -$x; }, [3, 4])));
    }

    private function helper() { return match (true) { default => 1 }; }
}
`

// needTool skips where a program is not there.
func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("NOT INSTALLED: %s: scripts/setup.sh test", name)
	}
}

// runTool runs a program in a directory.
func runTool(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput() // its results say how it went
	return string(out)
}

// ranPHP runs a file and returns which tests passed.
func ranPHP(t *testing.T, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "CartTest.php"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runTool(t, dir, "phpunit", "--log-junit", "r.xml", "CartTest.php")
	log, err := os.ReadFile(filepath.Join(dir, "r.xml"))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	passed = map[string]bool{}
	passedInXML(t, log, passed, " with data set")
	return passed, out
}

// passedInXML takes in which tests passed by a report of JUnit's form: those of one name,
// but for what is behind a text, count as one.
func passedInXML(t *testing.T, report []byte, passed map[string]bool, rows string) {
	t.Helper()
	type suite struct {
		Suites []suite `xml:"testsuite"`
		Cases  []struct {
			Class  string    `xml:"classname,attr"`
			Name   string    `xml:"name,attr"`
			Failed *struct{} `xml:"failure"`
			Error  *struct{} `xml:"error"`
		} `xml:"testcase"`
	}
	var all suite
	if err := xml.Unmarshal(report, &all); err != nil {
		t.Fatal(err)
	}
	var walk func(s suite)
	walk = func(s suite) {
		for _, c := range s.Cases {
			name, _, _ := strings.Cut(c.Class+"::"+c.Name, rows)
			was, known := passed[name]
			passed[name] = (was || !known) && c.Failed == nil && c.Error == nil
		}
		for _, s := range s.Suites {
			walk(s)
		}
	}
	walk(all)
}

func mustParsePHP(t *testing.T, src string) File {
	t.Helper()
	f, err := ParsePHP([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sabotageTurns is in how many runs of all tests each sabotage is tried once: it starts
// compilers and runners. A run of tests chosen by name tries all.
const sabotageTurns = 3

// triesAll has neutral edits change no verdict, and each sabotage make its test fail
// and no other.
func triesAll(t *testing.T, f File, run func(text []byte) (passed map[string]bool, out string)) {
	t.Helper()
	for n := range 2 {
		text := mustEdit(t, f, Orders{Seed: seed(n)})
		passed, out := run(text)
		if failed := notOK(passed); len(failed) > 0 || len(passed) == 0 {
			t.Fatalf("neutral, seed %d: %q\n%s\n%s", n, failed, out, text)
		}
	}
	triesTraced(t, f, run)
	most := 0
	for _, test := range f.Tests() {
		most = max(most, len(test.Sites))
	}
	for round := range most {
		if !tally.ByTurn(t, round, sabotageTurns) {
			continue
		}
		sabotage, want := map[string]Order{}, []string{}
		for _, test := range f.Tests() {
			if len(test.Sites) > round && !strings.Contains(test.Name, "kipped") { // nothing is reached in it
				sabotage[test.Name] = Order{Site: test.Sites[round].ID}
				want = append(want, test.Name)
			}
		}
		text := mustEdit(t, f, Orders{Seed: seed(100 + round), Sabotage: sabotage})
		passed, out := run(text)
		failed := notOK(passed)
		slices.Sort(want)
		if !slices.Equal(failed, want) {
			t.Errorf("round %d: failed %q, want %q, sites %v\n%s\n%s", round, failed, want, sabotage, out, text)
		}
	}
}

// triesTraced has a traced file say that its tests pass, and that they come by the
// places that are certain.
func triesTraced(t *testing.T, f File, run func(text []byte) (passed map[string]bool, out string)) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "trace")
	text := mustEdit(t, f, Orders{Seed: seed(9), Trace: at, Key: "f1"})
	passed, out := run(text)
	written, err := os.Open(at)
	if failed := notOK(passed); len(failed) > 0 || err != nil {
		t.Fatalf("traced: %q %v\n%s\n%s", failed, err, out, text)
	}
	defer written.Close()
	trace, err := ReadTrace(written)
	if err != nil || trace.Files["f1"] == nil {
		t.Fatalf("%+v %v", trace, err)
	}
	for _, test := range f.Tests() {
		if len(test.Sites) == 0 {
			continue
		}
		ended := trace.Files["f1"].Tests[test.Trace]
		if ended.Fail > 0 || ended.Pass+ended.Skip == 0 {
			t.Errorf("%s: traced as %+v\n%s", test.Name, ended, text)
		}
		for _, s := range test.Sites {
			if at := trace.Files["f1"].Sites[s.ID]; s.Certain && ended.Skip == 0 && (at == nil || len(at.Failed) > 0) {
				t.Errorf("%s: site %+v is traced as %+v", test.Name, s, at)
			}
		}
	}
}

// TestPHPRun: neutral edits change no verdict, and each sabotage makes its test fail
// and no other.
func TestPHPRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 2, 4)
	needTool(t, "phpunit")
	triesAll(t, mustParsePHP(t, phpProject), func(text []byte) (map[string]bool, string) { return ranPHP(t, text) })
}
