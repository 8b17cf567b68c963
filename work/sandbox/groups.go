//go:build linux

package sandbox

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// keptGroups says which groups the commands of an ordinary user keep, "" for
// none. As root they are dropped with the uid. An ordinary user cannot drop one:
// the kernel refuses setgroups in a user namespace that the user made, since a
// group can also take rights away. So what is shown and readable for such a
// group can be read inside, whatever identity a command sees.
func keptGroups() string {
	ids, err := os.Getgroups()
	if err != nil {
		return "groups: cannot tell which groups of yours the commands keep: " + err.Error()
	}
	ids = slices.DeleteFunc(ids, func(id int) bool { return id == os.Getegid() })
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	names := make([]string, 0, len(ids))
	for _, id := range slices.Compact(ids) {
		name := strconv.Itoa(id)
		if g, err := user.LookupGroupId(name); err == nil {
			name = fmt.Sprintf("%s (%s)", g.Name, name)
		}
		names = append(names, name)
	}
	return "groups: a command can read what is shown to it and readable for your groups " + strings.Join(names, ", ")
}
