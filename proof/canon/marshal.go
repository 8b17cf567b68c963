package canon

import (
	stdjson "encoding/json"
	"errors"
	"strconv"
	"strings"

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

// Hundredths is a decimal with at most two places, counted in hundredths: 100
// is 1, 50 is 0.5, -5 is -0.05. It is the type of final_confidence and
// step_utility. Floating point never enters a record, so there is nothing to
// round and one way only to write a value.
type Hundredths int

// maxHundredths is the largest value that numberProblem lets through.
const maxHundredths = 999_999_999_999_999

// String returns the canonical JSON number.
func (h Hundredths) String() string {
	sign, n := "", uint64(h)
	if h < 0 {
		sign, n = "-", -n
	}
	whole, places := n/100, n%100
	text := sign + strconv.FormatUint(whole, 10)
	if places == 0 {
		return text
	}
	return strings.TrimRight(text+"."+string([]byte{'0' + byte(places/10), '0' + byte(places%10)}), "0")
}

// MarshalJSON writes the canonical JSON number.
func (h Hundredths) MarshalJSON() ([]byte, error) {
	if int64(h) > maxHundredths || int64(h) < -maxHundredths {
		return nil, reason.Errorf(reason.NotCanonical, "decimal %s is out of range", h)
	}
	return []byte(h.String()), nil
}

// UnmarshalJSON accepts canonical numbers only.
func (h *Hundredths) UnmarshalJSON(b []byte) error {
	n, err := parseHundredths(string(b))
	if err != nil {
		return err
	}
	*h = n
	return nil
}

// parseHundredths undoes String. Comparing with what String writes refuses
// every other spelling (1.0, +1, 01, 1e0, -0).
func parseHundredths(text string) (Hundredths, error) {
	whole, places, _ := strings.Cut(text, ".")
	if len(places) <= 2 {
		n, err := strconv.ParseInt(whole+places+"00"[len(places):], 10, strconv.IntSize)
		if h := Hundredths(n); err == nil && n <= maxHundredths && n >= -maxHundredths && h.String() == text {
			return h, nil
		}
	}
	return 0, reason.Errorf(reason.NotCanonical, "%s is not a decimal with at most two places", quote([]byte(text)))
}
