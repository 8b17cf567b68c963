package results

import "strings"

// word is one word of a shell command with its place in the command line.
type word struct {
	text       string // after removing quotes
	start, end int    // bytes of the command line, quotes included
}

// simpleWords splits a command line that is one simple command: words and
// quotes, no expansion, redirection, list, pipeline or comment. Anything that
// a shell could read in another way than this function is not simple.
func simpleWords(line string) ([]word, bool) {
	var words []word
	var b strings.Builder
	start := -1
	flush := func(at int) {
		if start >= 0 {
			words = append(words, word{b.String(), start, at})
			b.Reset()
			start = -1
		}
	}
	for i := 0; i < len(line); i++ {
		ch := line[i]
		if ch == ' ' || ch == '\t' {
			flush(i)
			continue
		}
		if strings.IndexByte("|&;<>()$`\n\r#!{}\x00", ch) >= 0 {
			return nil, false
		}
		if start < 0 {
			start = i
		}
		switch ch {
		case '\'', '"':
			n, ok := quoted(&b, line[i+1:], ch)
			if !ok {
				return nil, false
			}
			i += n
		case '\\':
			if i+1 >= len(line) || line[i+1] == '\n' {
				return nil, false
			}
			i++
			b.WriteByte(line[i])
		default:
			b.WriteByte(ch)
		}
	}
	flush(len(line))
	return words, len(words) > 0
}

// quoted reads up to the closing quote and returns how many bytes that is,
// the quote included.
func quoted(b *strings.Builder, s string, quote byte) (int, bool) {
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == quote:
			return i + 1, true
		case ch == '\n' || ch == 0:
			return 0, false
		case quote == '\'':
			b.WriteByte(ch)
		case ch == '$' || ch == '`' || ch == '!':
			return 0, false
		case ch == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case ch == '\\':
			return 0, false
		default:
			b.WriteByte(ch)
		}
	}
	return 0, false
}

// insert puts text behind the first n words of line.
func insert(line string, words []word, n int, text string) string {
	at := words[n-1].end
	return line[:at] + " " + text + line[at:]
}
