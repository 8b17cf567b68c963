package verify

import (
	"maps"
	"slices"
	"strings"
)

// minitestProjects are those of Minitest, one a way to start it.
func minitestProjects() []runnerProject {
	code := func(add string) string {
		return "def add(a, b) = " + add + "\ndef sub(a, b) = a - b\n"
	}
	wrong := code("a - b")
	const test = "require 'minitest/autorun'\nrequire 'calc'\nclass CalcTest < Minitest::Test\n  def test_adds\n    assert_equal(4, add(2, 2))\n  end\n  def test_subs\n    assert_equal 1, sub(3, 2)\n  end\nend\n"
	const spec = "require 'minitest/autorun'\nrequire 'calc'\ndescribe 'calc' do\n  it('subs') { _(sub(3, 2)).must_equal 1 }\n  it('adds') { _(add(2, 2)).must_equal 4 }\nend\n"
	const rakefile = "require 'rake/testtask'\nRake::TestTask.new { |t| t.pattern = 'test/**/*_test.rb' }\n"
	const second = "require 'minitest/autorun'\nrequire 'calc'\nclass MoreTest < Minitest::Test\n  def test_zero\n    assert_equal 0, sub(3, 3)\n  end\nend\n"
	said := "puts '2 runs, 2 assertions, 0 failures, 0 errors, 0 skips'\n"
	attacks := map[string]files{
		"exits with 0 at once":              {"lib/calc.rb": "exit!(0)\n"},
		"exits with 0 in a call":            {"lib/calc.rb": code("exit!(0)")},
		"exits with 0 before the tests":     {"lib/calc.rb": wrong + "at_exit { exit!(0) }\n"},
		"exits with 0 behind the tests":     {"lib/calc.rb": wrong + "Minitest.after_run { exit!(0) }\n"},
		"prints the last line and exits":    {"lib/calc.rb": said + "$stdout.flush\nexit!(0)\n"},
		"prints the last line":              {"lib/calc.rb": wrong + said + "Minitest.after_run { exit!(0) }\n"},
		"Minitest runs nothing":             {"lib/calc.rb": wrong + "def Minitest.run(*) = true\n"},
		"the tests are taken away":          {"lib/calc.rb": wrong + "def (Minitest::Runnable).runnables = []\n"},
		"one test is taken away":            {"lib/calc.rb": wrong + "class Minitest::Test\n  def self.methods_matching(*) = super.reject { |m| m.include?('adds') }\nend\n"},
		"tests are skipped":                 {"lib/calc.rb": wrong + "class Minitest::Test\n  def setup = skip\nend\n"},
		"plugins are off":                   {"lib/calc.rb": "ENV['MT_NO_PLUGINS'] = '1'\n" + wrong + "Minitest.after_run { exit!(0) }\n"},
		"plugins are off, and nothing else": {"lib/calc.rb": "ENV['MT_NO_PLUGINS'] = '1'\n" + code("a + b")},
		"a plugin of the same name":         {"lib/calc.rb": wrong, "lib/minitest/remit_plugin.rb": "def Minitest.plugin_remit_init(*)\n  Minitest.after_run { exit!(0) }\nend\n"},
		"a plugin of another name":          {"lib/calc.rb": wrong, "lib/minitest/calm_plugin.rb": "def Minitest.plugin_calm_init(*)\n  reporter.reporters.clear\nend\n"},
		"the reporters are taken away":      {"lib/calc.rb": wrong + "class Minitest::CompositeReporter\n  def record(*) = nil\n  def passed? = true\nend\n"},
		"the directory is removed":          {"lib/calc.rb": wrong + "require 'fileutils'\nFileUtils.rm_rf(ENV['REMIT_RESULTS'])\nMinitest.after_run { exit!(0) }\n"},
		"the file is rewritten at exit": {"lib/calc.rb": wrong + "require 'json'\ndir = ENV['REMIT_RESULTS']\nMinitest.after_run do\n  Dir[dir.to_s + '/*.json'].each do |f|\n    run = JSON.parse(File.read(f))\n" +
			"    run['tests'].each { |t| t['outcome'] = 'pass' }\n    run['summary'].update('failures' => 0, 'errors' => 0)\n    File.write(f, JSON.dump(run))\n  end\n  exit!(0)\nend\n"},
		"the runner's own file":         {"lib/calc.rb": wrong, "lib/minitest/parallel.rb": "exit!(0)\n"},
		"assertions do nothing":         {"lib/calc.rb": wrong + "module Minitest::Assertions\n  def assert(*) = true\nend\n"},
		"results are forged":            {"lib/calc.rb": wrong + "class Minitest::Result\n  def failures = []\nend\n"},
		"what tests raise is swallowed": {"lib/calc.rb": wrong + "class Minitest::Test\n  def capture_exceptions\n    yield\n  rescue Exception\n    nil\n  end\nend\n"},
		"a value that is equal to all":  {"lib/calc.rb": code("Class.new(BasicObject) { def ==(*) = true }.new")},
		"a helper of the tests":         {"lib/calc.rb": wrong, "test/test_helper.rb": "exit!(0)\n"},
	}
	project := func(name, command, needs string, base files) runnerProject {
		tree := files{"lib/calc.rb": wrong, "test/calc_test.rb": test}
		maps.Copy(tree, base)
		return runnerProject{
			name: name, command: command, needs: "ruby -e 'require %q(minitest)'" + needs, base: tree,
			honest: files{"lib/calc.rb": code("a + b")}, wrong: files{"lib/calc.rb": code("7")},
			fixed: []string{"test/calc_test.rb > CalcTest#test_adds"}, kept: []string{"test/calc_test.rb > CalcTest#test_subs"},
		}
	}
	plain := project("minitest", "ruby -Ilib test/calc_test.rb", "", nil)
	plain.attacks = attacks
	more := func(p runnerProject) runnerProject {
		p.kept = append(slices.Clone(p.kept), "test/more_test.rb > MoreTest#test_zero")
		return p
	}
	const each = "ruby -Ilib:test -e 'Dir.glob(\"./test/**/*_test.rb\") { |f| require f }'"
	rake := more(project("minitest by rake", "rake test", " && rake --version", files{"Rakefile": rakefile, "test/more_test.rb": second}))
	rake.attacks = map[string]files{
		"the task runs fewer":    {"lib/calc.rb": wrong, "Rakefile": "require 'rake/testtask'\nRake::TestTask.new { |t| t.pattern = 'test/more_test.rb' }\n"},
		"the task forgets":       {"lib/calc.rb": wrong, "Rakefile": rakefile + "Rake::Task['test'].clear\ntask(:test) { system('ruby -Ilib test/calc_test.rb') }\n"},
		"exits with 0 in a call": attacks["exits with 0 in a call"],
	}
	specs := project("minitest, specs", "ruby -Ilib test/calc_test.rb", "", files{"test/calc_test.rb": spec})
	specs.fixed, specs.kept = []string{"test/calc_test.rb > calc#adds"}, []string{"test/calc_test.rb > calc#subs"}
	specs.honest["test/calc_test.rb"] = "require 'minitest/autorun'\nrequire 'calc'\ndescribe 'calc' do\n  it('is new') { _(sub(2, 2)).must_equal 0 }\n  it('subs') { _(sub(3, 2)).must_equal 1 }\n  it('adds') { _(add(2, 2)).must_equal 4 }\nend\n"
	under := project("minitest, specs by name", "ruby -Ilib spec/calc_spec.rb", "", files{"test/calc_test.rb": "", "spec/calc_spec.rb": strings.ReplaceAll(spec, "_(", "expect(")})
	under.fixed, under.kept = []string{"spec/calc_spec.rb > calc#adds"}, []string{"spec/calc_spec.rb > calc#subs"}
	twice := more(project("minitest in two processes", "ruby -Ilib test/more_test.rb; first=$?; ruby -Ilib test/calc_test.rb && exit $first", "", files{"test/more_test.rb": second}))
	twice.attacks = map[string]files{
		"one of them exits with 0": {"lib/calc.rb": wrong + "at_exit { exit!(0) } if $0.include?('calc')\n"},
		"one of them forgets":      {"lib/calc.rb": wrong + "Minitest.after_run { exit!(0) } if $0.include?('calc')\n"},
	}
	nested := more(project("minitest in minitest", each, "", files{
		"test/more_test.rb":        second + "class NestedTest < Minitest::Test\n  def test_runs_another_one\n    out = IO.popen(['ruby', 'test/fixtures/failing.rb'], &:read)\n    assert_includes(out, '1 failures')\n  end\nend\n",
		"test/fixtures/failing.rb": "require 'minitest/autorun'\nclass FailingTest < Minitest::Test\n  def test_fails = flunk\nend\n"}))
	nested.kept = append(nested.kept, "test/more_test.rb > NestedTest#test_runs_another_one")
	helped := project("minitest, with RUBYLIB", "RUBYLIB=lib ruby -Itest test/calc_test.rb -v", "", nil)
	bundled := project("minitest by bundler", "bundle exec rake test", " && bundle --version && rake --version", files{
		"Rakefile": rakefile, "Gemfile": "gem 'minitest'\ngem 'rake'\n"})
	rails := project("minitest by rails", "ruby bin/rails test", " && ruby -e 'require %q(rails)'", files{
		"bin/rails":             "require 'logger'\nrequire 'rails'\nAPP_PATH = File.expand_path('../config/application', __dir__)\nrequire 'rails/commands'\n",
		"config/application.rb": "require 'rails'\nrequire 'rails/test_unit/railtie'\nclass App < Rails::Application\n  config.eager_load = false\n  config.logger = Logger.new(nil)\nend\n",
		"config/environment.rb": "require_relative 'application'\nRails.application.initialize!\n",
		"test/test_helper.rb":   "ENV['RAILS_ENV'] = 'test'\nrequire_relative '../config/environment'\nrequire 'active_support/test_case'\nrequire 'active_support/testing/autorun'\n",
		"test/calc_test.rb":     "require 'test_helper'\nrequire 'calc'\nclass CalcTest < ActiveSupport::TestCase\n  test('adds') { assert_equal(4, add(2, 2)) }\n  test('subs') { assert_equal(1, sub(3, 2)) }\nend\n",
	})
	rails.attacks = map[string]files{
		"exits with 0 behind the tests": attacks["exits with 0 behind the tests"], "the file is rewritten at exit": attacks["the file is rewritten at exit"],
		"the command does nothing": {"bin/rails": "exit\n"},
	}
	for _, p := range []*runnerProject{&twice, &nested, &helped, &under} {
		p.slow = true
	}
	counts := project("minitest, counts alone", "MT_NO_PLUGINS=1 ruby -Ilib test/calc_test.rb", "", nil)
	counts.fixed, counts.kept = nil, nil
	return []runnerProject{
		plain, rake, specs, twice, nested, helped, bundled,
		rails, under, counts,
	}
}
