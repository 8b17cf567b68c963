package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

var testValues = []Value{{"A_TOKEN", "s3cr" + "et-value-of-a"}, {"B_KEY", "an0ther/" + "value+of=b"}, {"LINES", "first line\nsecond l1ne\n"}}

// scraps are what texts are made of: secrets, halves of them, what surrounds them.
func scraps() []string {
	out := []string{"", " ", "\n", "\r\n", "\\n", "\"", "=", "-", "+", "x", ".", "://u:", "@h.corp.net", "-----BEGIN ", "\x00", "é"}
	for _, v := range testValues {
		out = append(out, v.Value, v.Value[:5], v.Value[5:], base64.StdEncoding.EncodeToString([]byte("z"+v.Value)))
	}
	for _, s := range []string{pem("EC PRIVATE KEY", "\n"), jwt(`{"alg":"ES256"}`), "gh" + "o_" + random(1, alnum, 36), "AK" + "IA" + random(1, base32Chars, 16)} {
		out = append(out, s, s[:len(s)/2], s[len(s)/2:])
	}
	return out
}

// TestBordersOfWrites: where a text is cut into writes makes no difference.
func TestBordersOfWrites(t *testing.T) {
	t.Parallel()
	s, parts := New(testValues), scraps()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 30).Draw(t, "text"), "")
		want := collect(s, All, text)
		var got []Finding
		scan := s.Stream(All, func(f Finding, _ []byte) { got = append(got, f) })
		for rest := text; len(rest) > 0; {
			n := min(rapid.IntRange(1, 200).Draw(t, "n"), len(rest))
			_, _ = scan.Write([]byte(rest[:n]))
			scan.step(false) // as if the window were full
			rest = rest[n:]
		}
		scan.Close()
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces %+v, at once %+v", got, want)
		}
		if red := s.Redact(text); len(collect(s, All, red)) != 0 {
			t.Fatalf("%q still has %+v", red, collect(s, All, red))
		}
	})
}

// TestFarApart: secrets are found at every place of a long text, with a window
// that does not grow.
func TestFarApart(t *testing.T) {
	t.Parallel()
	s := New(testValues)
	key := pem("RSA PRIVATE KEY", "\n")
	var want []int64
	var got []int64
	scan := s.Stream(All, func(f Finding, text []byte) {
		got = append(got, f.Offset)
		if f.Kind != Credential && string(text) != key {
			t.Errorf("text %q", text)
		}
	})
	at, window := int64(0), 0
	write := func(text string) {
		_, _ = scan.Write([]byte(text))
		at += int64(len(text))
		window = max(window, len(scan.buf))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		write(strings.Repeat("some words -----BEGIN of eyJ a ", r.IntN(2000)))
		want = append(want, at)
		write([]string{testValues[0].Value, key, testValues[1].Value}[i%3])
	}
	scan.Close()
	if !slices.Equal(got, want) {
		t.Errorf("%d found, %d written", len(got), len(want))
	}
	if window > 2*blockBytes {
		t.Errorf("the window grew to %d bytes", window)
	}
}

// TestHostileTexts take linear time and constant memory.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const size = 1 << 18
	s := New(testValues)
	value := testValues[0].Value
	for name, unit := range map[string]string{
		"JWT beginnings": "eyJ", "JWT headers": jwt(`{"alg":"HS256"}`)[:20] + ".", "dots": "eyJ.", "URLs": "://", "users": "://a:b", "hosts": "x://aaaaaaa:",
		"keys": "-----BEGIN PRIVATE KEY-----", "bodies": "-----BEGIN PRIVATE KEY-----\n" + random(1, alnum, 64) + "\n", "headers": "-----BEGIN PRIVATE KEY-----\nA: b\n",
		"tokens": "gh" + "p_", "fine": "github_" + "pat_", "line breaks": "\n", "values": value, "half": value[:anchorBytes], "broken": value[:anchorBytes] + "\n\n\n",
		"AWS": "aws_secret_access_key  =", "zero": "\x00", "dashes": "sk-", "remit": "rm" + "t_ab_c_", "colours": "\x1b[1;1;1;1meyJ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat(unit, size/len(unit))
			began := time.Now()
			scan := s.Stream(All, func(Finding, []byte) {})
			_, _ = scan.Write([]byte(text))
			window := len(scan.buf)
			scan.Close()
			// A quadratic scan takes minutes; the race detector and a busy machine do not.
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %s", took)
			}
			if window > 3*blockBytes {
				t.Errorf("the window grew to %d bytes", window)
			}
		})
	}
}

func TestScanReportsReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := New(nil)
	if err := s.Scan(iotest.ErrReader(broken), All, nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := s.ScanPatch(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := Copy(io.Discard, iotest.ErrReader(broken), nil, true); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := Copy(io.Discard, strings.NewReader("ab"), []Finding{{Offset: 1, Length: 5}}, true); err == nil {
		t.Error("a finding behind the end of the text")
	}
	if err := Copy(iotest.TruncateWriter(brokenWriter{broken}, 0), strings.NewReader("abcdef"), []Finding{{Offset: 1, Length: 2}}, false); err != nil && !errors.Is(err, broken) {
		t.Error(err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestCopy(t *testing.T) {
	t.Parallel()
	f := func(offset, length int64) Finding { return Finding{Kind: "jwt", Offset: offset, Length: length} }
	tests := []struct {
		name, text string
		findings   []Finding
		lines      bool
		want       string
	}{
		{"nothing", "abc", nil, false, "abc"},
		{"middle", "abcdef", []Finding{f(2, 2)}, false, "ab[redacted:jwt]ef"},
		{"ends, out of order", "abcdef", []Finding{f(4, 2), f(0, 1)}, false, "[redacted:jwt]bcd[redacted:jwt]"},
		{"overlapping", "abcdef", []Finding{f(1, 3), f(2, 1), f(3, 2)}, false, "a[redacted:jwt][redacted:jwt]f"},
		{"over lines", " x\n+ab\n+cd\n+\n y", []Finding{f(5, 8)}, true, " x\n+a[redacted:jwt]\n+[redacted:jwt]\n+\n y"},
		{"binary", "ab\ncd\nef", []Finding{{Kind: BinaryContent, Offset: 1, Length: 5}}, true, "a[redacted:binary-content]ef"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := Copy(&out, strings.NewReader(test.text), test.findings, test.lines); err != nil || out.String() != test.want {
				t.Errorf("%q, %v, want %q", out.String(), err, test.want)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	s, parts := New(testValues), scraps()
	for i := range parts {
		f.Add([]byte("a "+parts[i]+parts[(i*7+3)%len(parts)]+" b"), uint16(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		want := collect(s, All, string(text))
		end := int64(0)
		for _, w := range want {
			if w.Offset < end || w.Length <= 0 || w.Offset+w.Length > int64(len(text)) {
				t.Fatalf("findings overlap or lie outside: %+v", want)
			}
			end = w.Offset + w.Length
		}
		var got []Finding
		scan := s.Stream(All, func(f Finding, _ []byte) { got = append(got, f) })
		n := min(int(cut), len(text))
		_, _ = scan.Write(text[:n])
		scan.step(false)
		_, _ = scan.Write(text[n:])
		scan.Close()
		if !slices.Equal(got, want) {
			t.Fatalf("cut at %d: %+v, at once %+v", n, got, want)
		}
		if red := s.Redact(string(text)); len(collect(s, All, red)) != 0 {
			t.Fatalf("%q still has %+v", red, collect(s, All, red))
		}
		if _, err := s.ScanPatch(strings.NewReader(string(text)), func(f Finding, _ []byte) {
			if f.Length <= 0 || f.Offset < 0 || f.Offset+f.Length > int64(len(text)) {
				t.Fatalf("outside of the patch: %+v", f)
			}
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkScan is a test log of ordinary lines, with what begins as secrets do.
func BenchmarkScan(b *testing.B) {
	var text strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for text.Len() < 8<<20 {
		fmt.Fprintf(&text, "=== RUN   TestThing%d/case_%d\n    thing_test.go:%d: got https://host-%d/path, want task-sk-%x: the quick brown fox\n", r.IntN(99), r.IntN(9), r.IntN(999), r.IntN(9), r.Int64())
	}
	var many []Value
	for i := range 30 {
		many = append(many, Value{fmt.Sprintf("T%d", i), random(uint64(i), alnum, 40)})
	}
	for name, values := range map[string][]Value{"shapes": nil, "values": many} {
		b.Run(name, func(b *testing.B) {
			s := New(values)
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				if err := s.Scan(strings.NewReader(text.String()), All, func(f Finding, _ []byte) { b.Fatal(f) }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNew is what a run pays before it scans.
func BenchmarkNew(b *testing.B) {
	values := []Value{{"A", random(1, alnum, 40)}, {"B", random(2, alnum, 100)}, {"C", pem("PRIVATE KEY", "\n")}}
	for b.Loop() {
		New(values)
	}
}
