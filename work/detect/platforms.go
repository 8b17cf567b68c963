package detect

import (
	"path"
	"slices"
	"strings"

	"remit/law/task"
)

// jvm finds projects of Maven and Gradle.
func (f *finder) jvm() {
	for _, dir := range top(f.places("pom.xml")) {
		f.project(Project{Dir: dir, Ecosystem: "maven", Manager: "mvn", Manifest: in(dir, "pom.xml"), Workspace: f.contains([]string{in(dir, "pom.xml")}, "<modules>")})
		line := "mvn -B -o test"
		if dir != "." {
			line = "mvn -B -o -f " + in(dir, "pom.xml") + " test"
		}
		f.withTests(dir, in(dir, "pom.xml"), jvmTest, line)
		f.byHand(in(dir, "pom.xml"), "Maven")
	}
	gradle := []string{"settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts"}
	for _, dir := range top(f.places(gradle...)) {
		name := in(dir, f.first(dir, gradle...))
		f.project(Project{Dir: dir, Ecosystem: "gradle", Manager: "gradle", Manifest: name, Lock: f.lockOf(dir, "gradle.lockfile"), Workspace: strings.Contains(name, "settings.gradle")})
		line := "gradle --offline --no-daemon test"
		if dir != "." {
			line = "gradle --offline --no-daemon -p " + dir + " test"
		}
		f.withTests(dir, name, jvmTest, line)
		f.byHand(name, "Gradle")
	}
}

func jvmTest(name string) bool {
	return strings.Contains("/"+name, "/src/test/") && slices.Contains([]string{".java", ".kt", ".scala", ".groovy"}, path.Ext(name))
}

// ruby finds projects of Ruby with RSpec or Minitest.
func (f *finder) ruby() {
	dirs := top(f.places("Gemfile", "Rakefile", ".rspec", "gems.rb"))
	if len(dirs) == 0 && len(f.tests("test", nil, rubyTest)) > 0 {
		dirs = []string{"."}
	}
	for _, dir := range dirs {
		tests := f.tests(in(dir, "test"), nil, rubyTest)
		p := Project{Dir: dir, Ecosystem: "ruby", Manager: "bundler", Lock: f.lockOf(dir, "Gemfile.lock", "gems.locked")}
		if name := f.first(dir, "Gemfile", "gems.rb", "Rakefile", ".rspec"); name != "" {
			p.Manifest = in(dir, name)
		} else {
			p.Manifest = tests[0]
		}
		f.project(p)
		run := ""
		if f.first(dir, "Gemfile", "gems.rb") != "" {
			run = "bundle exec "
			f.needs(task.Bundler, p, "bundle lock")
		}
		if dir != "." {
			run = "cd " + dir + " && " + run
		}
		specs := f.tests(dir, nil, func(n string) bool { return strings.HasSuffix(n, "_spec.rb") })
		files := f.tests(in(dir, "test"), nil, func(n string) bool { return path.Ext(n) == ".rb" })
		switch {
		case len(specs) > 0 && !f.minitestSpecs(dir, specs):
			f.command(specs[0], run+"rspec")
		case len(files) > 0 && f.has[in(dir, "bin/rails")]:
			f.command(in(dir, "bin/rails"), strings.TrimSuffix(run, "bundle exec ")+"bin/rails test")
		case len(files)+len(specs) > 0 && f.has[in(dir, "Rakefile")]:
			f.command(in(dir, "Rakefile"), run+"rake test")
		case len(tests) == 1:
			f.command(tests[0], run+"ruby -Ilib:test "+strings.TrimPrefix(tests[0], strings.TrimPrefix(dir+"/", "./")))
		case len(tests) > 0:
			f.command(tests[0], run+`ruby -Ilib:test -e 'Dir.glob("./test/**/{*_test,test_*}.rb") { |f| require f }'`)
		case len(specs) > 0:
			f.command(specs[0], run+`ruby -Ilib:spec -e 'Dir.glob("./spec/**/*_spec.rb") { |f| require f }'`)
		default:
			f.note(p.Manifest, "neither specs nor tests were found")
		}
	}
}

// rubyTest says whether a file has the name of one with tests of Minitest or test-unit.
func rubyTest(name string) bool {
	base := path.Base(name)
	return path.Ext(base) == ".rb" && (strings.HasPrefix(base, "test_") && base != "test_helper.rb" || strings.HasSuffix(base, "_test.rb"))
}

// minitestSpecs says whether the files of specs are those of Minitest::Spec: one of them
// or their helper loads it, and nothing loads RSpec.
func (f *finder) minitestSpecs(dir string, specs []string) bool {
	helpers := []string{in(dir, "spec/spec_helper.rb"), in(dir, "spec/minitest_helper.rb"), in(dir, "spec/helper.rb")}
	looked := append(slices.DeleteFunc(helpers, func(n string) bool { return !f.has[n] }), specs...)
	return !f.has[in(dir, ".rspec")] && f.contains(looked, "minitest/") && !f.contains(looked, "RSpec", "rspec")
}

// php finds projects of Composer with PHPUnit or Pest.
func (f *finder) php() {
	for _, dir := range top(f.places("composer.json", "phpunit.xml", "phpunit.xml.dist")) {
		p := Project{Dir: dir, Ecosystem: "php", Manager: "composer", Manifest: in(dir, f.first(dir, "composer.json", "phpunit.xml", "phpunit.xml.dist")), Lock: f.lockOf(dir, "composer.lock")}
		f.project(p)
		run := ""
		if dir != "." {
			run = "cd " + dir + " && "
		}
		vendored := slices.Contains(f.foreign, in(dir, "vendor"))
		if !vendored && p.Lock != "" {
			f.byHand(p.Manifest, "Composer")
		}
		switch {
		case f.contains([]string{in(dir, "composer.json")}, "pestphp/pest\""):
			f.withTests(dir, p.Manifest, phpTest, run+"vendor/bin/pest")
		case vendored:
			f.withTests(dir, p.Manifest, phpTest, run+"vendor/bin/phpunit")
		default:
			f.withTests(dir, p.Manifest, phpTest, run+"phpunit")
		}
	}
}

func phpTest(name string) bool {
	return strings.HasSuffix(name, "Test.php") || path.Ext(name) == ".php" && strings.HasPrefix("/"+name, "/tests/")
}

// dotnet finds solutions and projects of .NET.
func (f *finder) dotnet() {
	is := func(base string) bool { return slices.Contains([]string{".sln", ".slnx"}, path.Ext(base)) }
	dirs := f.placesWhere(is)
	if len(dirs) == 0 {
		is = func(base string) bool {
			return slices.Contains([]string{".csproj", ".fsproj", ".vbproj"}, path.Ext(base))
		}
		dirs = f.placesWhere(is)
	}
	for _, dir := range top(dirs) {
		files := f.below(dir, func(n string) bool { return path.Dir(n) == dir && is(path.Base(n)) })
		p := Project{Dir: dir, Ecosystem: "dotnet", Manager: "dotnet", Manifest: files[0], Workspace: strings.Contains(path.Ext(files[0]), ".sln")}
		f.project(p)
		projects := f.below(dir, func(n string) bool { return slices.Contains([]string{".csproj", ".fsproj", ".vbproj"}, path.Ext(n)) })
		if !f.contains(projects, "Microsoft.NET.Test.Sdk", "MSTest.Sdk", "xunit") {
			f.note(p.Manifest, "no project refers to a test runner")
			continue
		}
		line := "dotnet test"
		if dir != "." {
			line += " " + dir
		}
		f.command(p.Manifest, line)
		f.byHand(p.Manifest, "NuGet")
	}
}

// top is the place at the top if there is one, else all of them.
func top(dirs []string) []string {
	if len(dirs) > 0 && dirs[0] == "." {
		return dirs[:1]
	}
	return dirs
}

// withTests takes a command if the directory has test files.
func (f *finder) withTests(dir, manifest string, is func(string) bool, lines ...string) {
	if len(f.tests(dir, nil, is)) == 0 {
		f.note(manifest, "no test file was found")
		return
	}
	f.command(manifest, lines...)
}

// byHand says that the packages of an ecosystem are not prepared.
func (f *finder) byHand(name, manager string) {
	f.note(name, "environment.prepare does not install packages of %s: the tests see those that lie below /usr, in the repository, or in a --toolchain directory", manager)
}
