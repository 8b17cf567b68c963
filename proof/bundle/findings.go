package bundle

import (
	"fmt"
	"slices"

	"remit/proof/reason"
)

// findings collects what is wrong. A hostile bundle can be wrong in millions
// of places, so that beyond MaxFindings of one code they are only counted.
type findings struct {
	list  []reason.Finding
	count map[reason.Code]int
}

func (c *findings) add(code reason.Code, path, format string, args ...any) {
	c.put(reason.Finding{Code: code, Path: path}, format, args...)
}

// put is add for a finding with a gate or line; the detail is formatted only
// when it is kept.
func (c *findings) put(f reason.Finding, format string, args ...any) {
	if c.count == nil {
		c.count = map[reason.Code]int{}
	}
	c.count[f.Code]++
	if c.count[f.Code] <= MaxFindings {
		f.Detail = fmt.Sprintf(format, args...)
		c.list = append(c.list, f)
	}
}

func (c *findings) addAll(found []reason.Finding) {
	for _, f := range found {
		c.put(f, "%s", f.Detail)
	}
}

// empty reports that nothing is wrong.
func (c *findings) empty() bool { return len(c.list) == 0 }

// all returns the findings, with one more for each code that was cut short.
func (c *findings) all() []reason.Finding {
	out := slices.Clone(c.list)
	seen := map[reason.Code]bool{}
	for _, f := range c.list {
		if more := c.count[f.Code] - MaxFindings; more > 0 && !seen[f.Code] {
			seen[f.Code] = true
			out = append(out, reason.Finding{Gate: f.Gate, Code: f.Code, Detail: fmt.Sprintf("%d more findings with this code are not listed", more)})
		}
	}
	return out
}

// gateOf attributes a finding about the container to gate 1, which is about
// reading it at all, or to gate 2, which is about everybody reading the same.
func gateOf(code reason.Code) string {
	switch code {
	case reason.ZipUnreadable, reason.ZipTruncated, reason.ZipCRC, reason.ZipMethod, reason.ZipMultiDisk:
		return GateIntegrity
	}
	return GatePortability
}

// unreadableCode is true for findings after which the content of an entry is
// not read: there is no way to, or no safe one.
func unreadableCode(code reason.Code) bool {
	switch code {
	case reason.ZipBomb, reason.ZipEncrypted, reason.ZipMethod, reason.Zip64, reason.ZipMultiDisk:
		return true
	}
	return false
}
