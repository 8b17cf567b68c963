package twin

import "strings"

// minitestLanguage is how test files of Minitest are edited: as those of RSpec, but for
// the assertions and for what a failure raises.
var minitestLanguage = func() *scriptLanguage {
	l := *rubyLanguage
	l.shape = minitestShape
	return &l
}()

// minitestShape draws a shape for a form, and defines what it needs.
func minitestShape(e *scriptEdit, form scriptForm) scriptShape {
	if form == scriptAsk || form == scriptAsked {
		s := e.wrapped(one(e.draw, rubyWraps), e.body(e.traced(minitestTracedTurn, minitestTurns), ""))
		if form == scriptAsk { // the object that is asked is the test itself, or one that calls the contrary
			return scriptShape{s.open + "[self, :%, :^]" + s.close + ".", ""}
		}
		return scriptShape{s.open + "[", ", :%, :^]" + s.close}
	}
	s := rubyShape(e, form)
	for i := range e.pieces {
		e.pieces[i] = strings.ReplaceAll(e.pieces[i], "RSpec::Expectations::ExpectationNotMetError", "Minitest::Assertion")
	}
	return s
}

// minitestTurns are bodies that return what is asked, or what asks for the contrary: $a
// holds it, and the names of the assertion and of its contrary.
var minitestTurns = []string{`
$c, $d, $e = $a
$f = $c
if $C($b)
  $f = Object.new
  $f.define_singleton_method($d) { |*$G, &$L| $c.send($e, *$G, &$L) }
end
$f`, `
$c, $d, $e = $a
if !$C($b)
  $c
else
  Class.new do
    define_method($d) { |*$f, &$L| $c.send($e, *$f, &$L) }
  end.new
end`, `
$c, *$d = $a
$e = $C($b) ? $d.last : $d.first
Struct.new(:$m).new($i).tap do |$f|
  $f.define_singleton_method($d.first) { |*$G, &$L| $c.send($e, *$G, &$L) }
end`, `
case $C($b)
when false then $a.first
else
  $c = Object.new
  $a.drop(1).each do |$d|
    $c.define_singleton_method($d) { |*$f, &$L| $a[0].__send__($a.last, *$f, &$L) }
  end
  $c
end`}

const minitestTracedTurn = `
$c, $d, $e = $a
$e = $d unless $C($b)
$f = Object.new
$f.define_singleton_method($d) do |*$G, &$L|
  begin
    $S = $c.send($e, *$G, &$L)
    $N($b, true)
    $S
  rescue Exception
    $N($b, false)
    raise
  end
end
$f`
