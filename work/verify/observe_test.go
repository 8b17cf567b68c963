package verify

import (
	"testing"
	"time"

	"remit/work/sandbox"
)

// TestPartsOfAChange: each part is taken back once, and a run that there is already, of
// the base or of the base with the new tests, is not made again for a change of one part.
func TestPartsOfAChange(t *testing.T) {
	t.Parallel()
	pass, fail := unit(0, map[string]string{"a": "ok"}), unit(1, map[string]string{"a": "FAIL"})
	base := files{"test_a.py": "1", "held.py": "1", "a.py": "import a\nb = 1\n"}.write(t)
	code, test := files{"code": "x"}, files{"code": "x", "test_b.py": "1"}
	for _, tc := range []struct {
		name                   string
		patch, held            files
		without                reply // what the commands say without the code of the change
		runs, tried, unnoticed int
	}{
		{"one part that a test notices", code, nil, fail, 0, 1, 0},
		{"one part that none notices", code, nil, pass, 0, 1, 1},
		{"one part beside held-out tests", code, files{"test_h.py": "1"}, fail, 0, 1, 0},
		{"one part and a new test that notices it", test, nil, fail, 0, 1, 0},
		{"one part and a new test that does not", test, nil, pass, 0, 1, 1},
		{"one part beside comments and documentation", files{"code": "x", "a.py": "import a\n# One.\nb = 1\n", "README.md": "x", "docs/a/b.rst": "x"}, nil, fail, 1, 1, 0},
		{"a comment that is code", files{"code": "x", "a.py": "import a\nb = '# One.'\n"}, nil, fail, 2, 2, 1},
		{"two parts", files{"code": "x", "more": "x"}, nil, fail, 2, 2, 1},
		{"documentation below a directory of code", files{"code": "x", "src/a.md": "x"}, nil, fail, 2, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sb := scripted(func(s sandbox.Spec) ([]reply, error) {
				if laid(s, "code") {
					return []reply{pass}, nil
				}
				return []reply{tc.without}, nil
			})
			v, err := Run(t.Context(), sb, Plan{Lower: base, Patch: tc.patch.changes(), HeldOut: tc.held.changes(), Commands: []string{unitCommand},
				Observe: ObserveAll, Control: ControlOff, Extra: func(time.Duration) time.Duration { return time.Minute },
				OnEvent: func(e Event) {
					if e.Kind == RunFinished && e.Run == TreeHunk {
						tc.runs--
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			ob := v.Observation
			if v.Status != StatusPass || ob == nil || ob.Tried != tc.tried || len(ob.Unobserved) != tc.unnoticed || ob.Skipped != "" || tc.runs != 0 {
				t.Errorf("%s%+v, %d further runs", explain(v), ob, -tc.runs)
			}
		})
	}
}
