package depend

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// Bounds on a lock file in TOML: its parser is recursive.
const (
	maxTOMLDepth = 32
	maxTOMLLine  = 256 << 10
)

// readTOML reads a lock file in TOML into a value.
func readTOML(text []byte, into any) error {
	if err := boundedTOML(text); err != nil {
		return err
	}
	if err := toml.Unmarshal(text, into); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, _ := at.Position()
			return fmt.Errorf("line %d: %w", line, err)
		}
		return err
	}
	return nil
}

// boundedTOML refuses brackets that nest too deep, and lines that are too long. What
// stands in texts and comments is not counted.
func boundedTOML(text []byte) error {
	line, began, deep := 1, 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			line, began = line+1, i+1
		case '#':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end, more := skipText(text, i)
			if line += more; more > 0 {
				began = end
			}
			i = end
		case '[', '{':
			deep++
		case ']', '}':
			deep--
		}
		if deep > maxTOMLDepth {
			return fmt.Errorf("line %d: brackets nest deeper than %d", line, maxTOMLDepth)
		}
		if i-began > maxTOMLLine {
			return fmt.Errorf("line %d has more than %d bytes", line, maxTOMLLine)
		}
	}
	return nil
}

// skipText returns the index of the last byte of a text that begins at i, and how
// many lines it goes over.
func skipText(text []byte, i int) (end, lines int) {
	quote, long := text[i], i+2 < len(text) && text[i+1] == text[i] && text[i+2] == text[i]
	if long {
		i += 2
	}
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == '\n' && !long:
			return i - 1, lines // no text, which the parser will say
		case text[i] == '\n':
			lines++
		case text[i] == quote && !long:
			return i, lines
		case text[i] == quote && i+2 < len(text) && text[i+1] == quote && text[i+2] == quote:
			return i + 2, lines
		}
	}
	return len(text), lines
}
