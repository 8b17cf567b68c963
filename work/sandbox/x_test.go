package sandbox
import ("testing";"context";"fmt";"time")
func TestX(t *testing.T) {
	open1(t)
	lower := t.TempDir()
	write(t, lower+"/file", "x")
	ng := without(t, controlled{noGroups: true})
	for range 10 { s := time.Now(); ng.Run(context.Background(), Spec{Lower: lower, Commands: []Command{{Argv: []string{"/bin/true"}}}}); fmt.Println(time.Since(s)) }
}
