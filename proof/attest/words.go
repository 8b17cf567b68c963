package attest

import (
	"errors"
	"strings"
)

// splitQuoted splits a line at spaces and tabs outside of double quotes. Quotes
// stay in their words.
func splitQuoted(line string) ([]string, error) {
	var words []string
	word, quoted := -1, false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
			if word < 0 {
				word = i
			}
		case (c == ' ' || c == '\t') && !quoted:
			if word >= 0 {
				words = append(words, line[word:i])
			}
			word = -1
		case word < 0:
			word = i
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if word >= 0 {
		words = append(words, line[word:])
	}
	return words, nil
}

// unquote takes the quotes off a word that is quoted as a whole.
func unquote(word string) string {
	if len(word) >= 2 && word[0] == '"' && word[len(word)-1] == '"' {
		return word[1 : len(word)-1]
	}
	return word
}

// cutOption cuts the first option off a list; a comma inside of quotes does not
// end it.
func cutOption(text string) (option, rest string) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// matchList holds a name against a list of patterns (ssh_config(5)): one that
// begins with ! refuses what it matches, and one other at least must match.
func matchList(patterns []string, name string) bool {
	matched := false
	for _, p := range patterns {
		negated := strings.HasPrefix(p, "!")
		if match(strings.TrimPrefix(p, "!"), name) {
			if negated {
				return false
			}
			matched = true
		}
	}
	return matched
}

// match holds a name against one pattern, in which ? is one byte and * is any
// number of them. Its time is at most the product of both lengths.
func match(pattern, name string) bool {
	p, n, star, again := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, again = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			again++
			p, n = star+1, again
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
