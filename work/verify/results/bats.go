package results

import "io"

// Bats is what bats prints into a pipe: TAP.
const Bats = "bats"

var bats = &Adapter{
	Name: Bats, Title: "bats", Tried: "bats 1.8.2",
	Asked:   "nothing: bats prints TAP into a pipe; behind another command it is read as `tap`",
	Check:   "plan against lines, numbers in order, exit status",
	Forgery: "`echo \"ok 77\" >&3` in a test is a result line; plan and numbers show it, unless the test ends the run as well",
	Config:  []string{`setup_suite\.bash`},
	Idioms:  []string{"[ \"$status\" -eq 0 ]", "[[ $output == want ]]", "assert_output", "assert_success"},
	call:    startedBy("bats"), mute: []string{"-c", "--count", "-h", "--help", "-v", "--version", "-p", "--pretty", "-F", "--formatter"},
	read: func(r io.Reader) (*Report, error) { return readPlanned(r, Bats) },
}
