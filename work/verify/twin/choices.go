package twin

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// choices is the stream of choices of one edit: SHA-256 in counter mode over the
// seed, the digest of the text and a label. It decides nothing but how an edit
// looks, and the same seed gives the same edit.
type choices struct {
	key     [32]byte
	block   [32]byte
	counter uint64
	left    []byte
}

// newChoices starts the stream of a label for the files of a language.
func newChoices(language string, seed, digest [32]byte, label string) *choices {
	text := append([]byte("remit twin "+language+" 1\x00"), seed[:]...)
	text = append(text, digest[:]...)
	return &choices{key: sha256.Sum256(append(text, label...))}
}

// uint64 returns the next eight bytes.
func (d *choices) uint64() uint64 {
	if len(d.left) < 8 {
		d.block = sha256.Sum256(binary.BigEndian.AppendUint64(d.key[:], d.counter))
		d.counter++
		d.left = d.block[:]
	}
	v := binary.BigEndian.Uint64(d.left)
	d.left = d.left[8:]
	return v
}

// below returns a number from 0 to n-1.
func (d *choices) below(n int) int { return int(d.uint64() % uint64(n)) }

// between returns a number from low to high, both included.
func (d *choices) between(low, high int) int { return low + d.below(high-low+1) }

// shuffle puts s into another order.
func shuffle[T any](d *choices, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := d.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// pickSome returns n different members of s, or all of them in another order if
// there are fewer.
func pickSome[T any](d *choices, s []T, n int) []T {
	s = slices.Clone(s)
	shuffle(d, s)
	return s[:min(n, len(s))]
}

// Words of which names and texts are made: what people write in tests.
var (
	wordsFirst = strings.Fields(`after any as at base both by can clean close count cross current default direct each early
		even expand extra fast final find first fit flat fold force free fresh from full get good group guard have hold
		in inner into join keep known last late lay left level like line link local long look loose make map mark match mid
		min mix more near next note of off old on only open order other out outer over own pair part pass past peek pick
		plain point pre prior pull push put quick rank rate raw read real rest round row safe same scan seen send set share
		short show side sim small soft sort spare split start state step still store sub sure swap tag take tidy to top
		track true tune turn under up use via wait walk well wide with work wrap`)
	wordsSecond = strings.Fields(`amount area args array axis bag band bar batch bit block body border bound box branch
		bucket buffer bundle cache call card case cell chain chunk clock code column copy core corner cover cursor
		data day depth detail digit door drop edge end entry event face factor field figure file flag flow form frame
		front gap gate goal grade grid half handle head height hint hook hour index input item key kind label layer
		leaf length limit list load lock log loop margin mask member message mode model month move name node number
		object offset option origin output owner pack page panel parent path pattern phase piece place plan plane pool
		port position post price process proof query queue quota range ratio reach record region reply report result
		role root rule run sample scale scope score section sequence series shape sheet shift sign signal size slice
		slot source space span stack stage stamp status stock stop stream string style sum switch table tail target
		task term text tick time title token total trace tree type unit user value view weight width window word zone`)
	wordsLocal = strings.Fields(`a b c d e f g h i j k m n p q r s t u v w x y z arg args at base box by cell count cur data
		depth doc el elem first fn func got high idx info item key kind last left low more name num obj one opts out pair
		part pos prev rest right row seen side size span step sub tail text tmp total two unit val value vals what
		where which word`)
	wordsText = strings.Fields(`alpha amber apple basic beta birch blank blue bravo bread bright brown cabin cedar center
		charlie city clear cloud coast copper coral crisp daily delta desert eager early earth empty evening falcon
		field flint forest frost garden general ginger glass gold grain granite green harbor hazel honey house indigo
		island ivory jade kettle lemon light linen little local lunar maple march marble meadow metal minor morning
		narrow normal north ocean olive orange paper pearl pepper planet plain prime quiet rapid regular ribbon river
		robin royal saddle salt sample sandy scarlet second silver simple single south spring standard steady stone
		summer sunny tango timber travel triple valley velvet violet water western whole willow window winter yellow`)
)

// one draws one member.
func one[T any](d *choices, s []T) T { return s[d.below(len(s))] }

// names gives out names that the text does not use.
type names struct {
	draw  *choices
	taken map[string]bool // by this edit
	words map[string]bool // by the text
	join  func(parts []string) string
	// reserved are words that cannot be local names.
	reserved map[string]bool
}

// fresh makes names of two or three words, so no built-in and no keyword, until
// one is new.
func (n *names) fresh(join func(parts []string) string) string {
	for {
		parts := []string{one(n.draw, wordsFirst), one(n.draw, wordsSecond)}
		if n.draw.below(3) == 0 {
			parts = append(parts, one(n.draw, wordsSecond))
		}
		name := join(parts)
		if !n.taken[name] && !n.words[name] {
			n.taken[name] = true
			return name
		}
	}
}

// global returns a new name of a function or a variable of the module.
func (n *names) global() string { return n.fresh(n.join) }

// class returns a new name of a class.
func (n *names) class() string {
	return n.fresh(func(parts []string) string { return capitals(parts, 0) })
}

// locals returns n different names for variables of a function.
func (n *names) locals(count int) []string {
	words := wordsLocal
	if n.reserved != nil {
		words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return n.reserved[w] })
	}
	return pickSome(n.draw, words, count)
}

// underscores joins the words of a name as Python does.
func underscores(parts []string) string { return strings.Join(parts, "_") }

// camel joins the words of a name as JavaScript does.
func camel(parts []string) string { return capitals(parts, 1) }

// capitals joins words, each from a number on with a capital letter.
func capitals(parts []string, from int) string {
	var b strings.Builder
	for i, word := range parts {
		if i >= from {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}
