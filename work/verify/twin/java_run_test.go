package twin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// javaFour and javaFive are test files with what people write in them.
const javaFour = `package shop.cart;

import static org.junit.Assert.*;
import static org.hamcrest.CoreMatchers.*;
import static org.hamcrest.MatcherAssert.assertThat;

import java.util.*;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.ExpectedException;

/** Tests of "a" cart: it's { fine. */
public class CartTest {
    private static final String[] NAMES = {"a", "b{"};
    private final Map<String, List<Integer>> items = new HashMap<String, List<Integer>>() {{ put("a", Arrays.asList(1, 2)); }};
    @Rule public ExpectedException thrown = ExpectedException.none();

    @Before public void setUp() { items.put("b", new ArrayList<Integer>()); }

    @Test
    public void equal() throws Exception {
        assertEquals(2, items.size());
        assertEquals("two names", "a-b{", String.join("-", NAMES));
        Assert5.check();
    }

    @Test
    public void swapped() throws Exception {
        assertEquals(String.join("-", NAMES), "a-b{");
        assertEquals("delta", 3.5, 7 / 2.0, 0.01);
    }

    @Test
    public void made() {
        assertEquals(Arrays.asList(1, 2), items.get("a"));
        assertEquals(4L, 2L + 2);
    }

    @Test
    public void types() throws Exception {
        assertEquals('x', "xyz".charAt(0));
        assertArrayEquals(new int[] {1, 2}, new int[] {1, 2});
        assertEquals((byte) 5, (byte) (2 + 3));
    }

    @Test public void oneLine() { assertTrue(items.containsKey("a")); assertFalse("no c", items.containsKey("c")); }

    @Test(timeout = 60000)
    public void matchers() {
        assertThat("three words here", containsString("words"));
        assertThat(items.get("a").size(), is(2));
        assertThat("why", items.keySet().size(), is(equalTo(2)));
    }

    @Test(expected = IllegalStateException.class)
    public void waits() {
        Iterator<String> it = new ArrayList<String>().iterator();
        if (!it.hasNext()) throw new IllegalStateException("empty");
    }

    @Test
    public void waitsByRule() {
        thrown.expect(IllegalArgumentException.class);
        thrown.expectMessage("no such");
        throw new IllegalArgumentException("no such thing");
    }

    @Test
    public void loops() {
        int sum = 0;
        for (int i = 0; i < 3; i++) {
            sum += i;
            assertTrue("row " + i, sum >= i);
        }
        assertEquals(3, sum);
        Runnable r = () -> assertNotNull(items);
        r.run();
        if (sum > 100) {
            return;
        }
        while (true) {
            if (sum++ > 5) break;
        }
        throwing(false);
    }

    @Test(expected = Throwable.class)
    public void waitsForAny() { throw new RuntimeException("x"); }

    @Test public void nothing() { }

    private void throwing(boolean yes) { if (yes) throw new IllegalStateException(); }

    public static class Inner {
        @Test public void nested() { assertEquals("n", "N".toLowerCase()); }
    }

    abstract static class Base {
        @Test public void inherited() { assertEquals(1, 1); }
    }

    interface Assert5 { static void check() { } }
}
`

const javaFive = `package shop;

import static org.junit.jupiter.api.Assertions.*;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PriceTest {
    record Price(String currency, int cents) { }

    @Test
    void equal() {
        var price = new Price("EUR", 250);
        assertEquals("EUR", price.currency(), "a message");
        assertEquals(250, price.cents());
    }

    @Test
    void made() {
        var price = new Price("EUR", 250);
        assertEquals(List.of("a", "b"), List.of("a", "b"));
        assertEquals(Map.of("k", 1), Map.of("k", 1));
    }

    @Test
    void asked() {
        var price = new Price("EUR", 250);
        assertTrue(price.cents() > 0, () -> "positive");
        assertTrue(() -> price.cents() > 0);
        assertEquals("""
            text "block"
            """, "text \"block\"\n");
    }

    @Test
    void throwing() {
        assertThrows(IllegalArgumentException.class, () -> { throw new IllegalArgumentException("x"); });
        IllegalStateException e = assertThrows(IllegalStateException.class, () -> { throw new IllegalStateException("bad state"); });
        assertEquals("bad state", e.getMessage());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void rows(int n) {
        assertTrue(n > 0);
        assertFalse(n > 3, "small");
        switch (n) {
            case 1 -> assertEquals(1, n);
            default -> assertNotEquals(1, n);
        }
    }

    @Nested
    class Sums {
        @Test
        void add() {
            int sum = List.of(1, 2).stream().mapToInt(i -> i).sum();
            assertEquals(3, sum);
        }
    }

    @Test
    void skipped() {
        org.junit.jupiter.api.Assumptions.assumeTrue(false);
        assertEquals(1, 2);
    }
}
`

// javaJars are the libraries that the tests of this package need.
var javaJars = []string{"junit4", "hamcrest", "junit-jupiter-api", "junit-jupiter-params", "junit-jupiter-engine", "junit-vintage-engine", "junit-platform-commons", "junit-platform-engine",
	"junit-platform-launcher", "junit-platform-console", "junit-platform-reporting", "opentest4j", "apiguardian-api", "picocli", "univocity-parsers", "opentest4j-reporting-events", "opentest4j-reporting-schema"}

// ranJava runs a file and returns which tests passed.
func ranJava(t *testing.T, name string, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".java"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	var jars []string
	for _, jar := range javaJars {
		jars = append(jars, "/usr/share/java/"+jar+".jar")
	}
	path := strings.Join(append(jars, filepath.Join(dir, "out")), ":")
	out = runTool(t, dir, "javac", "-nowarn", "-d", "out", "-cp", path, name+".java")
	out += runTool(t, dir, "java", "-XX:TieredStopAtLevel=1", "-cp", path, "org.junit.platform.console.ConsoleLauncher", "--scan-classpath", "out", "--include-classname", ".*", "--reports-dir", "reports", "--details", "none")
	passed = map[string]bool{}
	for _, engine := range []string{"jupiter", "vintage"} {
		log, err := os.ReadFile(filepath.Join(dir, "reports", "TEST-junit-"+engine+".xml"))
		if err != nil {
			continue
		}
		passedInXML(t, log, passed, "(")
	}
	return passed, out
}

// TestJavaRun: neutral edits change no verdict, and each sabotage makes its test fail
// and no other.
func TestJavaRun(t *testing.T) {
	t.Parallel()
	needTool(t, "javac")
	for i, name := range []string{"CartTest", "PriceTest"} {
		src := []string{javaFour, javaFive}[i]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tally.AtItsTurn(t, 1+4*i, 8)
			for _, jar := range javaJars {
				if _, err := os.Stat("/usr/share/java/" + jar + ".jar"); err != nil {
					t.Skipf("NOT INSTALLED: %s.jar", jar)
				}
			}
			f, err := ParseJava([]byte(src))
			if err != nil {
				t.Fatal(err)
			}
			triesAll(t, f, func(text []byte) (map[string]bool, string) { return ranJava(t, name, text) })
		})
	}
}
