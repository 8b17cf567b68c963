package admission

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/reason"
)

// The longest texts, in bytes.
const (
	MaxLine = 1000
	MaxName = 200
)

// problem keeps the first thing that is wrong with a record.
type problem struct{ found *reason.Error }

func (p *problem) is(field, format string, args ...any) {
	if p.found == nil {
		p.found = invalid(field, format, args...)
	}
}

func (p *problem) oneOf(field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		p.is(field, "%q is none of %s", value, strings.Join(allowed, ", "))
	}
}

// line refuses a text that a person would read differently than a program.
func (p *problem) line(field, value string) {
	if strings.TrimSpace(value) == "" {
		p.is(field, "it says nothing")
	}
	p.optional(field, value)
}

func (p *problem) optional(field, value string) {
	if len(value) > MaxLine {
		p.is(field, "more than %d bytes", MaxLine)
	}
	if !utf8.ValidString(value) {
		p.is(field, "not UTF-8")
	}
	for _, c := range value {
		if !unicode.IsPrint(c) || unicode.Is(unicode.Bidi_Control, c) {
			p.is(field, "control or invisible character %U", c)
		}
	}
}

// name is what is compared byte by byte: nothing in it may look like something
// else, so it is visible ASCII.
func (p *problem) name(field, value string) {
	if value == "" || len(value) > MaxName {
		p.is(field, "a name has 1 to %d bytes", MaxName)
	}
	if i := strings.IndexFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }); i >= 0 {
		p.is(field, "%+q has a character that is not visible ASCII", value)
	}
}

func (p *problem) time(field, value string) {
	if !validTime(value) {
		p.is(field, "%q is no time of the form %s", value, TimeFormat)
	}
}

// moving are names that mean another version tomorrow.
var moving = []string{"latest", "next", "beta", "alpha", "canary", "nightly", "stable", "lts", "main", "master", "trunk", "develop", "dev", "tip", "head", "unknown"}

// pinned refuses a reference that can move.
func (p *problem) pinned(field, value string) {
	p.name(field, value)
	switch low := strings.ToLower(value); {
	case slices.Contains(moving, low), strings.HasPrefix(low, "refs/heads/"),
		strings.ContainsAny(value, "*^~<>=|"), strings.HasSuffix(low, ".x"), strings.Contains(low, ".x."):
		p.is(field, "%q is a reference that moves", value)
	case !strings.ContainsAny(value, "0123456789"):
		p.is(field, "%q names no version", value)
	}
}

func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
