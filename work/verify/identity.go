package verify

import (
	"strings"

	"remit/work/verify/results"
)

// test is the test function of an identity, nil if it is not one of the suite.
func (s *suite) test(id string) *suiteTest {
	if t := s.titles.test(id); t != nil {
		return t
	}
	if t := s.rustTest(id); t != nil {
		return t
	}
	if t := s.byName.test(id); t != nil {
		return t
	}
	if at := goTestName().FindStringIndex(id); at != nil && !strings.Contains(id, "::") {
		name, _, _ := strings.Cut(id[at[0]+1:], "/")
		if t := s.byPackage[id[:at[0]]+"\x00"+name]; t != nil {
			return t
		}
	}
	id, _, _ = strings.Cut(id, "[")
	if file, rest, ok := strings.Cut(strings.TrimSpace(id), "::"); ok {
		module := strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")
		name := strings.ReplaceAll(rest, "::", ".")
		if t := s.byModule[module].test(name); t != nil {
			return t
		}
		return s.inherited(name)
	}
	for i := len(id) - 1; i > 0; i-- {
		if id[i] != '.' {
			continue
		}
		if t := s.byModule[id[:i]].test(id[i+1:]); t != nil {
			return t
		}
	}
	return s.inherited(id)
}

// inherited is the test of a class in another place, as in a mixin: that of the
// same name, when there is only one in all classes.
func (s *suite) inherited(id string) *suiteTest {
	at := strings.LastIndexByte(id, '.')
	if at < 0 {
		return nil
	}
	return s.byMethod[id[at+1:]]
}

func (f *suiteFile) test(name string) *suiteTest {
	if f == nil {
		return nil
	}
	for _, t := range f.tests {
		if t.name == name {
			return t
		}
	}
	return nil
}

// outcomes folds the results of a command into its test functions: one that
// failed in a part has failed. Of a command that was stopped only those that passed
// are known.
func (s *suite) outcomes(c *CommandResult) map[*suiteTest]results.Outcome {
	out := make(map[*suiteTest]results.Outcome)
	for id, o := range c.PerTest {
		t := s.test(id)
		if t == nil || t.unclear(id, c.PerTest) {
			continue
		}
		was, known := out[t]
		if !known || o == results.Fail || was == results.Skip {
			if was != results.Fail {
				out[t] = o
			}
		}
	}
	return out
}

// outcomesOf folds the results of several commands: the worst of each test.
func (s *suite) outcomesOf(ran []CommandResult) map[*suiteTest]results.Outcome {
	out := make(map[*suiteTest]results.Outcome)
	for i := range ran {
		for t, o := range s.outcomes(&ran[i]) {
			if out[t] != results.Fail {
				out[t] = o
			}
		}
	}
	return out
}

// passesInPart says whether a case of a parametrised test of pytest, PHPUnit or JUnit passed:
// each of them is a run of the function, and comes by what is certain in it.
func (s *suite) passesInPart(c *CommandResult, t *suiteTest) bool {
	for id, o := range c.PerTest {
		part := t.file.lang == langPython && strings.Contains(id, "::") && strings.HasSuffix(id, "]") || t.file.lang == langPHP && strings.Contains(id, phpDataSet) ||
			t.file.lang == langJava && strings.ContainsAny(id, javaCase)
		if o == results.Pass && part && s.test(id) == t {
			return true
		}
	}
	return false
}

// addPython indexes a test file by its methods and by the ends of its dotted path.
func (s *suite) addPython(f *suiteFile) {
	for _, t := range f.tests {
		if _, method, ok := strings.Cut(t.name, "."); ok {
			method = method[strings.LastIndexByte(method, '.')+1:]
			if _, twice := s.byMethod[method]; twice {
				s.byMethod[method] = nil
			} else {
				s.byMethod[method] = t
			}
		}
	}
	parts := strings.Split(strings.TrimSuffix(f.path, ".py"), "/")
	for i := range parts {
		module := strings.Join(parts[i:], ".")
		if _, twice := s.byModule[module]; twice {
			s.byModule[module] = nil
		} else {
			s.byModule[module] = f
		}
	}
}
