package task

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"remit/proof/reason"
)

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
