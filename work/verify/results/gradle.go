package results

import "io"

// Gradle is the format of the reports of Gradle's test tasks.
const Gradle = "gradle"

var gradle = &Adapter{
	Name: Gradle, Title: "Gradle",
	Asked:   "nothing: it writes `build/test-results/*/TEST-*.xml`; those that are newer than the command's start are read",
	Check:   "announced tests and failures of each suite against its cases, exit status",
	Forgery: "the same as for Surefire; the build script itself is code, and is protected only where a command names it",
	Config:  []string{`junit-platform\.properties`},
	Idioms:  []string{"assertEquals(want, got)", "assertThat(got).isEqualTo(want)", "got shouldBe want"},
	file:    readGradle,
}

func readGradle(r io.Reader, _ string) (*Report, error) { return readXML(r, Gradle) }
