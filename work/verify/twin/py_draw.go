package twin

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// pyDraw is the stream of choices of one edit: SHA-256 in counter mode over the
// seed, the digest of the text and a label. It decides nothing but how an edit
// looks, and the same seed gives the same edit.
type pyDraw struct {
	key     [32]byte
	block   [32]byte
	counter uint64
	left    []byte
}

// newPyDraw starts the stream of a label.
func newPyDraw(seed, digest [32]byte, label string) *pyDraw {
	text := append([]byte("remit twin python 1\x00"), seed[:]...)
	text = append(text, digest[:]...)
	return &pyDraw{key: sha256.Sum256(append(text, label...))}
}

// uint64 returns the next eight bytes.
func (d *pyDraw) uint64() uint64 {
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
func (d *pyDraw) below(n int) int { return int(d.uint64() % uint64(n)) }

// between returns a number from low to high, both included.
func (d *pyDraw) between(low, high int) int { return low + d.below(high-low+1) }

// pyShuffle puts s into another order.
func pyShuffle[T any](d *pyDraw, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := d.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// pyPick returns n different members of s, or all of them in another order if
// there are fewer.
func pyPick[T any](d *pyDraw, s []T, n int) []T {
	s = slices.Clone(s)
	pyShuffle(d, s)
	return s[:min(n, len(s))]
}

// Words of which names and texts are made: what people write in tests.
var (
	pyFirst = strings.Fields(`after any as at base both by can clean close count cross current default direct each early
		even expand extra fast final find first fit flat fold force free fresh from full get good group guard have hold
		in inner into join keep known last late lay left level like line link local long look loose make map mark match mid
		min mix more near next note of off old on only open order other out outer over own pair part pass past peek pick
		plain point pre prior pull push put quick rank rate raw read real rest round row safe same scan seen send set share
		short show side sim small soft sort spare split start state step still store sub sure swap tag take tidy to top
		track true tune turn under up use via wait walk well wide with work wrap`)
	pySecond = strings.Fields(`amount area args array axis bag band bar batch bit block body border bound box branch
		bucket buffer bundle cache call card case cell chain chunk clock code column copy core corner cover cursor
		data day depth detail digit door drop edge end entry event face factor field figure file flag flow form frame
		front gap gate goal grade grid half handle head height hint hook hour index input item key kind label layer
		leaf length limit list load lock log loop margin mask member message mode model month move name node number
		object offset option origin output owner pack page panel parent path pattern phase piece place plan plane pool
		port position post price process proof query queue quota range ratio reach record region reply report result
		role root rule run sample scale scope score section sequence series shape sheet shift sign signal size slice
		slot source space span stack stage stamp status stock stop stream string style sum switch table tail target
		task term text tick time title token total trace tree type unit user value view weight width window word zone`)
	pyLocals = strings.Fields(`a b c d e f g h i j k m n p q r s t u v w x y z arg args at base box by cell count cur data
		depth doc el elem first fn func got high idx info item key kind last left low more name num obj one opts out pair
		part pos prev rest right row seen side size span step sub tail text this tmp total two unit val value vals what
		where which word`)
	pyTexts = strings.Fields(`alpha amber apple basic beta birch blank blue bravo bread bright brown cabin cedar center
		charlie city clear cloud coast copper coral crisp daily delta desert eager early earth empty evening falcon
		field flint forest frost garden general ginger glass gold grain granite green harbor hazel honey house indigo
		island ivory jade kettle lemon light linen little local lunar maple march marble meadow metal minor morning
		narrow normal north ocean olive orange paper pearl pepper planet plain prime quiet rapid regular ribbon river
		robin royal saddle salt sample sandy scarlet second silver simple single south spring standard steady stone
		summer sunny tango timber travel triple valley velvet violet water western whole willow window winter yellow`)
)

// pyNames gives out names that the text does not use.
type pyNames struct {
	draw  *pyDraw
	taken map[string]bool // by this edit
	words map[string]bool // by the text
}

// global returns a new name of a function, a class or a variable of the module.
// It is two or three words, so no built-in and no keyword.
func (n *pyNames) global() string {
	for {
		parts := []string{pyFirst[n.draw.below(len(pyFirst))], pySecond[n.draw.below(len(pySecond))]}
		if n.draw.below(3) == 0 {
			parts = append(parts, pySecond[n.draw.below(len(pySecond))])
		}
		name := strings.Join(parts, "_")
		if !n.taken[name] && !n.words[name] {
			n.taken[name] = true
			return name
		}
	}
}

// class returns a new name of a class.
func (n *pyNames) class() string {
	for {
		name := ""
		for word := range strings.SplitSeq(n.global(), "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		if !n.taken[name] && !n.words[name] {
			n.taken[name] = true
			return name
		}
	}
}

// locals returns n different names for variables of a function.
func (n *pyNames) locals(count int) []string { return pyPick(n.draw, pyLocals, count) }
