package task

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/law/yamldoc"
	"remit/proof/reason"
)

// ModelPrice is what a model costs, in millionths of a dollar per million tokens.
type ModelPrice struct {
	In, CacheRead, CacheWrite, Out int64
	CacheWriteHour                 int64 // of what is cached for an hour; 0: as the other cache writes
	UpToInTokens                   int64 // the longest prompt that has this price; 0: any
}

const (
	maxPrices     = 1000
	maxModelPrice = 10_000 * microPerUSD // per million tokens: more is a mistake in the unit
)

// LoadPrices reads a price table of the user: JSON or YAML,
//
//	openai/gpt-5.4: {in: 2.50, cache_read: 0.25, cache_write: 2.50, out: 15}
//
// in dollars per million tokens, at most six places, converted exactly. The key
// is provider, slash, model; everything behind the first slash is the model's
// name. All four prices have to be stated: one that is left out would be
// guessed. Optional are cache_write_hour and up_to_in_tokens. It is read as
// strictly as a task file; the error is Problems, or a *reason.Error when the
// file cannot be read.
func LoadPrices(path string) (map[string]ModelPrice, error) {
	src, err := readRegular(path, MaxSourceBytes)
	if err != nil {
		return nil, err
	}
	return ParsePrices(path, src)
}

// ParsePrices reads a price table. The name is used in messages only.
func ParsePrices(file string, src []byte) (map[string]ModelPrice, error) {
	r := newReport(file)
	top := r.document(src)
	if top == nil {
		return nil, r.err()
	}
	var read map[string]ModelPrice
	prices(&read)(r, "", top)
	if err := r.err(); err != nil {
		return nil, err
	}
	return read, nil
}

// prices reads a price table.
func prices(to *map[string]ModelPrice) reader {
	return func(r *report, field string, n ast.Node) {
		top, ok := n.(*ast.MappingNode)
		if !ok {
			r.wrongType(field, n, "a mapping")
			return
		}
		if len(top.Values) > maxPrices {
			r.add(placeOfNode(top), field, reason.ContractTooLarge, "", "%d prices, at most %d", len(top.Values), maxPrices)
			return
		}
		read := map[string]*ModelPrice{}
		var keys []key
		for _, entry := range top.Values {
			name, _ := keyName(entry.Key)
			if !isPriceName(name) {
				r.add(placeOfNode(entry.Key), join(field, name), reason.ContractValue, "as in openai/gpt-5.4", "%q is not PROVIDER/MODEL", name)
			}
			if read[name] == nil {
				read[name] = new(ModelPrice)
				keys = append(keys, key{name, price(read[name])})
			}
		}
		object(keys)(r, field, top)
		*to = make(map[string]ModelPrice, len(read))
		for name, p := range read {
			(*to)[name] = *p
		}
	}
}

func isPriceName(name string) bool {
	provider, model, ok := strings.Cut(name, "/")
	return ok && provider != "" && model != "" && len(name) <= MaxLineRunes && strings.TrimSpace(name) == name && yamldoc.BadText([]byte(name)) == 0
}

// price reads the parts of one price.
func price(p *ModelPrice) reader {
	parts := []struct {
		name     string
		to       *int64
		required bool
	}{{"in", &p.In, true}, {"cache_read", &p.CacheRead, true}, {"cache_write", &p.CacheWrite, true}, {"out", &p.Out, true},
		{"cache_write_hour", &p.CacheWriteHour, false}}
	keys := []key{{"up_to_in_tokens", integer(&p.UpToInTokens)}}
	for _, part := range parts {
		keys = append(keys, key{part.name, usd(part.to)})
	}
	return func(r *report, field string, n ast.Node) {
		object(keys)(r, field, n)
		for _, part := range parts {
			_, stated := r.places[join(field, part.name)]
			switch {
			case part.required && !stated:
				r.field(join(field, part.name), reason.ContractMissingKey, "dollars per million tokens; 0 if there is no such price", "%s is missing", part.name)
			case *part.to > maxModelPrice:
				r.field(join(field, part.name), reason.ContractValue, "the unit is a million tokens", "more than 10000 dollars per million tokens")
			}
		}
	}
}

// maxInteger is the largest number of a hashed document: 2^53−1, so that every
// JSON reader agrees about it.
const maxInteger = 1<<53 - 1

// microPerUSD is how many micro-USD one USD has.
const microPerUSD = 1_000_000

// plainInteger reads digits and nothing else, without leading zeros.
func plainInteger(s string) (int64, error) {
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("negative number %s", s)
	case s == "" || strings.Trim(s, "0123456789") != "" || len(s) > 1 && s[0] == '0':
		return 0, fmt.Errorf("%q is not a plain decimal number", s)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > maxInteger {
		return 0, fmt.Errorf("%s is larger than %d", s, int64(maxInteger))
	}
	return n, nil
}

// ParseUSD converts a decimal amount of USD, as in "1.50", to micro-USD. The
// conversion is exact: no floating point, and more than six places are an
// error.
func ParseUSD(s string) (int64, error) {
	whole, places, _ := strings.Cut(s, ".")
	if strings.Contains(s, ".") && places == "" {
		return 0, fmt.Errorf("%q has no digits after the point", s)
	}
	usd, err := plainInteger(whole)
	if err != nil {
		return 0, err
	}
	if strings.Trim(places, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a plain decimal number", s)
	}
	if len(places) > 6 {
		return 0, fmt.Errorf("%s has more than six places; micro-USD is the smallest unit", s)
	}
	micro := int64(0)
	if places != "" {
		if micro, err = strconv.ParseInt(places+strings.Repeat("0", 6-len(places)), 10, 64); err != nil {
			return 0, fmt.Errorf("%q is not a plain decimal number", s)
		}
	}
	if usd > maxInteger/microPerUSD || usd*microPerUSD+micro > maxInteger {
		return 0, fmt.Errorf("%s USD is more than can be recorded", s)
	}
	return usd*microPerUSD + micro, nil
}

// usd reads an amount in USD. The scalar's own text is converted: the
// library's float is never looked at.
func usd(micro *int64) reader {
	return func(r *report, field string, n ast.Node) {
		var digits string
		switch n := n.(type) {
		case *ast.FloatNode:
			digits = n.Token.Value
		case *ast.IntegerNode:
			digits = n.Token.Value
		default:
			r.wrongType(field, n, "an amount in USD")
			return
		}
		value, err := ParseUSD(digits)
		if err != nil {
			r.add(placeOfNode(n), field, reason.ContractValue, "write an amount such as 1.50", "%v", err)
			return
		}
		*micro = value
	}
}
