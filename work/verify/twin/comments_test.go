package twin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSameCode: what only comments on the code is the same, and what might be more is not.
func TestSameCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, before, after string
		same                bool
	}{
		{"a.go", "package a\n\nvar A = 1\n", "// Package a.\npackage a\n\n// A is one.\nvar A = 1 // really\n", true},
		{"a.go", "package a\n\nvar A = 1\n", "package a\n\nvar A = 2\n", false},
		{"a.go", "package a\n\nvar A = \"// a\"\n", "package a\n\nvar A = \"// b\"\n", false},
		{"a.go", "package a\n\nvar A = `\n// a\n`\n", "package a\n\nvar A = `\n// b\n`\n", false},
		{"a.go", "package a\n", "//go:build ignore\n\npackage a\n", false},
		{"a.go", "package a\n", "// +build ignore\n\npackage a\n", false},
		{"a.go", "package a\n", "//line x.go:1\npackage a\n", false},
		{"a.go", "package a\n\n// int x;\nimport \"C\"\n", "package a\n\n// int y;\nimport \"C\"\n", false},
		{"a.go", "package a\n\nfunc f() int { return 1 }\n", "package a\n\nfunc f() int { return /*\n*/ 1 }\n", false},
		{"a.go", "package a\n\nfunc f( {\n", "package a\n\n// f.\nfunc f( {\n", true},
		{"a.py", "x = 1\n", "# One.\n\nx = 1  # really\n", true},
		{"a.py", "# Copyright 2024 A\nx = 1\n", "# Copyright 2025 A\nx = 1\n", true},
		{"a.py", "import os\nx = f()\n", "import os\nx = f()  # type: ignore[attr]\n", false},
		{"a.py", "import os\n\nx = f()\n", "import os\n\n# cython: language_level=3\nx = f()\n", false},
		{"a.rb", "#!/usr/bin/ruby\n# Adds.\na\n", "#!/usr/bin/ruby\n# Adds two.\na\n", true},
		{"a.rb", "a\nB = []\n", "a\n# shareable_constant_value: literal\nB = []\n", false},
		{"a.js", "f()\nimport(a)\n", "f()\nimport(/* webpackChunkName: \"a\" */ a)\n", false},
		{"a.ts", "f()\n", "/// <reference types=\"node\" />\nf()\n", false},
		{"a.js", "const a = {type: 1} // one\n", "const a = {type: 1} // two\n", true},
		{"a.js", "f()\n", "/* eslint-disable */\nf()\n", false},
		{"a.php", "#!/usr/bin/php\n<?php\n", "#!/usr/bin/php8\n<?php\n", false},
		{"a.c", "case 1: f();\ncase 2: g();\n", "case 1: f();\n/* fall through */\ncase 2: g();\n", false},
		{"a.sh", "#!/bin/sh\n#: one\nsed -n 's/^#: //p' \"$0\"\n", "#!/bin/sh\n#: two\nsed -n 's/^#: //p' \"$0\"\n", false},
		{"a.sh", "#!/bin/sh\n#SBATCH -n 1\na\n", "#!/bin/sh\n#SBATCH -n 2\na\n", false},
		{"a.py", "import os\nx = 1\n", "import os\n\n# One.\nx = 1  # really\n", true},
		{"a.py", "import os\nx = '# a'\n", "import os\nx = '# b'\n", false},
		{"a.py", "import os\nx = '''\n# a\n'''\n", "import os\nx = '''\n# b\n'''\n", false},
		{"a.py", "import os\nx = f\"{d[\"# a\"]}\"\n", "import os\nx = f\"{d[\"# b\"]}\"\n", false},
		{"a.py", "def f():\n    \"\"\"One.\"\"\"\n    return 1\n", "def f():\n    \"\"\"Two.\"\"\"\n    return 1\n", false},
		{"a.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    # c\n    c()\n", false},
		{"a.py", "import os\nx = 1 \\\n+ 2\n", "import os\nx = 1 \\\n\n+ 2\n", false},
		{"a.py", "#!/usr/bin/python3\n# coding: utf-8\nx = 1\n", "#!/usr/bin/python3\n# coding: latin-1\nx = 1\n", false},
		{"a.js", "const a = 1\n", "/** One. */\nconst a = 1 // really\n", true},
		{"a.js", "f()\nconst a = 1\n", "f()\n/** One. */\nconst a = 1 // really\n", true},
		{"a.js", "f()\nreturn a\n", "f()\nreturn /*\n*/ a\n", false},
		{"a.js", "f()\nconst a = `// ${b /* c */}`\n", "f()\nconst a = `// ${b /* d */}`\n", false},
		{"a.js", "f()\nconst a = /[//]x/\n", "f()\nconst a = /[//]y/\n", false},
		{"a.ts", "f()\nconst a: number = 'x'\n", "f()\n// @ts-ignore\nconst a: number = 'x'\n", false},
		{"a.jsx", "f()\nconst a = <p>// a</p>\n", "f()\nconst a = <p>// b</p>\n", false},
		{"a.js", "#!/usr/bin/node\nf()\n", "#!/usr/bin/deno\nf()\n", false},
		{"a.php", "<?php\n$a = 1;\n", "<?php\n\n// One.\n$a = 1; # really\n", true},
		{"a.php", "<?php\nf();\n/** One. */\n$a = 1;\n", "<?php\nf();\n/** @Route(\"/x\") */\n$a = 1;\n", false},
		{"a.php", "<?php\n$a = <<<X\n// a\nX;\n", "<?php\n$a = <<<X\n// b\nX;\n", false},
		{"a.php", "<?php\n$a = 1;\n?>\n// a\n", "<?php\n$a = 1;\n?>\n// b\n", false},
		{"a.rb", "a = 1\n", "a = 1 # one\n\n# really\n", true},
		{"a.rb", "a = 'b'\n", "# frozen_string_literal: true\na = 'b'\n", false},
		{"a.rb", "a = <<~X\n  # a\nX\n", "a = <<~X\n  # b\nX\n", false},
		{"a.rb", "puts DATA.read\n__END__\n# a\n", "puts DATA.read\n__END__\n# b\n", false},
		{"a.rb", "a = [1]\nf [1]\n", "a = [1]\nf[1]\n", false},
		{"A.java", "class A { int a = 1; }\n", "/** A. */\nclass A { // one\n int a = 1; }\n", true},
		{"A.java", "class A { String a = \"// a\"; }\n", "class A { String a = \"// b\"; }\n", false},
		{"A.java", "class A { }\n", "class A { } // \\u000a class B { }\n", false},
		{"a.rs", "fn a() {}\n", "// One.\nfn a() {} /* /* really */ */\n", true},
		{"a.rs", "fn a() {}\n", "/// ```\n/// assert!(true)\n/// ```\nfn a() {}\n", false},
		{"a.rs", "fn a() {}\n", "/** One. */\nfn a() {}\n", false},
		{"a.c", "int a = 1;\n", "/* One. */\nint a = 1; // really\n", true},
		{"a.c", "int a = 1;\nint b;\n", "// One. \\\nint a = 1;\nint b;\n", false},
		{"a.c", "#define A 1\nint b;\n", "#define A 1 /* one */\nint b;\n", false},
		{"a.c", "#define A 1\n+ 2\n", "#define A 1 + 2\n", false},
		{"a.c", "#ifdef X\nint a;\n#endif\n", "#ifdef X\nint b;\n#endif\n", false},
		{"a.cpp", "auto a = R\"(// a)\";\n", "auto a = R\"(// b)\";\n", false},
		{"a.sh", "#!/bin/sh\na=1\n", "#!/bin/sh\n\na=1 # one\n# really\n", true},
		{"a.sh", "#!/bin/sh\na=1\n", "#!/bin/bash\na=1\n", false},
		{"a.sh", "a='\n# a\n'\n", "a='\n# b\n'\n", false},
		{"a.sh", "cat <<X\n# a\nX\n", "cat <<X\n# b\nX\n", false},
		{"a.sh", "echo a #b\n", "echo a#b\n", false},
		{"a.unknown", "a # b\n", "a # c\n", false},
		{"README.md", "a\n", "b\n", false},
	} {
		if got := SameCode(tt.name, []byte(tt.before), []byte(tt.after)); got != tt.same {
			t.Errorf("%s: same code %v, want %v:\n%s---\n%s", tt.name, got, tt.same, tt.before, tt.after)
		}
	}
}

// TestSameCodeOfRealFiles: a comment in front of a line is one, and what is not a comment
// is noticed, in files of this package and of the fixtures.
func TestSameCodeOfRealFiles(t *testing.T) {
	t.Parallel()
	marks := map[string]string{".go": "//", ".js": "//", ".py": "#", ".sh": "#", ".java": "//", ".c": "//"}
	tried := map[string]int{}
	err := filepath.WalkDir("../../..", func(p string, d os.DirEntry, err error) error {
		mark := marks[filepath.Ext(p)]
		switch {
		case err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case err != nil || d.IsDir() || mark == "" || tried[filepath.Ext(p)] > 20:
			return err
		}
		src, err := os.ReadFile(p)
		if err != nil || len(src) == 0 || len(src) > 20_000 {
			return err
		}
		if !SameCode(p, src, src) {
			return nil // one that cannot be read for sure
		}
		tried[filepath.Ext(p)]++
		end := append(bytes.Clone(src), mark+" The end.\n"...)
		if !SameCode(p, src, end) {
			t.Errorf("%s: a comment at the end counts as code", p)
		}
		if end = append(bytes.Clone(src), "theEnd"...); SameCode(p, src, end) {
			t.Errorf("%s: a word at the end does not count as code", p)
		}
		return nil
	})
	if err != nil || tried[".go"] < 20 || tried[".sh"] < 5 {
		t.Errorf("%v, %v", tried, err)
	}
}

// FuzzSameCode: no text is more than itself, and none makes a reader fail.
func FuzzSameCode(f *testing.F) {
	f.Add("a.py", "f'{a[\"#", "#")
	f.Add("a.js", "`${`", "//")
	f.Fuzz(func(t *testing.T, name, a, b string) {
		if SameCode(name, []byte(a), []byte(b)) != SameCode(name, []byte(b), []byte(a)) {
			t.Errorf("%q: %q and %q are the same one way only", name, a, b)
		}
	})
}
