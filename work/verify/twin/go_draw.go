package twin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// goDraw is the stream of choices of one call to Edit: SHA-256 in counter mode,
// so that who sees some choices cannot compute the others.
type goDraw struct {
	key  []byte
	next uint64
	buf  []byte
}

// newGoDraw makes the choices depend on the orders' seed, on the key of the
// file and on its text: two files of a package draw different names.
func newGoDraw(seed [32]byte, key string, src []byte) *goDraw {
	text := sha256.Sum256(src)
	mac := hmac.New(sha256.New, seed[:])
	mac.Write(text[:])
	mac.Write([]byte(key))
	return &goDraw{key: mac.Sum(nil)}
}

func (d *goDraw) uint64() uint64 {
	if len(d.buf) < 8 {
		mac := hmac.New(sha256.New, d.key)
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], d.next)
		mac.Write(n[:])
		d.next++
		d.buf = mac.Sum(nil)
	}
	v := binary.BigEndian.Uint64(d.buf)
	d.buf = d.buf[8:]
	return v
}

// below returns a number in [0,n); n is far below 2^32, so the bias of the
// remainder is of no use to an observer.
func (d *goDraw) below(n int) int { return int(d.uint64() % uint64(n)) }

// between returns a number in [low,high).
func (d *goDraw) between(low, high uint64) uint64 { return low + d.uint64()%(high-low) }

func (d *goDraw) coin() bool { return d.uint64()&1 == 1 }

// order returns the numbers below n in an order drawn anew.
func (d *goDraw) order(n int) []int {
	out := make([]int, n)
	for i := range out {
		j := d.below(i + 1)
		out[i] = out[j]
		out[j] = i
	}
	return out
}

// number writes v as one of the literals that a person would choose.
func (d *goDraw) number(v uint64) string {
	if d.below(3) == 0 {
		return "0x" + strconv.FormatUint(v, 16)
	}
	return strconv.FormatUint(v, 10)
}

// goWords are the parts of names and messages. Four of them make a name, so
// that the names of the files of a package do not meet.
var goWords = strings.Fields(`
	access active actual after anchor answer archive audit balance base batch before block border bounds branch
	bucket budget buffer bundle cache call canvas carry cell chain change channel chunk class clean client clock
	closed code column commit common config content copy core count cover cursor cycle data date decode default
	delta depth detail device digest direct done draft drift edge effect encode engine entry epoch event exact
	excess expiry extra factor fault feed field final first flag flow focus folder format forward frame fresh
	gap gate global grade grant graph grid group guard half handle hash head header height hint history hold
	host idle image inner input inset item join journal keep label lapse last latest layer lead ledger left
	length level limit line link list load local lock log loop lower main major map margin mark mask match
	measure member merge meter mirror mode model module mount name native near nested net next node note
	notice number offset open option order origin outer output owner pack page pair panel parent part pass patch
	path peak peer pending phase pick pin pivot plan plain point pool port post prefix primary prior probe
	process profile proxy pulse query queue quota rank rate ratio raw reader ready record region relay remote
	render report reserve reset result retry return right ring role root round route row rule sample scale scan
	scope score sector section segment sequence series session set shadow shape share shift side signal size
	slot snapshot source space span spare split stack stage stale start state status step stock store stream
	strict string subject suffix sum swap switch table tail target task term ticket tile time token top total
	trace track transfer tree trial tuple turn unit update upper usage valid value version view volume wait
	walk weight width window word worker wrap write yield zone`)

// name returns an identifier that the file does not use, and takes it.
func (g *goGen) name() string {
	for {
		var b strings.Builder
		for i := range 4 {
			w := goWords[g.draw.below(len(goWords))]
			if i > 0 {
				w = strings.ToUpper(w[:1]) + w[1:]
			}
			b.WriteString(w)
		}
		if g.draw.below(3) == 0 {
			b.WriteString(strconv.Itoa(2 + g.draw.below(97)))
		}
		if s := b.String(); !g.file.idents[s] && !g.taken[s] {
			g.taken[s] = true
			return s
		}
	}
}

// field returns a short name for a field or a parameter, which only helper code
// sees, other than those in not.
func (g *goGen) field(not ...string) string {
	for {
		s := goWords[g.draw.below(len(goWords))]
		if !goReserved[s] && !token.IsKeyword(s) && !slices.Contains(not, s) {
			return s
		}
	}
}

// fields returns n short names that differ.
func (g *goGen) fields(n int) []string {
	var out []string
	for range n {
		out = append(out, g.field(out...))
	}
	return out
}

// message returns the text of a failure, quoted.
func (g *goGen) message() string {
	w := func() string { return goWords[g.draw.below(len(goWords))] }
	switch g.draw.below(5) {
	case 0:
		return strconv.Quote("unexpected " + w() + " " + w())
	case 1:
		return strconv.Quote(w() + " " + w() + " does not match " + w())
	case 2:
		return strconv.Quote("wrong " + w() + " in " + w())
	case 3:
		return strconv.Quote(w() + ": " + w() + " is not " + w())
	default:
		return strconv.Quote("bad " + w() + " " + w())
	}
}
