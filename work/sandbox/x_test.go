package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestX(t *testing.T) {
	d := open1(t)
	lower := t.TempDir()
	write(t, lower+"/file", "x")
	for range 200 {
		_, err := d.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"/bin/true"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	m := map[string][]int{}
	var order []string
	for _, s := range Dbg[5:] {
		for l := range strings.Lines(s) {
			i := strings.LastIndex(l, " ")
			var n int
			fmt.Sscanf(l[i:], "%d", &n)
			if m[l[:i]] == nil {
				order = append(order, l[:i])
			}
			m[l[:i]] = append(m[l[:i]], n)
		}
	}
	for _, k := range order {
		slices.Sort(m[k])
		fmt.Println(k, m[k][len(m[k])/2])
	}
	slices.Sort(E)
	fmt.Println(E[len(E)/2])
}
