package task

import (
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
