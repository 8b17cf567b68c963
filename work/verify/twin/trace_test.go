package twin

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadTrace(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxTraceLine)
	tests := []struct {
		name, in string
		want     map[string]*FileTrace
	}{
		{"nothing", "", map[string]*FileTrace{}},
		{"each form", "k E 3 1 ok\nk E 3 7 failed\nk E 3 2 failed\nk E 3 7 failed\nk R 4\nk T TestA pass\nk T TestA fail\nk T TestA/b skip\nother-1 R 0\n", map[string]*FileTrace{
			"k": {
				Sites: map[int]*SiteTrace{3: {Evaluations: 7, Failed: []int{2, 7}}, 4: {}},
				Tests: map[string]Outcomes{"TestA": {Pass: 1, Fail: 1}, "TestA/b": {Skip: 1}},
			},
			"other-1": {Sites: map[int]*SiteTrace{0: {}}, Tests: map[string]Outcomes{}},
		}},
		{"malformed", "k E 3 1\nk E 3 0 ok\nk E -3 1 ok\nk E +3 1 ok\nk E 3 1 good\nk R\nk R 1 2\nk R 9999999\nk R 99999999999999999999\nk T TestA won\nk T  pass\nk T\nk_ R 1\n R 1\n\nk X 1\nk R 1\r\n", map[string]*FileTrace{}},
		{"a long line", "k R 1\nk T " + long + " pass\n" + long + long + "\nk R 2\n", map[string]*FileTrace{
			"k": {Sites: map[int]*SiteTrace{1: {}, 2: {}}, Tests: map[string]Outcomes{}},
		}},
		{"a long line at the end", "k R 1\n" + long + long, map[string]*FileTrace{"k": {Sites: map[int]*SiteTrace{1: {}}, Tests: map[string]Outcomes{}}}},
		{"a line that was cut off", "k R 1\nk R 22", map[string]*FileTrace{"k": {Sites: map[int]*SiteTrace{1: {}}, Tests: map[string]Outcomes{}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadTrace(strings.NewReader(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Files, test.want) || got.Truncated {
				t.Errorf("got %+v, truncated %v", got.Files, got.Truncated)
			}
		})
	}
}

func TestReadTraceBounds(t *testing.T) {
	t.Parallel()
	line := "k T " + strings.Repeat("a", 100) + " pass\n"
	n := maxTrace / len(line)
	got, err := ReadTrace(strings.NewReader(strings.Repeat(line, n)))
	if err != nil || got.Truncated {
		t.Fatalf("just below the bound: truncated %v, %v", got.Truncated, err)
	}
	got, err = ReadTrace(strings.NewReader(strings.Repeat(line, n+2)))
	if err != nil || !got.Truncated {
		t.Fatalf("above the bound: truncated %v, %v", got.Truncated, err)
	}
	if o := got.Files["k"].Tests[strings.Repeat("a", 100)]; o.Pass != n {
		t.Errorf("%d lines read, want %d", o.Pass, n)
	}
	broken := errors.New("broken")
	if _, err := ReadTrace(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}
