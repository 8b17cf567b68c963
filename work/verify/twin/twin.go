// Package twin edits test files so that a verifier can see whether their tests
// are able to fail.
//
// A test counts as proof only if it passes in a run where it means what it
// says, and fails in a run where it must, and the code under test cannot tell
// the two runs apart. So every place where a test could be made to fail is
// edited in every such run: most of them so that nothing changes (neutral), one
// of a chosen test so that the test has to fail (sabotage). The two forms of an
// edit look alike: which of them a place has depends on values that are drawn
// anew for each run, not on the form of the code.
//
// # Kinds
//
//	flip    the condition of an assertion is turned round. What hides a failure
//	        then shows a pass: with the bug still there the turned assertion is
//	        silent.
//	expect  an assertion expects another value of the same type. What claims to
//	        be equal to everything is found by it.
//	fail    a failing statement that is reached whatever the test does. What
//	        turns verdicts round, exits early or never reaches the assertion is
//	        found by it.
//
// # Editing
//
// A [File] holds the places of one test file. Edits are made on the text: line
// numbers stay the same wherever the language allows it, nothing is removed but a
// literal or an operator that another text takes the place of, and what is added
// lies on lines that are there (Go) or at the end of the file. No code of the
// repository is executed or imported to find the places.
//
// An editor that cannot edit a file says so with an error, and one that finds
// nothing to edit in a test says why in [Test.Why]. Neither is ever passed over
// in silence: such a test is not controlled, and the report counts it so.
package twin

// Kind is how a sabotaged place makes its test fail.
type Kind string

// The kinds, see the package comment.
const (
	Flip   Kind = "flip"
	Expect Kind = "expect"
	Fail   Kind = "fail"
)

// Site is one place that can be sabotaged.
type Site struct {
	ID   int // within the file, from 0 in the order of the text
	Kind Kind
	Line int // 1-based
	// Certain is set for a place that is reached whenever the test passes: what ends
	// the test before it is a failure.
	Certain bool
	// Loose is set for an expected value of which another one may be as good: only
	// where the base fails with it does a pass say something.
	Loose bool
	// Literals is of how many literals one at a time can be another one, where there
	// are several.
	Literals int
}

// Test is one test function of a file. Subtests, table rows and parametrised
// cases belong to the function that holds them.
type Test struct {
	// Name is "TestAdd" for Go, "test_add" or "Calc.test_add" for Python, and "calc >
	// adds" for JavaScript, with "*" for a part of a title that is computed.
	Name  string
	Line  int
	Sites []Site // in which this test, and no other, fails when they are sabotaged
	Why   string // why there is no site, "" when there is one
	// Title is, for JavaScript, the title behind those of the groups that it is in,
	// cut where a part of it is computed: one text where none is.
	Title []string
	// Trace is the name of the test in a trace, "" where it is Name.
	Trace string
}

// File is a test file that can be edited. It is immutable, and safe for
// concurrent use.
type File interface {
	// Tests are the test functions in the order of the text.
	Tests() []Test
	// Edit returns the file with every site edited: neutral, but for the sites
	// that o names. Two calls with the same orders give the same bytes.
	Edit(o Orders) ([]byte, error)
}

// Orders say how a file is to be edited for one run.
type Orders struct {
	// Seed decides names, constants, order and the choice of shapes. It is drawn
	// from crypto/rand for each run, and differs between runs of one verification.
	Seed [32]byte
	// Sabotage names the site, by test name, that has to make the test fail. A
	// test that is not named is neutral.
	Sabotage map[string]Order
	// Trace, when set, has the edited file record what happens in it: the path
	// of a file that every process of the run may append to, in the sandbox. It
	// is for runs of the base only, in which no code of a patch takes part.
	Trace string
	// Key names the file in the trace: letters, digits and '-'.
	Key string
	// Held are assertions of C and of scripts that hold whatever they ask, by the number of
	// their site. It goes with Trace.
	Held map[int]bool
	// Quiet has reports of failures in Go say nothing, each in the same way, where
	// package testing is not edited by [QuietTesting]. What a library or the output
	// of an example says stays.
	Quiet bool
}

// Order is one sabotage.
type Order struct {
	Site int
	// Evaluation is which evaluation of a flip is turned round, 1-based, counted
	// over the process; 0 turns every one of them. Of an expected value that comes
	// from a row of a table it says which row has another one. Other sites ignore it.
	Evaluation int
	// Literal is which of several literals is another one, 1-based and over again; 0
	// draws one.
	Literal int
}

// Trace lines, one a write of at most 512 bytes, appended:
//
//	KEY E SITE EVALUATION ok|failed    an assertion was evaluated: its first
//	                                   evaluation, and the first 16 that failed
//	KEY E SITE EVALUATION began        one is evaluated, which may end the process
//	KEY R SITE                         a site of another kind was reached, once
//	KEY T TEST pass|fail|skip          a test function ended; TEST is Test.Name,
//	                                   or the full name of a subtest (TestX/row)
//
// What cannot be read as such a line is passed over by the reader.
