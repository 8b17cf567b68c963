//go:build linux

package sandbox

import (
	"fmt"
	"strconv"
	"strings"

	"remit/proof/reason"
)

// maxAccounts bounds the files of accounts of an image.
const maxAccounts = 1 << 20

// identity is the one user of a command inside.
type identity struct {
	uid, gid int
	name     string
	shell    string
}

// ordinary is the user of a root that names none.
var ordinary = identity{uid: runUID, gid: runGID, name: "remit", shell: "/bin/sh"}

// accountOf finds the user that an image names, as USER or USER:GROUP, each a name
// or a number. Root becomes the ordinary one.
func accountOf(user, passwd, group string) (identity, error) {
	as := ordinary
	name, groupName, _ := strings.Cut(user, ":")
	if name == "" {
		return as, nil
	}
	line := find(passwd, 7, func(f []string) bool { return f[0] == name || f[2] == name })
	uid, gid := idOf(name), -1
	if line != nil {
		uid, gid, as.name = idOf(line[2]), idOf(line[3]), line[0]
		if strings.HasPrefix(line[6], "/") {
			as.shell = line[6]
		}
	}
	if groupName != "" {
		gid = idOf(groupName)
		if g := find(group, 4, func(f []string) bool { return f[0] == groupName }); g != nil {
			gid = idOf(g[2])
		}
		if gid < 0 {
			return as, reason.Errorf(reason.ImageUnusable, "sandbox: the image names the group %.100q, which it does not have", groupName)
		}
	}
	switch {
	case uid < 0:
		return as, reason.Errorf(reason.ImageUnusable, "sandbox: the image names the user %.100q, which it does not have", name)
	case uid == 0:
		return ordinary, nil
	case gid <= 0:
		gid = runGID
	}
	as.uid, as.gid = uid, gid
	return as, nil
}

// find returns the fields of the first line that is meant.
func find(lines string, fields int, meant func([]string) bool) []string {
	for line := range strings.Lines(lines) {
		if f := strings.Split(strings.TrimRight(line, "\r\n"), ":"); len(f) == fields && meant(f) {
			return f
		}
	}
	return nil
}

// idOf reads the id of a user or group, -1 if it is none.
func idOf(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}

// passwd are our user and the image's others. Ours comes first, since the first
// line of a name or number counts, and has the home that commands can write.
func (as identity) passwd(image string) string {
	out := fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", as.name, as.uid, as.gid, as.name, insideHome, as.shell)
	return out + continued(image, etcFiles()["passwd"], 7)
}

// group are our group and the image's.
func (as identity) group(image string) string {
	id := strconv.Itoa(as.gid)
	out := ""
	if find(image, 4, func(f []string) bool { return f[2] == id }) == nil {
		out = fmt.Sprintf("%s:x:%s:\n", as.name, id)
	}
	return out + continued(image, etcFiles()["group"], 4)
}

// continued are the well-formed lines of the image, and of ours those whose name
// it does not have.
func continued(image, ours string, fields int) string {
	var out strings.Builder
	for _, lines := range []string{image, ours} {
		for line := range strings.Lines(lines) {
			f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
			if len(f) != fields || f[0] == "" || find(out.String(), fields, func(g []string) bool { return g[0] == f[0] }) != nil {
				continue
			}
			out.WriteString(strings.Join(f, ":") + "\n")
		}
	}
	return out.String()
}
