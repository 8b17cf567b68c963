package forge

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"remit/proof/reason"
)

// TestEachText: text comes whole, in parts that end between two characters, however
// it is read; what is not UTF-8 is refused wherever it stands.
func TestEachText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", "é", "€", "😀", "a\"\\\n<é€😀"} {
		for _, pad := range []int{0, 1, 2, 3} {
			text := strings.Repeat("x", pad) + strings.Repeat(unit, 70_000)
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "halved": iotest.HalfReader(strings.NewReader(text))} {
				var got, quoted bytes.Buffer
				err := eachText(r, func(part []byte) error {
					got.Write(part)
					q, err := json.Marshal(string(part))
					quoted.Write(q[1 : len(q)-1])
					return err
				})
				var back string
				if err != nil || got.String() != text || json.Unmarshal([]byte(`"`+quoted.String()+`"`), &back) != nil || back != text {
					t.Errorf("%s, %d times %q after %d: %v", name, 70_000, unit, pad, err)
				}
			}
			for _, at := range []int{0, len(text) / 2, len(text)} {
				bad := text[:at] + "\xe2\x82" + text[at:]
				if err := eachText(strings.NewReader(bad), func([]byte) error { return nil }); reason.CodeOf(err) != reason.PredictionsInvalid {
					t.Errorf("half a character at %d of %d: %v", at, len(text), err)
				}
			}
		}
	}
	if err := eachText(strings.NewReader(""), func(part []byte) error { return nil }); err != nil {
		t.Error(err)
	}
}
