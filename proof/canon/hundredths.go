package canon

import (
	"strconv"
	"strings"

	"remit/proof/reason"
)

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
