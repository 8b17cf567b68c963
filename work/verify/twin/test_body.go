package twin

// braced are tokens with brackets, as the lexers of PHP and of Java make them.
type braced interface {
	text(i int) string
	// closing is the bracket that closes the one at i, or -1.
	closing(i int) int
}

// testBody is the body of a test between two braces, in which places are looked for.
type testBody struct {
	t          *scriptTest
	tokens     braced
	brace, end int
	early      int         // the first token that may end the test in front of its end
	parent     map[int]int // of each token: the bracket that it is in
}

// newTestBody is the body that begins with a brace, of which nothing ends it early.
func newTestBody(tokens braced, t *scriptTest, brace int) testBody {
	b := testBody{t: t, tokens: tokens, brace: brace, end: tokens.closing(brace), parent: map[int]int{}}
	b.early = b.end
	open := []int{brace}
	for i := brace + 1; i < b.end; i++ {
		if i == tokens.closing(open[len(open)-1]) {
			open = open[:len(open)-1]
		}
		b.parent[i] = open[len(open)-1]
		if tokens.closing(i) > 0 {
			open = append(open, i)
		}
	}
	return b
}

func (b *testBody) add(s scriptPlace) { b.t.places = append(b.t.places, s) }

// statementEnd is the semicolon behind a token, or the end of the body.
func (b *testBody) statementEnd(i int) int {
	for ; i < b.end && b.tokens.text(i) != ";"; i++ {
		if b.tokens.closing(i) > 0 {
			i = b.tokens.closing(i)
		}
	}
	return i
}

// calls says whether a statement that goes to a token calls something.
func (b *testBody) calls(from, to int) bool {
	for ; from < to; from++ {
		if b.tokens.text(from) == "(" {
			return true
		}
	}
	return false
}

// certain says whether an expression is reached whenever the test passes: it begins a
// statement of the test itself, and nothing in front of it may end the test.
func (b *testBody) certain(i int) bool {
	before := b.tokens.text(i - 1)
	return b.parent[i] == b.brace && i < b.early && (i == b.brace+1 || before == ";" || before == "}")
}
