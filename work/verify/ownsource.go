package verify

import (
	"errors"
	"slices"

	"remit/proof/form"
)

// readsSource are signs of a test in Python that reads sources, its own among them;
// readsScript those of one in JavaScript.
var readsSource = form.Lazy(`\bgetsource(?:lines)?\(|\blinecache\.|\bopen\(__file__|__file__\)\.read_|\.r?glob\([^)\n]*\*\.py\b|\bast\.parse\(|\btokenize\.`)

// readsOwn are those of one in PHP or Ruby.
var readsOwn = form.Lazy(`(?:file_get_contents|\bfile|fopen|highlight_file|\bread|readlines|foreach|\bopen)\(\s*__FILE__|glob\([^)\n]*\*\.(?:php|rb)\b|Dir\[[^\]\n]*\*\.rb\b`)

var readsScript = form.Lazy(`\breadFile(?:Sync)?\(\s*(?:__filename|fileURLToPath\(import\.meta|new URL\(import\.meta|import\.meta\.)|\.[cm]?[jt]s['"]\s*,\s*['"]utf`)

// A script that reads its own text may find other text there than its author wrote.
var readsItself = form.Lazy(`\b(?:cat|e?grep|sed|awk|head|tail|tar|cksum|md5sum|sha\d+sum|dd|wc|diff|cmp)\b[^\n|;&]*\$(?:0\b|\{?(?:0\}|BASH_SOURCE|BATS_TEST_FILENAME))|<\s*"?\$\{?(?:0\b|BASH_SOURCE)`)

// leaveReaders takes files out whose tests may fail because they are edited. It is
// for commands that name no tests: such a failure is there one of the command, and
// looks like one of the change.
func (s *suite) leaveReaders() {
	s.files = slices.DeleteFunc(s.files, func(f *suiteFile) bool {
		reads := f.lang == langPython && readsSource().Match(f.src) || f.lang == langJavaScript && readsScript().Match(f.src) ||
			(f.lang == langPHP || f.lang == langRuby) && readsOwn().Match(f.src) || (f.lang == langShell || f.lang == langBats) && readsItself().Match(f.src)
		if reads {
			s.leave(f.path, errors.New("its tests read sources, and the command does not name its tests"))
		}
		return reads
	})
	s.index()
}
