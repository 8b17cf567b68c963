package canon

import (
	stdjson "encoding/json"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"remit/proof/reason"
)

// Marshal returns the canonical bytes of a Go value. The value maps to JSON as
// in encoding/json (struct tags, json.RawMessage, json.Marshaler), with two
// differences. A nil slice is [] and a nil map is {}: an absent list and an
// empty one must not have two digests (a nil json.RawMessage and a nil pointer
// stay null). And a string that is not valid UTF-8 is an error: encoding/json
// would replace its bad bytes, and different values would then share one
// digest.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v, encodeOptions)
	if err != nil {
		return nil, encodingError("encode", v, err)
	}
	return Canonicalize(text)
}

// Decode reads a hashed record into v. The text must be exactly its own
// canonical form, every key must belong to a field of v with the same letter
// case, and numbers must fit. A key that is missing leaves its field alone:
// a record that has required keys checks them itself.
func Decode(b []byte, v any) error {
	if err := Check(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v, decodeOptions); err != nil {
		return encodingError("decode", v, err)
	}
	return nil
}

var encodeOptions = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	json.FormatNilSliceAsNull(false),
	json.FormatNilMapAsNull(false),
	jsontext.AllowInvalidUTF8(false),
	jsontext.AllowDuplicateNames(false),
	jsontext.EscapeForHTML(false),
	jsontext.EscapeForJS(false),
	jsonv1.ReportErrorsWithLegacySemantics(false), // the others name a JSON pointer
	// To the JSON library, encoding/json's Number is just another string type.
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, n stdjson.Number) error {
		return e.WriteValue(jsontext.Value(n))
	})),
)

var decodeOptions = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsontext.AllowInvalidUTF8(false),
	jsontext.AllowDuplicateNames(false),
	jsonv1.ReportErrorsWithLegacySemantics(false),
	jsonv1.UnmarshalArrayFromAnyLength(false),
	json.MatchCaseInsensitiveNames(false),
	json.RejectUnknownMembers(true),
)

func encodingError(action string, v any, err error) *reason.Error {
	e := reason.Errorf(reason.NotCanonical, "%s %T: %w", action, v, err)
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		e.Field = printable([]byte(semantic.JSONPointer))
	case errors.As(err, &syntactic):
		e.Field = printable([]byte(syntactic.JSONPointer))
	}
	return e
}
