package twin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"remit/fixtures/tally"
)

// rubyProject is a test file with what people write in one.
const rubyProject = `# frozen_string_literal: true

require 'set'

module Shop
  class Cart
    attr_accessor :items
    def initialize(items = {}) = @items = items
    def total; @items.values.sum { |v| v * 2 } / 2; end
    def [](key) = @items.fetch(key)
    def empty? = @items.empty?
    def note=(text)
      @note = text if text
    end
    class << self
      def of(*names, **more) = new(names.to_h { |n| [n, 1] }.merge(more))
    end
  end
end

=begin
it 'is a comment' do
=end

RSpec.describe Shop::Cart do
  subject(:cart) { described_class.new('a' => 1, 'b' => 2) }
  let(:known) { %w[a b] }

  it { is_expected.not_to be_empty }
  it { is_expected.to respond_to(:total) }

  describe '#total' do
    it 'adds' do
      expect(cart.total).to eq(3)
      expect(cart.total).to eq 3
      want = 'three'
      expect("thr#{'e' * 2}").to eq want
    end

    it('is one line') { expect(cart.total).to be > 2 }

    context "when it's \"empty\"" do
      before { cart.items = {} }
      it 'is zero' do |example|
        expect(cart.total).to be_zero
        expect(cart.total / 2).to be(0); expect(example.description).to match(/zero|none/)
      end
    end
  end

  it 'reads texts' do
    text = <<~TEXT
      it's a "text" with #{cart.total} do and end {
    TEXT
    expect(text).to include('text'), 'a message'
    expect(text).to start_with("it's").and end_with("{\n")
    expect(text =~ /a "t/ ? :yes : :no).to eq :yes
    expect(text.lines.map { |l| l[%r{\d+}] }).to eq ['3']
    expect(%q(a (b) c).length).to be_within(0.1).of(7.0) if text
  end

  it 'raises' do
    expect { cart['zz'] }.to raise_error(KeyError, /not found/)
    expect { cart['zz'] }.to raise_error(KeyError)
    expect do
      cart.items = nil
      cart.total
    end.to raise_error(NoMethodError)
    expect { cart.items = {} }.to change { cart.items }
  end

  [1, 2].each do |n|
    it "doubles #{n}" do
      expect(described_class.of(:x, y: n)[:y]).to eq(n)
      next if n == 1
      expect(n).not_to eq(1)
    end
  end

  it 'has lists' do
    list = [1, [2, 'x'], { k: 3.5 }]
    expect(list.first(2)).to eq([1, [2, 'x']])
    expect(list.last).to eq(k: 3.5)
    expect(known).to contain_exactly('b', 'a')
    expect(
      known.to_set
    ).to eq(Set.new(known))
    begin
      raise 'x'
    rescue RuntimeError => e
      expect(e.message).to eq('x')
    end
    if known.empty? then raise 'no' else expect(known.size).to eq 2 end
    i = 0
    while i < 2 do i += 1 end
    i -= 1 until i.zero?
    expect(i).to eq(0)
  end

  it 'is skipped' do
    skip 'later' unless cart.nil?
    expect(1).to eq(2)
  end

  xit('is left out') { expect(1).to eq(2) }
  it 'has no block'
  it 'rescues' do
    expect(Integer('12')).to eq(12)
    Integer('x')
  rescue ArgumentError
    expect(cart.total).to eq(3)
  end

  shared_examples 'a thing' do
    it('is a thing') { expect(subject).to be }
  end
  it_behaves_like 'a thing'
end

__END__
it 'is data' do {
`

// ranRuby runs a file and returns which examples passed.
func ranRuby(t *testing.T, text []byte) (passed map[string]bool, out string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cart_spec.rb"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out = runTool(t, dir, "rspec", "--format", "progress", "--format", "json", "--out", "r.json", "cart_spec.rb")
	log, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, text)
	}
	var run struct {
		Examples []struct {
			Name   string `json:"full_description"`
			Status string `json:"status"`
		} `json:"examples"`
	}
	if err := json.Unmarshal(log, &run); err != nil {
		t.Fatal(err)
	}
	passed = map[string]bool{}
	for _, e := range run.Examples {
		name := e.Name
		switch {
		case strings.HasPrefix(name, "Shop::Cart doubles "):
			name = "Shop::Cart doubles *"
		case strings.HasPrefix(name, "Shop::Cart is expected "): // two examples without a title
			name = "Shop::Cart example *"
		}
		was, known := passed[name]
		passed[name] = (was || !known) && e.Status != "failed"
	}
	return passed, out
}

func mustParseRuby(t *testing.T, src string) File {
	t.Helper()
	f, err := ParseRuby("spec/cart_spec.rb", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRubyRun: neutral edits change no verdict, and each sabotage makes its example
// fail and no other.
func TestRubyRun(t *testing.T) {
	t.Parallel()
	tally.AtItsTurn(t, 0, 4)
	needTool(t, "rspec")
	triesAll(t, mustParseRuby(t, rubyProject), func(text []byte) (map[string]bool, string) { return ranRuby(t, text) })
}
