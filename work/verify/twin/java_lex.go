package twin

import (
	"strings"

	"remit/proof/form"
)

var (
	javaDialect = braceDialect{puncts: "(){}[];,<>+-*/%&|^!~?:=.@", literal: javaText}
	// Java reads \u0022 as a quote wherever it stands; so with brackets, a line break and the like.
	javaEscape = form.Lazy(`(?:^|[^\\])(?:\\\\)*\\u+00(?:0[aAdD]|2[27-9aAcCfF]|3[bB]|5[bBcCdD]|7[bBdD])`)
)

// javaText reads strings, characters and text blocks.
func javaText(src string, at int) (end int, kind braceKind, err error) {
	rest := src[at:]
	switch {
	case strings.HasPrefix(rest, `"""`):
		for i := 3; i < len(rest); i++ {
			if rest[i] == '\\' {
				i++
			} else if strings.HasPrefix(rest[i:], `"""`) {
				return at + i + 3, braceText, nil
			}
		}
		return 0, 0, errBraceEnd
	case rest[0] == '"' || rest[0] == '\'':
		for i := 1; i < len(rest) && rest[i] != '\n'; i++ {
			switch rest[i] {
			case '\\':
				i++
			case rest[0]:
				return at + i + 1, braceText, nil
			}
		}
		return 0, 0, errBraceEnd
	}
	return 0, 0, nil
}
