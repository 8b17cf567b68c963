package store

import (
	"strconv"
	"strings"
	"sync"
)

// rebound remembers texts: the program has a few hundred of them.
var rebound sync.Map // query with ? → query with $1, $2, …

// rebind numbers the placeholders for PostgreSQL. A ? inside quotes is text.
func rebind(query string) string {
	if known, ok := rebound.Load(query); ok {
		return known.(string)
	}
	var b strings.Builder
	var quote byte
	n := 0
	for i := range len(query) {
		c := query[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '?':
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
			continue
		}
		b.WriteByte(c)
	}
	rebound.Store(query, b.String())
	return b.String()
}
