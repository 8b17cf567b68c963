package image_test

import (
	"archive/tar"
	"bytes"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"remit/proof/reason"
)

// TestHostileLayers pulls each attack as a layer of an otherwise honest image, and
// expects its own code and nothing in the store.
func TestHostileLayers(t *testing.T) {
	t.Parallel()
	host := serve(t)
	device := func(major, minor int64) entry {
		return entry{name: "null", kind: tar.TypeChar, major: major, minor: minor}
	}
	chain := []entry{dir("d")}
	for i := range 60 {
		chain = append(chain, link("l"+strings.Repeat("x", i), "l"+strings.Repeat("x", i+1)))
	}
	tests := []struct {
		name    string
		entries []entry
		code    reason.Code
	}{
		{"parent", []entry{file("../x", "")}, reason.ImageLayerName},
		{"parent inside", []entry{dir("a"), file("a/../../x", "")}, reason.ImageLayerName},
		{"parent that stays", []entry{dir("a"), file("a/../x", "")}, reason.ImageLayerName},
		{"absolute", []entry{file("/etc/x", "")}, reason.ImageLayerName},
		{"long name", []entry{file(strings.Repeat("a", 256), "")}, reason.ImageLayerName},
		{"long path", []entry{file(strings.Repeat("abcdefg/", 300)+"x", "")}, reason.ImageLayerName},
		{"deep path", []entry{file(strings.Repeat("a/", 200)+"x", "")}, reason.ImageLayerName},
		{"whiteout of ..", []entry{file("d/.wh...", "")}, reason.ImageLayerName},
		{"whiteout of .", []entry{file("d/.wh..", "")}, reason.ImageLayerName},
		{"whiteout of nothing", []entry{file("d/.wh.", "")}, reason.ImageLayerName},
		{"whiteout of a whiteout", []entry{file("d/.wh..wh.x", "")}, reason.ImageLayerName},
		{"below a whiteout", []entry{file(".wh.x/y", "")}, reason.ImageLayerName},
		{"opaque as a directory", []entry{dir(".wh..wh..opq"), file(".wh..wh..opq/x", "")}, reason.ImageLayerName},
		{"through a link out", []entry{link("a", "../../../tmp"), file("a/x", "evil")}, reason.ImageLayerLink},
		{"through a link to the parent of the root", []entry{link("a", ".."), file("a/x", "evil")}, reason.ImageLayerLink},
		{"whiteout through a link out", []entry{link("a", ".."), file("a/.wh.x", "")}, reason.ImageLayerLink},
		{"chain of links", append(chain, file("l/x", "")), reason.ImageLayerLink},
		{"link to itself", []entry{link("a", "a"), file("a/x", "")}, reason.ImageLayerLink},
		{"hard link out", []entry{hard("x", "../../../../etc/passwd")}, reason.ImageLayerLink},
		{"hard link to a file of the host", []entry{hard("x", "/etc/hostname")}, reason.ImageLayerLink},
		{"hard link through a link out", []entry{link("a", "../.."), hard("x", "a/etc/passwd")}, reason.ImageLayerLink},
		{"hard link to a directory", []entry{dir("d"), hard("x", "d")}, reason.ImageLayerLink},
		{"hard link to nothing", []entry{hard("x", "y")}, reason.ImageLayerLink},
		{"hard link to a whiteout", []entry{file(".wh.y", ""), hard("x", ".wh.y")}, reason.ImageLayerLink},
		{"file twice", []entry{file("x", "good"), file("x", "evil")}, reason.ImageLayerEntry},
		{"file over its hard link", []entry{file("x", "good"), hard("y", "x"), file("y", "evil")}, reason.ImageLayerEntry},
		{"file over a link", []entry{link("x", "/tmp/evil"), file("x", "evil")}, reason.ImageLayerEntry},
		{"link over a file", []entry{file("x", ""), link("x", "y")}, reason.ImageLayerEntry},
		{"directory over a link", []entry{link("x", "/tmp"), dir("x")}, reason.ImageLayerEntry},
		{"directory over a file", []entry{file("x", ""), dir("x")}, reason.ImageLayerEntry},
		{"file over a directory", []entry{dir("x"), file("x", "")}, reason.ImageLayerEntry},
		{"twice by another spelling", []entry{file("d/x", "good"), file("./d//x", "evil")}, reason.ImageLayerEntry},
		{"twice through a link", []entry{dir("usr"), file("usr/x", "good"), link("u", "/usr"), file("u/x", "evil")}, reason.ImageLayerEntry},
		{"below a file", []entry{file("x", ""), file("x/y", "")}, reason.ImageLayerEntry},
		{"link in the place of the root", []entry{link("./", "/tmp")}, reason.ImageLayerEntry},
		{"device that hides", []entry{device(0, 0)}, reason.ImageLayerEntry},
		{"unknown kind", []entry{{name: "x", kind: 'Z'}}, reason.ImageLayerEntry},
		{"sparse file", []entry{{name: "x", kind: tar.TypeReg, text: "1\n0\n512\n" + strings.Repeat("\x00", 504), pax: map[string]string{
			"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": "99999999999"}}}, reason.ImageTooLarge},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			packed := rawTar(t, test.entries)
			ref := host + "/hostile/" + string(rune('a'+i%26)) + strings.Repeat("z", i/26) + ":1"
			push(t, ref, imageOf(t, v1.Config{}, layerOf(t, types.OCILayer, gzipped(t, packed))))
			s, dir := open(t)
			_, err := pull(t, s, ref)
			wantCode(t, err, test.code)
			nothingStaged(t, dir)
		})
	}
}

// rawTar writes entries that the writer of package tar refuses, too.
func rawTar(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out []byte
	for _, e := range entries {
		if e.pax == nil && e.kind != 'Z' {
			b := tarOf(t, e)
			out = append(out, b[:len(b)-1024]...)
			continue
		}
		pax := e.pax
		e.pax = nil
		kind := e.kind
		e.kind = tar.TypeReg
		b := tarOf(t, e)
		b = b[:len(b)-1024]
		b[156] = kind
		checksum(b[:512])
		if len(pax) > 0 {
			var text string
			for key, value := range pax {
				text += paxRecord(key, value)
			}
			x := tarOf(t, entry{name: "PaxHeaders/x", kind: tar.TypeReg, text: text})
			x = x[:len(x)-1024]
			x[156] = tar.TypeXHeader
			checksum(x[:512])
			b = append(x, b...)
		}
		out = append(out, b...)
	}
	return append(out, make([]byte, 1024)...)
}

func paxRecord(key, value string) string {
	text := " " + key + "=" + value + "\n"
	n := len(text) + 1
	for len(strconv.Itoa(n))+len(text) != n {
		n++
	}
	return strconv.Itoa(n) + text
}

// checksum repairs the checksum of a header.
func checksum(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	const digits = "01234567"
	for i := 5; i >= 0; i-- {
		h[148+i] = digits[sum%8]
		sum /= 8
	}
	h[154], h[155] = 0, ' '
}

// TestHostileStreams breaks the bytes around the entries of a layer.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	host := serve(t)
	honest := tarOf(t, dir("bin"), file("bin/x", strings.Repeat("text ", 1000)))
	short := gzipped(t, honest)
	tests := []struct {
		name   string
		packed []byte
		code   reason.Code
	}{
		{"truncated gzip", short[:len(short)-9], reason.ImageLayerStream},
		{"truncated tar", gzipped(t, honest[:1536]), reason.ImageLayerStream},
		{"no archive at all", gzipped(t, bytes.Repeat([]byte("no archive "), 200)), reason.ImageLayerStream},
		{"entries after the end", gzipped(t, append(bytes.Clone(honest), tarOf(t, file("evil", "evil"))...)), reason.ImageLayerStream},
		{"text after the stream", append(bytes.Clone(short), "garbage"...), reason.ImageLayerStream},
		{"truncated zstd", zstded(t, honest)[:40], reason.ImageLayerStream},
		{"unknown compression", []byte("\xfd7zXZ\x00" + strings.Repeat("x", 600)), reason.ImageLayerStream},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ref := host + "/stream/" + string(rune('a'+i)) + ":1"
			push(t, ref, imageOf(t, v1.Config{}, &rawLayer{packed: test.packed, plain: honest}))
			s, dir := open(t)
			_, err := pull(t, s, ref)
			wantCode(t, err, test.code)
			nothingStaged(t, dir)
		})
	}
}
