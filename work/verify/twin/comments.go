package twin

import (
	"bytes"
	"cmp"
	"errors"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"remit/proof/form"
)

// errComments is that it cannot be said where comments are in a text.
var errComments = errors.New("where its comments are cannot be said for sure")

// SameCode reports whether two texts of a file, which the name says the language of,
// differ in comments and empty lines alone. It is false where that is not sure, and
// comments that a program acts on are code: `//go:build`, `@ts-ignore`, `# type: ignore`,
// the line of the interpreter, documentation of Rust, which is tested, and annotations of
// PHP.
func SameCode(name string, a, b []byte) bool {
	read := codeReaders[path.Ext(name)]
	if read == nil || !slices.Equal(actedOn(string(a)), actedOn(string(b))) {
		return false
	}
	was, err := read(name, string(a))
	if err != nil {
		return false
	}
	is, err := read(name, string(b))
	return err == nil && slices.Equal(was, is)
}

// codeReaders read what is code in a text, a token each or a line each, by the end of the
// name of the file.
var codeReaders = map[string]func(name, src string) ([]string, error){
	".go": codeOfGo, ".py": codeOfPython,
	".js": codeOfJS, ".mjs": codeOfJS, ".cjs": codeOfJS, ".jsx": codeOfJS, ".ts": codeOfJS, ".mts": codeOfJS, ".cts": codeOfJS, ".tsx": codeOfJS,
	".php": codeOfScript(func(src string) ([]scriptToken, error) {
		l, err := lexPHP(src)
		if err != nil {
			return nil, err
		}
		return l.tokens, nil
	}, phpMarks),
	".rb": codeOfScript(func(src string) ([]scriptToken, error) {
		l, err := lexRuby(src)
		if err != nil {
			return nil, err
		}
		return l.tokens, nil
	}, nil),
	".java": codeOfBraces(func(src string) ([]braceToken, error) { return lexBraces(src, javaDialect) }, nil, javaEscape),
	".rs":   codeOfBraces(lexRust, rustDocs, rustDocBlock),
	".c":    codeOfC, ".h": codeOfC, ".cc": codeOfC, ".cpp": codeOfC, ".cxx": codeOfC, ".hh": codeOfC, ".hpp": codeOfC,
	".sh": codeOfShell, ".bash": codeOfShell, ".bats": codeOfShell,
}

var (
	phpMarks = form.Lazy(`(?m)^.*@.*$`)
	// The lines with # that a file begins with, and of those what may be read: an interpreter,
	// #compdef, a key with its value.
	scriptTop = form.Lazy(`\A(?:#[^\n]*\n)*`)
	topKey    = form.Lazy(`(?m)^#(?:[!A-Za-z#]|[^\n]*[:=]).*$`)
	// Comments for compilers, checkers, formatters, bundlers, runners and measures of coverage.
	directive = form.Lazy(`(?mi)^.*(?:#|//|/\*|\*|@).*(?:@ts-|@jsx|@flow|sourceMappingURL|__PURE__|<reference|<amd-|@type\b|@typedef|@satisfies|@[a-z]+-environment|@vite-ignore|webpack[a-z]+:|eslint|jshint|biome-|deno-|prettier-|(?:istanbul|c8|v8) ignore|` +
		`\btype: |\bnoqa|\bpragma|pylint|\bpyright|\bmypy|cython|ruff|isort|fmt:|yapf|flake8|distutils|nosec|/// |shareable_constant_value|warn_indent|typed:|rubocop|:nocov:|simplecov|` +
		`fall[ -]?s? ?thr(?:ough|u)|NOLINT|LCOV_|GCOV|clang-|cppcheck|shellcheck|SBATCH|PBS |BSUB |INIT INFO|codeCoverage|phpstan|psalm|phpcs|checkstyle|NOSONAR|coverage:).*$`)
	// A script that reads its own text, help in comments for one.
	readsItself  = form.Lazy(`\b(?:sed|grep|egrep|awk|head|tail|cut|perl|cat|while read)\b[^\n]*(?:\$0|\$\{0|BASH_SOURCE)`)
	rubyHeredocs = form.Lazy("<<[~-]?[\"'`]?[A-Za-z_]")
	rustDocs     = form.Lazy(`(?m)^.*//[/!].*$`)
	rustDocBlock = form.Lazy(`/\*[*!]`)
	cDirectives  = form.Lazy(`(?m)^[ \t]*#(?:[^\n]*\\\r?\n)*[^\n]*`)
	cUnsure      = form.Lazy(`//[^\n]*\\[ \t]*\r?\n|\?\?/|\bu?8?[uUL]?R"`)
)

// actedOn are the lines of a text whose comments a program may act on.
func actedOn(src string) []string {
	return append(topKey().FindAllString(scriptTop().FindString(src), -1), directive().FindAllString(src, -1)...)
}

// piece is a part of the code, where it begins.
type piece struct {
	at   int
	text string
}

// withMarks are the tokens of a text, with what else counts as code in their order.
func withMarks(src string, pieces []piece, marks func() *regexp.Regexp) []string {
	if marks != nil {
		for _, m := range marks().FindAllStringIndex(src, -1) {
			pieces = append(pieces, piece{m[0], "mark " + src[m[0]:m[1]]})
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	out := make([]string, len(pieces))
	for i, p := range pieces {
		out[i] = p.text
	}
	return out
}

// behindSpace is what is written in front of a token that is not the first one: that a line
// begins with it, or that a space is there, which makes `> >` of `>>` and in Ruby decides
// what a character is.
func behindSpace(line, space bool) string {
	switch {
	case line:
		return "\n"
	case space:
		return " "
	}
	return ""
}

func codeOfJS(name, src string) ([]string, error) {
	tokens, err := lexJS(src, jsDialects[path.Ext(name)])
	if err != nil {
		return nil, err
	}
	out := make([]string, len(tokens))
	for i, t := range tokens {
		out[i] = behindSpace(i > 0 && t.line, false) + src[t.start:t.end]
	}
	return out, nil
}

func codeOfScript(lex func(src string) ([]scriptToken, error), marks func() *regexp.Regexp) func(name, src string) ([]string, error) {
	return func(_, src string) ([]string, error) {
		tokens, err := lex(src)
		if err != nil {
			return nil, err
		}
		pieces, end := make([]piece, len(tokens)), 0
		for i, t := range tokens {
			pieces[i] = piece{t.start, behindSpace(i > 0 && t.line, i > 0 && t.start > end) + src[t.start:t.end]}
			end = t.end
		}
		if strings.Contains(src[end:], "?>") || strings.Contains(src, "__END__") || strings.Contains(src, "__halt_compiler") || rubyHeredocs().MatchString(src) {
			return nil, errComments // data that is not among the tokens
		}
		return withMarks(src, pieces, marks), nil
	}
}

func codeOfBraces(lex func(src string) ([]braceToken, error), marks, unsure func() *regexp.Regexp) func(name, src string) ([]string, error) {
	return func(_, src string) ([]string, error) {
		if unsure().MatchString(src) {
			return nil, errComments
		}
		tokens, err := lex(src)
		if err != nil {
			return nil, err
		}
		pieces, end := make([]piece, len(tokens)), 0
		for i, t := range tokens {
			pieces[i] = piece{t.start, behindSpace(false, i > 0 && t.start > end) + src[t.start:t.end]}
			end = t.end
		}
		return withMarks(src, pieces, marks), nil
	}
}

// codeOfC reads C as codeOfBraces does, and each directive for the preprocessor with the lines
// that it goes on in.
func codeOfC(name, src string) ([]string, error) {
	d := cDialect
	d.puncts += "#\\"
	return codeOfBraces(func(src string) ([]braceToken, error) { return lexBraces(src, d) }, cDirectives, cUnsure)(name, src)
}

// codeOfGo reads tokens, and comments that are written like directives; with cgo all of them.
func codeOfGo(_, src string) (out []string, err error) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, []byte(src), func(token.Position, string) { err = errComments }, scanner.ScanComments)
	cgo := strings.Contains(src, `"C"`)
	for {
		_, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return out, err
		case tok == token.COMMENT && !cgo && !goDirective().MatchString(text):
			continue
		case tok == token.SEMICOLON:
			text = ";"
		case text == "":
			text = tok.String()
		}
		out = append(out, text)
	}
}

var goDirective = form.Lazy(`^(?://[a-z]|/\*line |// ?\+build|// ?(?i:(?:unordered )?output):)`)

// codeOfShell prints a script without its comments, unless it reads them.
func codeOfShell(name, src string) ([]string, error) {
	if readsItself().MatchString(src) {
		return nil, errComments
	}
	dialect := syntax.LangBash
	if Bats(name) {
		dialect = syntax.LangBats
	}
	tree, err := syntax.NewParser(syntax.Variant(dialect)).Parse(strings.NewReader(src), "")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := syntax.NewPrinter(syntax.Minify(true)).Print(&out, tree); err != nil {
		return nil, err
	}
	return []string{out.String()}, nil
}

// codeOfPython reads lines without comments, and no lines without code.
func codeOfPython(_, src string) (lines []string, err error) {
	if strings.Contains(strings.ReplaceAll(src, "\r\n", ""), "\r") || strings.Contains(src, "\f") {
		return nil, errComments
	}
	var line strings.Builder
	goesOn := false // the line before ended with a backslash, so even an empty one counts
	flush := func() {
		text := strings.TrimRight(line.String(), " \t\r\n")
		if text != "" || goesOn {
			lines = append(lines, text)
		}
		goesOn = strings.HasSuffix(text, "\\")
		line.Reset()
	}
	for at := 0; at < len(src); {
		switch c := src[at]; c {
		case '\n':
			flush()
			at++
		case '#':
			if end := strings.IndexByte(src[at:], '\n'); end >= 0 {
				at += end
			} else {
				at = len(src)
			}
		case '\'', '"':
			end := pyTextEnd(src, at)
			if end < 0 {
				return nil, errComments
			}
			line.WriteString(src[at:end])
			at = end
		default:
			line.WriteByte(c)
			at++
		}
	}
	flush()
	return lines, nil
}

// pyTextEnd is where a string of Python ends, -1 where that is not sure: in a formatted
// one a quote may stand in braces.
func pyTextEnd(src string, at int) int {
	quote := src[at : at+1]
	if strings.HasPrefix(src[at:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i := at + len(quote); i < len(src); i++ {
		switch {
		case src[i] == '\\':
			i++
		case src[i] == '\n' && len(quote) == 1:
			return -1
		case strings.HasPrefix(src[i:], quote):
			if at > 0 && strings.IndexByte("fFtTrR", src[at-1]) >= 0 && strings.Count(src[at:i], "{") != strings.Count(src[at:i], "}") {
				return -1
			}
			return i + len(quote)
		}
	}
	return -1
}
