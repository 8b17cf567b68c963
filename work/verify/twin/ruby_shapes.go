package twin

import "strings"

// The catalogue of Ruby. The words are those of js_shapes.go: $$G is a global
// variable of the name $G. What is added are methods at the end of the file, which
// examples know when they run.

// rubyLanguage is how test files of Ruby are edited.
var rubyLanguage = &scriptLanguage{name: "Ruby", join: underscores, cores: rubyCores, windows: rubyWindows(), others: rubyOthers, trace: rubyTrace, traceRow: arrowRow, quote: singleQuoted, shape: rubyShape}

// rubyWindows are the comparisons of other languages, without their operators for
// one type.
func rubyWindows() (out []string) {
	for _, w := range jsWindows {
		out = append(out, strings.ReplaceAll(w, "!==", "!="))
	}
	return out
}

// rubyShape draws a shape for a form, and defines what it needs.
func rubyShape(e *scriptEdit, form scriptForm) scriptShape {
	switch form {
	case scriptTurn:
		return e.wrapped(one(e.draw, rubyWraps), e.body(e.traced(rubyTracedTurn, rubyTurns), ""))
	case scriptValue:
		return e.wrapped(one(e.draw, rubyWraps), e.body(one(e.draw, rubyExpects), "$N($b, nil)"))
	case scriptState:
		return e.wrapped(one(e.draw, rubyCalls), e.body(one(e.draw, rubyRaises), "$N($b, nil)"))
	}
	s := e.wrapped(one(e.draw, rubyCalls), e.body(one(e.draw, rubyRaises), "$N($b, [$!])"))
	return scriptShape{" begin; begin;", " end; ensure; " + s.open + "; end; "}
}

// rubyWraps hand an expression to a method.
var rubyWraps = []scriptWrap{
	{"$F(", ", $n)", `
def $F($a, $b)
  $B
end`},
	{"$F($n, ", ")", `
def $F($b, $a)
  $B
end`},
	{"$F([", ", $n])", `
def $F($c)
  $a, $b = $c
  $B
end`},
	{"$F(", ", '$w', $n)", `
def $F($a, $c, $b)
  $B
end`},
	{"$F($n).call(", ")", `
def $F($b)
  lambda do |$a|
    $B
  end
end`},
	{"$F('$x' => ", ", '$w' => $n)", `
def $F($c)
  $a = $c['$x']
  $b = $c['$w']
  $B
end`},
}

// rubyTurns are bodies that return what is expected of in $a, or what expects the
// contrary: it calls "not_to" for "to".
var rubyTurns = []string{`
$c = $a
if $C($b)
  $c = Object.new
  $c.define_singleton_method(:to) { |*$d, &$e| $a.not_to(*$d, &$e) }
  $c.define_singleton_method(:not_to) { |*$d, &$e| $a.to(*$d, &$e) }
  $c.define_singleton_method(:to_not) { |*$d, &$e| $a.to(*$d, &$e) }
end
$c`, `
if !$C($b)
  $a
else
  Class.new do
    define_method(:to) { |*$d, &$e| $a.to_not(*$d, &$e) }
    define_method(:not_to) { |*$d, &$e| $a.to(*$d, &$e) }
    define_method(:to_not) { |*$d, &$e| $a.to(*$d, &$e) }
  end.new
end`, `
[$a, nil].each do |$c|
  break $a unless $C($b)
  $c = Struct.new(:$m).new($i)
  { to: :not_to, not_to: :to, to_not: :to }.each do |$d, $e|
    $c.define_singleton_method($d) { |*$f, &$L| $a.public_send($e, *$f, &$L) }
  end
  break $c
end`, `
case $C($b)
when true
  $c = Object.new
  %i[to not_to to_not].zip(%i[not_to to to]) do |$d, $e|
    $c.define_singleton_method($d) { |*$f, &$L| $a.public_send($e, *$f, &$L) }
  end
  $c
else
  $a
end`}

const rubyTracedTurn = `
$c = $C($b)
$d = Object.new
{ to: :not_to, not_to: :to, to_not: :to }.each do |$e, $f|
  $d.define_singleton_method($e) do |*$G, &$L|
    begin
      $S = $a.public_send($c ? $f : $e, *$G, &$L)
      $N($b, true)
      $S
    rescue Exception
      $N($b, false)
      raise
    end
  end
end
$d`

var rubyExpects = []string{`
$C($b) ? $O($a, $b) : $a`, `
if $C($b)
  $O($a, $b)
else
  $a
end`, `
$d = [$a]
$d << $O($a, $b) if $C($b)
$d.last`, `
case $C($b)
when true then $O($a, $b)
else $a
end`, `
$a = $O($a, $b) unless !$C($b)
$a`}

// rubyCalls are statements that call a method with their number, in $b.
var rubyCalls = []scriptWrap{
	{"$F($n)", "", `
def $F($b)
  $B
end`},
	{"$F($n, '$w')", "", `
def $F($b, $a)
  $B
end`},
	{"$F('$w', $n)", "", `
def $F($a, $b)
  $B
end`},
	{"$F($n).call", "", `
def $F($b)
  lambda do
    $B
  end
end`},
	{"$F([$n])", "", `
def $F($a)
  $b = $a.first
  $B
end`},
	{"$F('$w' => $n)", "", `
def $F($a)
  $b = $a['$w']
  $B
end`},
}

// rubyRaises are bodies that fail.
var rubyRaises = []string{`
raise '$w $x' if $C($b)`, `
raise ArgumentError, '$w' unless !$C($b)`, `
if $C($b)
  raise RSpec::Expectations::ExpectationNotMetError, '$w $y'
end`, `
$i / ($C($b) ? 0 : $j)`, `
{ false => '$w' }.fetch($C($b))`, `
($C($b) ? nil : '$w').length`, `
case $C($b)
when true
  raise IndexError, '$x $y'
end`, `
Integer($C($b) ? '$w' : '$i')`}

// rubyCores are ways to decide of a number whether its site is sabotaged now.
var rubyCores = []siteCore{
	{"$n => [$1, $2, $3, $4],", `
def $C($a)
  $$G ||= {
    $T
  }
  $b = $$G[$a]
  $b[0] += $b[1]
  $Q{$b[0]|$b[2]|$b[3]}
end`},
	{"when $n then $F($a, $1, $2, $3, $4)", `
def $C($a)
  case $a
    $T
  end
end
def $F($a, $b, $c, $d, $e)
  $$G ||= {}
  $$G[$a] = ($$G[$a] || $b) + $c
  $Q{$$G[$a]|$d|$e}
end`},
	{"$n => '$1 $2 $3 $4',", `
def $C($a)
  $$G ||= Hash.new(0)
  $b, $c, $d, $e = $F[$a].split(' ').map(&:to_i)
  $$G[$a] += $c
  $Q{$b + $$G[$a]|$d|$e}
end
def $F
  {
    $T
  }
end`},
	{"[$n, $1, $2, $3, $4],", `
def $C($a)
  $$G ||= [
    $T
  ]
  $b = $$G.find { |$c| $c.first == $a }
  $b[1] += $b[2]
  $Q{$b[1]|$b[3]|$b[4]}
end`},
	{"$n => lambda { $F($n, $1, $2, $3..$4) },", `
def $C($a)
  $$L ||= {
    $T
  }
  $$L[$a].call
end
def $F($a, $b, $c, $d)
  $$G ||= {}
  $$G[$a] = $$G.fetch($a, $b) + $c
  $Q{$$G[$a]|$d.first|$d.last}
end`},
}

// rubyOthers make another value of the type of $a, the number $b decides which: one
// that is like it where $b is even, and else one that no part and no tolerance covers.
var rubyOthers = []string{`
def $O($a, $b)
  $c = $b % 1000 + $i
  case $a
  when nil then '$w'
  when true then false
  when false then true
  when Integer then $b.even? ? $a + 1 + $c % 5 : -$a.abs - $c
  when Float then $a.finite? ? $a + $a.abs + $c : 0.5
  when String then $b.even? ? $a + ($c % 10).to_s : '$x' + $a + '$w'
  when Symbol then :"#{$a}_$w"
  when Array
    if $b.even? && !$a.empty? && [Integer, String].include?($a.last.class)
      $a[0..-2] + [$O($a.last, $b)]
    else
      $a + [$c]
    end
  when Hash then $a.merge('$y' => $c)
  when Regexp then /$w$x#{$c}/
  when Range then ($c..$c + $j)
  else [$a, $c]
  end
end`, `
def $O($a, $b)
  $c = $i + $b % 997
  if $a == true || $a == false
    !$a
  elsif $a.is_a?(Integer)
    $b.odd? ? $a.abs + $c * 2 : $a - 2 - $c % 4
  elsif $a.is_a?(Float)
    $a.finite? ? $a.abs * 2 + $c : -1.5
  elsif $a.is_a?(String)
    $b.odd? ? $a + '$x$y' : ($c % 10).to_s + $a
  elsif $a.is_a?(Symbol)
    "$w_#{$a}".to_sym
  elsif $a.is_a?(Array)
    [$a.first.is_a?(Integer) || $a.first.is_a?(String) ? $O($a.first, $b) : $c] + $a.drop(1)
  elsif $a.is_a?(Hash)
    $a.merge($a.keys.first => ['$m', $c])
  elsif $a.is_a?(Regexp)
    Regexp.new('$y$w' + $c.to_s)
  else
    ['$x', $c]
  end
end`}

// rubyTrace is the method $N, $p is the path and $k the key. What writes is taken
// before any example can put something in its place.
const rubyTrace = `
$$S = File.method(:write)
def $N($a, $b)
  $$G ||= {
    $T
  }
  $$L ||= Hash.new { |$d, $e| $d[$e] = [0, 0] }
  $c, $d, $f = $$G[$a]
  $e = $$L[$a]
  $F = lambda do |$G|
    $$S.call($p, "$k #{$G}\n", mode: 'a')
  rescue SystemCallError
    nil
  end
  $e[0] += 1
  if $c
    $e[1] += 1 unless $b
    $F.call("E #{$d} #{$e[0]} #{$b ? 'ok' : 'failed'}") if $e[0] == 1 || !$b && $e[1] <= 16
  elsif $e[0] == 1
    $F.call("R #{$d}")
  end
  return unless $b.is_a?(Array)
  if $b.first.class.name.to_s =~ /SkipDeclared|\AMinitest::Skip\z/
    $F.call("T #{$f} skip")
  else
    $F.call("T #{$f} #{($b.first && !$b.first.is_a?(SystemExit)) || $C($a) ? 'fail' : 'pass'}")
  end
end`
