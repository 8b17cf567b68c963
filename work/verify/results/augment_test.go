package results

import (
	"strings"
	"testing"
)

func TestAugment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want, runner string }{
		{"go test ./...", "go test -json -count=1 ./...", GoTest},
		{"go test -json ./...", "go test -count=1 -json ./...", GoTest},
		{"go test -count=3 -v ./a", "go test -json -count=3 -v ./a", GoTest},
		{"go test --count 2 ./a", "go test -json --count 2 ./a", GoTest},
		{"CGO_ENABLED=0 go -C sub test 'a b' -args -json", "CGO_ENABLED=0 go -C sub test -json -count=1 'a b' -args -json", GoTest},
		{"go test -c ./a", "go test -c ./a", ""},
		{"go test -json=false ./a", "go test -json=false ./a", ""},
		{"go test -list . ./a", "go test -list . ./a", ""},
		{"go build ./...", "go build ./...", ""},
		{"go test ./... | tee log", "go test ./... | tee log", ""},
		{"go test ./... && true", "go test ./... && true", ""},
		{"sh -c 'go test ./...'", "sh -c 'go test ./...'", ""},
		{"go test $(cat pkgs)", "go test $(cat pkgs)", ""},
		{"go test ./... # comment", "go test ./... # comment", ""},
		{"go test ./...\ntrue", "go test ./...\ntrue", ""},
		{"pytest", "pytest --verbosity=1 -rap", Pytest},
		{"/usr/bin/pytest -q tests", "/usr/bin/pytest -q tests --verbosity=1 -rap", Pytest},
		{"python3 -m pytest 'tests/test_a.py::test_x[a b]'", "python3 -m pytest 'tests/test_a.py::test_x[a b]' --verbosity=1 -rap", Pytest},
		{"python3.11 -B -X dev -m pytest tests -- x", "python3.11 -B -X dev -m pytest tests --verbosity=1 -rap -- x", Pytest},
		{"pytest --collect-only", "pytest --collect-only", ""},
		{"python -m unittest", "python -m unittest -v", Unittest},
		{"python -m unittest discover -s tests", "python -m unittest discover -s tests -v", Unittest},
		{"python -m unittest -v", "python -m unittest -v", Unittest},
		{"python -m unittest -q", "python -m unittest -q", ""},
		{"python -c 'import pytest'", "python -c 'import pytest'", ""},
		{"python -m coverage run -m pytest", "python -m coverage run -m pytest", ""},
		{"python x.py -m pytest", "python x.py -m pytest", ""},
		{"make test", "make test", ""},
		{"node --test", "node --test", NodeTest},
		{"node --import tsx --test test/*.test.ts", "node --import tsx --test test/*.test.ts", NodeTest},
		{"node a.js --test", "node a.js --test", ""},
		{"npx mocha --reporter dot", "npx mocha --reporter dot", Mocha},
		{"npx --no-install jest -i", "npx --no-install jest -i", Jest},
		{"./node_modules/.bin/vitest run", "./node_modules/.bin/vitest run", Vitest},
		{"vitest bench", "vitest bench", ""},
		{"pnpm exec vitest", "pnpm exec vitest", Vitest},
		{"node node_modules/jest/bin/jest.js", "node node_modules/jest/bin/jest.js", Jest},
		{"npx jest --listTests", "npx jest --listTests", ""},
		{"npm test", "npm test", ""},
		{"cargo +stable --locked test -p a -- --nocapture", "cargo +stable --locked test --no-fail-fast -p a -- --nocapture", Cargo},
		{"cargo test --no-run", "cargo test --no-run", ""},
		{"cargo build", "cargo build", ""},
		{"cargo nextest run", "cargo nextest run", Nextest},
		{"bundle exec rspec", "bundle exec rspec", RSpec},
		{"bin/rails test test/models", "bin/rails test test/models", Minitest},
		{"bundle exec rails test:system", "bundle exec rails test:system", Minitest},
		{"ruby bin/rails t", "ruby bin/rails t", Minitest},
		{"bundle exec minitest test", "bundle exec minitest test", Minitest},
		{"minitest --help", "minitest --help", ""},
		{"rails routes", "rails routes", ""},
		{"bundle exec rails", "bundle exec rails", ""},
		{"bundle exec", "bundle exec", ""},
		{"ruby", "ruby", ""},
		{"ruby -Itest test/x_test.rb", "ruby -Itest test/x_test.rb", ""},
		{"bundle exec rake test", "bundle exec rake test", ""},
		{"php vendor/bin/phpunit", "php vendor/bin/phpunit", PHPUnit},
		{"ctest --test-dir build", "ctest --test-dir build", CTest},
		{"ctest -N", "ctest -N", ""},
		{"bats test", "bats test", Bats},
		{"bats --pretty test", "bats --pretty test", ""},
		{"dotnet test", "dotnet test --logger 'console;verbosity=normal'", DotNet},
		{"deno test -A", "deno test -A", Deno},
		{"bun test", "bun test", Bun},
		{`go test "./a`, `go test "./a`, ""},
		{"", "", ""},
		{"A=1", "A=1", ""},
	} {
		t.Run(tc.in, func(t *testing.T) {
			t.Parallel()
			got, runner, ok := Augment(tc.in)
			if got != tc.want || runner != tc.runner || ok != (tc.runner != "") {
				t.Errorf("got %q %q %t, want %q %q", got, runner, ok, tc.want, tc.runner)
			}
		})
	}
}

// TestKeep: what a command says to its runner stays in force.
func TestKeep(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"NODE_OPTIONS=--a npx jest":     `NODE_OPTIONS=--a" $REMIT_NODE_OPTIONS" npx jest`,
		"A=1 NODE_OPTIONS='--a' jest":   `A=1 NODE_OPTIONS='--a'" $REMIT_NODE_OPTIONS" jest`,
		"SPEC_OPTS=-b rspec":            `SPEC_OPTS=-b" $REMIT_SPEC_OPTS" rspec`,
		"PHP_INI_SCAN_DIR=/x phpunit":   `PHP_INI_SCAN_DIR=/x":$REMIT_PHP" phpunit`,
		"RUBYLIB=lib rake test":         `RUBYLIB=lib":$REMIT_RUBYLIB" rake test`,
		"MOCHA_OPTIONS=-b mocha":        "MOCHA_OPTIONS=-b mocha",
		"npx jest NODE_OPTIONS=--a":     "npx jest NODE_OPTIONS=--a",
		"cd x && NODE_OPTIONS=--a jest": "cd x && NODE_OPTIONS=--a jest",
		"NODE_OPTIONS=--a":              "NODE_OPTIONS=--a",
		"make test":                     "make test",
	} {
		if got := Keep(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// FuzzAugment: whatever the command, only the known flags are added and every
// byte of the command stays in its order.
func FuzzAugment(f *testing.F) {
	for _, s := range []string{"go test ./...", "A=1 pytest 'x y' -- z", `python3 -m unittest "a\"b"`, "go test -args -json"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		run, runner, ok := Augment(command)
		if !ok {
			if run != command || runner != "" {
				t.Fatalf("changed %q to %q without recognising it", command, run)
			}
			return
		}
		rest := run
		for _, added := range []string{" -json -count=1", " -count=1", " -json", " --verbosity=1 -rap", " -v", " --logger 'console;verbosity=normal'"} {
			if strings.Replace(run, added, "", 1) == command {
				rest = command
				break
			}
		}
		if rest != command && run != command {
			t.Fatalf("%q became %q", command, run)
		}
	})
}
