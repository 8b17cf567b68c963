package admission

import (
	"bytes"
	"errors"
	"strconv"

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
