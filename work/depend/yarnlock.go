package depend

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// yarnEntry is an entry of a yarn.lock of version 1.
type yarnEntry struct {
	line      int
	patterns  []string
	fields    map[string]string            // version, resolved, integrity, uid, registry
	needs     map[string]map[string]string // dependencies and optionalDependencies
	needKinds []string
}

// readYarnLock reads the form that yarn 1 writes: entries without indentation, their
// fields with two blanks, and names with versions with four. Words stand in quotes
// where they have to.
func readYarnLock(text []byte) (entries []*yarnEntry, err error) {
	var in *yarnEntry
	kind, number, patterns := "", 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		rest := strings.TrimLeft(line, " ")
		bad := func(why string) error { return fmt.Errorf("line %d %s", number, why) }
		switch {
		case rest == "" || rest[0] == '#':
			continue
		case strings.ContainsAny(line, "\t\x00"):
			return nil, bad("has a tab or a NUL")
		}
		words, colon, err := yarnWords(rest)
		if err != nil {
			return nil, bad(err.Error())
		}
		switch indent := len(line) - len(rest); {
		case indent == 0 && colon:
			in = &yarnEntry{line: number, patterns: words, fields: map[string]string{}, needs: map[string]map[string]string{}}
			for _, p := range words {
				if patterns[p] {
					return nil, bad("names " + strconv.Quote(p) + " a second time")
				}
				patterns[p] = true
			}
			entries, kind = append(entries, in), ""
		case indent == 2 && colon && in != nil && len(words) == 1:
			if kind = words[0]; in.needs[kind] != nil {
				return nil, bad("has a field a second time")
			}
			in.needs[kind] = map[string]string{}
			in.needKinds = append(in.needKinds, kind)
		case indent == 2 && !colon && in != nil && len(words) == 2:
			if _, twice := in.fields[words[0]]; twice {
				return nil, bad("has a field a second time")
			}
			in.fields[words[0]], kind = words[1], ""
		case indent == 4 && !colon && in != nil && kind != "" && len(words) == 2:
			if _, twice := in.needs[kind][words[0]]; twice {
				return nil, bad("has a field a second time")
			}
			in.needs[kind][words[0]] = words[1]
		default:
			return nil, bad("is no part of an entry")
		}
	}
	if len(entries) > maxYarnEntries {
		return nil, fmt.Errorf("it has more than %d entries", maxYarnEntries)
	}
	return entries, nil
}

const maxYarnEntries = 50_000

var errYarnWords = errors.New("is neither words nor a key with a colon")

// yarnWords splits a line: patterns divided by commas with a colon at the end, or a
// key and a value.
func yarnWords(line string) (words []string, colon bool, err error) {
	for line != "" {
		var word string
		if line[0] == '"' {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				return nil, false, errYarnWords
			}
			if word, err = strconv.Unquote(quoted); err != nil {
				return nil, false, errYarnWords
			}
			line = line[len(quoted):]
		} else {
			end := strings.IndexAny(line, ` ,"`)
			if end < 0 {
				end = len(line)
			}
			word, line = line[:end], line[end:]
			if line == "" && strings.HasSuffix(word, ":") {
				word, line = word[:len(word)-1], ":"
			}
		}
		words = append(words, word)
		switch {
		case line == ":":
			return words, true, nil
		case line == "":
			return words, false, nil
		case strings.HasPrefix(line, ", "):
			line = line[2:]
		case line[0] == ' ':
			line = line[1:]
		default:
			return nil, false, errYarnWords
		}
	}
	return nil, false, errYarnWords
}
