package admission

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"remit/proof/canon"
	"remit/proof/form"
	"remit/proof/reason"
)

// MaxBytes bounds a record's file: more than MaxHistory decisions can need.
const MaxBytes = 4 << 20

// record is what a file can hold.
type record[T any] interface {
	*T
	Check() error
}

// ParseSource reads the text of a source record. file is its name in errors.
func ParseSource(file string, text []byte) (*Source, error) { return parse[Source](file, text) }

// ParseModel reads the text of a model record. file is its name in errors.
func ParseModel(file string, text []byte) (*Model, error) { return parse[Model](file, text) }

// ParseTarget reads the text of a target record. file is its name in errors.
func ParseTarget(file string, text []byte) (*Target, error) { return parse[Target](file, text) }

// ParseProviderDecision reads the text of a provider decision record. file is
// its name in errors.
func ParseProviderDecision(file string, text []byte) (*ProviderDecision, error) {
	return parse[ProviderDecision](file, text)
}

// ParsePromotionDecision reads the text of a promotion decision record. file is
// its name in errors.
func ParsePromotionDecision(file string, text []byte) (*PromotionDecision, error) {
	return parse[PromotionDecision](file, text)
}

func parse[T any, R record[T]](file string, text []byte) (*T, error) {
	rec := R(new(T))
	err := decode(text, rec)
	if err == nil {
		return (*T)(rec), nil
	}
	e := &reason.Error{Code: reason.InvalidAdmission, Message: err.Error(), File: file, Line: 1, Err: err}
	var coded *reason.Error
	if errors.As(err, &coded) {
		e.Message, e.Field = coded.Message, coded.Field
		if coded.Line > 0 {
			e.Line = coded.Line
		}
	}
	return nil, e
}

func decode[R interface{ Check() error }](text []byte, rec R) error {
	if len(text) > MaxBytes {
		return invalid("", "it has more than %d bytes", MaxBytes)
	}
	body, ended := bytes.CutSuffix(text, []byte("\n"))
	if err := canon.Decode(body, rec); err != nil {
		return at(err, text)
	}
	if !ended {
		return invalid("", "the last line does not end")
	}
	if err := rec.Check(); err != nil {
		return err
	}
	// Every key is in what is written: one that the text lacks shows here.
	written, err := encode(rec)
	if err == nil && !bytes.Equal(written, text) {
		err = invalid("", "a key is missing")
	}
	return err
}

func encode[R interface{ Check() error }](rec R) ([]byte, error) {
	if err := rec.Check(); err != nil {
		return nil, err
	}
	b, err := canon.Marshal(rec)
	if err != nil {
		return nil, err
	}
	if len(b) >= MaxBytes {
		return nil, invalid("", "it has more than %d bytes", MaxBytes)
	}
	return append(b, '\n'), nil
}

// byteInMessage is how canon says where a text is wrong.
var byteInMessage = form.Lazy(`\bbyte ([0-9]+)`)

// at adds the line to what canon says. A canonical text is a single line, so
// any other is in the text that was edited.
func at(err error, text []byte) error {
	var coded *reason.Error
	if !errors.As(err, &coded) {
		return err
	}
	found := *coded
	if m := byteInMessage().FindStringSubmatch(coded.Message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			found.Line = 1 + bytes.Count(text[:min(n, len(text))], []byte("\n"))
		}
	}
	return &found
}

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
