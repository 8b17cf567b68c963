package twin

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// TestMinitestParse: what is a test of Minitest, what it is called, and what of it can be
// edited: flips, expected values and failing statements.
func TestMinitestParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ file, src, want string }{
		"a method":            {"a_test.rb", "class ATest < Minitest::Test\n def test_b\n  assert_equal 1, f(2)\n end\n def helper\n  assert f\n end\nend", "ATest#test_b 1/1/2"},
		"of modules":          {"test_a.rb", "module A\n module B::C\n  class DTest < Base\n   def test_e() = f\n   def test_g()\n    x\n   end\n  end\n end\nend", "A::B::C::DTest#test_e: it is a method without an end; A::B::C::DTest#test_g 0/0/2"},
		"no class of tests":   {"a_test.rb", "class A\n def test_b\n  f\n end\nend\nclass B < C\n class << self\n  def test_d\n   f\n  end\n end\n def test_e(f)\n  f\n end\nend", ""},
		"with a comment":      {"a_test.rb", "class A < B\n def test_b # why\n  refute_nil f(1) # so\n end\nend", "A#test_b 1/0/2"},
		"of Rails":            {"a_test.rb", "class ATest < ActiveSupport::TestCase\n test \"it  is\" do\n  assert_in_delta 1.5, f(2), 0.1\n end\nend", "ATest#test_it_is 1/1/2"},
		"a group":             {"a_spec.rb", "require 'minitest/autorun'\ndescribe A::B do\n describe 'c', :d do\n  it 'e f' do\n   _(g).must_equal 1\n  end\n end\nend", "A::B::c::d#e f 1/1/2"},
		"by its expectations": {"a_spec.rb", "describe 'a' do\n it('b') { value(f).wont_be_nil; expect(f(1)).must_include 'x' }\nend", "a#b 2/1/3"},
		"without a title":     {"a_test.rb", "describe 'a' do\n it { _(f).must_be :>, 3 }\n it { _(f).must_be_nil }\nend", "a#test_*_anonymous 2/2/4"},
		"a title is made":     {"a_test.rb", "describe 'a' do\n [1].each { |n| it(\"b #{n} c\") { _(f(n)).must_be_close_to 1.5 } }\nend", "a#b * c 1/1/2"},
		"in a class":          {"a_test.rb", "class A < Minitest::Spec\n it 'b' do\n  assert_match(/c d/, f)\n end\n describe 'e' do\n  it 'g' do\n   assert_raises(KeyError) { f(1) }\n  end\n end\nend", "A#b 1/1/2; e#g 0/1/2"},
		"a comparison":        {"a_test.rb", "class A < B\n def test_b\n  assert f == 5\n end\n def test_c\n  assert f == g(1), 'why'\n end\n def test_d\n  assert f == 5 && g\n  assert(f || g == 5)\n end\nend", "A#test_b 1/1/2; A#test_c 1/1/2; A#test_d 2/0/2"},
		"errors":              {"a_test.rb", "class A < B\n def test_b\n  e = assert_raises(KeyError, 'why') { f }\n  assert_raises KeyError do f(1) end\n  _ { f }.must_raise(TypeError)\n end\nend", "A#test_b 0/3/3"},
		"an operator":         {"a_test.rb", "class A < B\n def test_b\n  assert_operator f, :<=, 3\n  assert_includes [1], 1 if f\n  g.assert_equal 1, 2\n  assert_equal 1, f, 'why'\n end\nend", "A#test_b 3/3/3"},
		"RSpec":               {"a_test.rb", "RSpec.describe 'a' do\n it('b') { expect(f).to eq 1 }\nend", "a b 1/1/2"},
		"test-unit":           {"a_test.rb", "require 'test/unit'\nclass A < B\n def test_b\n  assert f(1)\n end\nend", ""},
		"test-unit by name":   {"test_a.rb", "class A < Test::Unit::TestCase\n def test_b\n  assert f(1)\n end\nend", ""},
	} {
		f, err := ParseRuby(tc.file, []byte(tc.src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := summary(f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// minitestProject is a test file with what people write in one.
const minitestProject = `# frozen_string_literal: true

require 'set'
require 'minitest/autorun'

module Shop
  class Cart
    attr_accessor :items
    def initialize(items = {}) = @items = items
    def total; @items.values.sum { |v| v * 2 } / 2; end
    def [](key) = @items.fetch(key)
    def empty? = @items.empty?
  end

  class CartTest < Minitest::Test
    def setup
      @cart = Cart.new('a' => 1, 'b' => 2)
    end

    def test_total
      assert_equal(3, @cart.total)
      assert_equal 3, @cart.total, 'a message'
      want = 'three'
      assert_equal want, "thr#{'e' * 2}"
      refute_equal 4, @cart.total
    end

    def test_one_line() assert @cart.total > 2 end
    def test_empty; end
    def test_comment # why it is here
      refute @cart.empty? # so
    end

    def test_lists
      list = [1, [2, 'x'], { k: 3.5 }]
      assert_equal [1, [2, 'x']], list.first(2)
      assert_equal({ k: 3.5 }, list.last)
      assert_includes list, 1
      refute_includes @cart.items.keys, 'c'
      assert_same list, list
      assert [1].any?
      assert list[0] == 1
      assert list.last[:k] == 3.5, 'a message'
      assert(list.size == [1, [2, 'x'], 0].size)
      assert list == 1 || list != 2
      assert !list == false
      assert_nil list[9]
      refute_nil list.first
      assert_empty []
      assert_kind_of Array, list
      assert_instance_of Hash, list.last
      assert_respond_to list, :each
      assert_predicate [], :empty?
      assert_operator list.size, :>, 2
      assert_in_delta 3.5, list.last[:k], 0.01
      assert_in_delta(-1.0, -1.001, 0.01)
      assert_match(/a "t/, 'it is a "text"')
      assert_match 'text', 'a text'
      assert_equal <<~TEXT, "it's\n"
        it's
      TEXT
      assert_equal Set.new([1]), [1].to_set
    end

    def test_errors
      e = assert_raises(KeyError) { @cart['zz'] }
      assert_match(/not found/, e.message)
      assert_raises(NoMethodError, 'it has a message') do
        @cart.items = nil
        @cart.total
      end
      assert_raises ArgumentError do
        Integer('x')
      end
      assert_raises(ZeroDivisionError) { 1 / 0 }
      assert_output("x\n") { puts 'x' }
      assert_silent { 1 }
    end

    def test_branches
      if @cart.empty? then raise 'no' else assert_equal 2, @cart.items.size end
      assert_equal 2, @cart.items.size unless @cart.empty?
      [1, 2].each { |n| assert_operator n, :<=, 2 }
      return if @cart.total == 3
      flunk
    end

    def test_is_skipped
      skip 'later' if @cart.total
      assert_equal 1, 2
    end

    def test_rescues
      assert_equal 12, Integer('12')
      Integer('x')
    rescue ArgumentError
      assert_equal 3, @cart.total
    ensure
      @cart = nil
    end

    def test_endless = assert_equal(3, @cart.total)

    [1, 2].each do |n|
      define_method("test_made_#{n}") { assert_equal n, n }
    end
  end
end

describe Shop::Cart do
  let(:cart) { Shop::Cart.new('a' => 1) }

  it 'adds' do
    _(cart.total).must_equal 1
    _(cart.total).wont_equal 2
    value(cart.items).must_include 'a'
    expect(cart['a']).must_be :<, 2
    _(nil).must_be_nil
    _(1.5).must_be_close_to 1.5, 0.01
    _('a text').must_match(/t/)
    _([]).must_be_empty
    _ { cart['zz'] }.must_raise KeyError
    _(-> { cart['zz'] }).must_raise(KeyError)
    assert_equal 1, cart['a']
  end

  describe 'when empty' do
    before { cart.items = {} }
    it('is zero') { _(cart.total).must_equal(0) }
    it { _(cart.total).must_equal 0 }
    it { assert cart.empty? }
    it 'has no block'
    %w[a b].each do |key|
      it "lacks #{key} too" do
        _(cart.items).wont_include key
      end
    end
  end
end

__END__
def test_data
`

var minitestLine = regexp.MustCompile(`(?m)^(\S.*#\S.*) = \d+\.\d+ s = ([.FES])$`)

// ranMinitest runs a file and returns which tests passed.
func ranMinitest(t *testing.T, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cart_test.rb"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runTool(t, dir, "ruby", "cart_test.rb", "--verbose", "--no-plugins")
	number := regexp.MustCompile(`#test_\d{4}_`)
	passed = map[string]bool{}
	for _, m := range minitestLine.FindAllStringSubmatch(out, -1) {
		name := m[1]
		switch {
		case strings.HasSuffix(name, "_anonymous"):
			name = number.ReplaceAllString(name, "#test_*_")
		case strings.HasSuffix(name, " too"):
			name = "Shop::Cart::when empty#lacks * too"
		default:
			name = number.ReplaceAllString(name, "#")
		}
		was, known := passed[name]
		passed[name] = (was || !known) && strings.Contains(".S", m[2])
	}
	return passed, out
}

// TestMinitestRun: neutral edits change no verdict, and each sabotage makes its test fail
// and no other.
func TestMinitestRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 3, 4)
	needTool(t, "ruby")
	f, err := ParseRuby("test/cart_test.rb", []byte(minitestProject))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(summary(f))
	triesAll(t, f, func(text []byte) (map[string]bool, string) { return ranMinitest(t, text) })
}
