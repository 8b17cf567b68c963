package task

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/reason"
)

// checkText refuses text that a person would read differently than a program:
// control characters, direction overrides, invisible tag characters. The
// person who approves a contract must see all of it.
func checkText(r *report, field, value string, lines bool) {
	hidden := strings.IndexFunc(value, func(c rune) bool {
		switch c {
		case '\n', '\t':
			return !lines
		case '\u2028', '\u2029', '\ufeff', utf8.RuneError:
			return true
		}
		return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c >= 0xE0000 && c <= 0xE0FFF
	})
	switch {
	case hidden >= 0:
		c, _ := utf8.DecodeRuneInString(value[hidden:])
		r.field(field, reason.ContractValue, "remove the character", "control or invisible character %U", c)
	case !lines && utf8.RuneCountInString(value) > MaxLineRunes:
		r.field(field, reason.ContractValue, "put details into instructions", "more than %d characters", MaxLineRunes)
	}
}

// isRevision accepts what names one commit and cannot be taken for an option,
// a range or a pathspec.
func isRevision(rev string) bool {
	if rev == "" || len(rev) > 250 || strings.HasPrefix(rev, "-") || strings.Contains(rev, "..") {
		return false
	}
	return !strings.ContainsFunc(rev, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._/@{}~^+-", c)
	})
}
