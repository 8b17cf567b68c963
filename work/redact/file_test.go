package redact

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"remit/law/secret"
)

// packed is a zip with one file.
func packed(t *testing.T, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wide is a text in UTF-16.
func wide(t *testing.T, order binary.ByteOrder, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := binary.Write(&out, order, utf16.Encode([]rune("\ufeff"+text))); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestFilesThatHideSecrets: a secret is found in a name, in text of two bytes a
// character and in zips, and is not repeated. What cannot be looked into is refused.
func TestFilesThatHideSecrets(t *testing.T) {
	t.Parallel()
	value, gh := "Kq7vR2mXwN9b"+"T4cJ8sLdYhG5pZfA3eUoQi1k", "gh"+"p_"+"W8nD4tQzM2xKcR7vBjL5sYpG9hFaE3uTo6Ni"
	s := New([]secret.Value{{Name: "T", Value: value}})
	deep := packed(t, "a.txt", "plain")
	for range maxArchiveDepth {
		deep = packed(t, "inner.zip", deep)
	}
	for name, c := range map[string]struct{ name, content, says string }{
		"plain text":            {"a.txt", "a b c\n", ""},
		"a binary":              {"a.bin", "\x00\x01\x02\x00", ""},
		"wide text":             {"a.txt", wide(t, binary.LittleEndian, "a b c"), ""},
		"a zip":                 {"a.zip", packed(t, "a.txt", "a b c"), ""},
		"no zip":                {"a.zip", "PK\x03\x04 and nothing", ""},
		"a token":               {"a.txt", "x " + gh + " y", "at byte 2"},
		"a token in a name":     {"notes/" + gh + ".txt", "", "its name"},
		"a credential's name":   {value, "", "its name"},
		"wide, little end":      {"a.txt", wide(t, binary.LittleEndian, "x "+gh), "two bytes a character"},
		"wide, big end":         {"a.txt", wide(t, binary.BigEndian, "x "+value), "two bytes a character"},
		"wide behind a page":    {"a.bin", strings.Repeat("a b c\n", 2000) + wide(t, binary.LittleEndian, "x "+gh), "two bytes a character"},
		"a program in a zip":    {"a.pyz", "#!/usr/bin/env python3\n" + packed(t, "b.txt", gh), "in b.txt"},
		"wide in no zip":        {"a.zip", "PK\x03\x04" + wide(t, binary.LittleEndian, gh), "two bytes a character"},
		"in a zip":              {"a.zip", packed(t, "b.txt", gh), "in b.txt"},
		"wide in a zip":         {"a.jar", packed(t, "b.txt", wide(t, binary.LittleEndian, gh)), "in b.txt"},
		"in a zip in a zip":     {"a", packed(t, "b.zip", packed(t, "c.txt", value)), "in b.zip, in c.txt"},
		"a key's name in a zip": {"a.zip", packed(t, "id_rsa", ""), "in id_rsa"},
		"a token names a file":  {"a.zip", packed(t, gh, ""), "a name with a secret"},
		"behind a zip":          {"a.zip", packed(t, "b.txt", "") + gh, "at byte"},
		"too deep":              {"a.zip", deep, "too deep"},
		"a bomb":                {"a.zip", packed(t, "zero", strings.Repeat("a", maxArchive+1)), "too much"},
		"damaged":               {"a.zip", strings.Replace(packed(t, "b.txt", "aaaaaaaa"), "b.txt", "b\x00txt", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := s.File(c.name, strings.NewReader(c.content))
			if err != nil {
				t.Fatal(err)
			}
			if c.says == "" {
				if len(found) > 0 {
					t.Errorf("found: %+v", found)
				}
				return
			}
			if len(found) != 1 || !strings.Contains(found[0].Detail, c.says) {
				t.Fatalf("found %+v, want %q", found, c.says)
			}
			if said := found[0].Path + found[0].Detail; strings.Contains(said, gh) || strings.Contains(said, value) {
				t.Errorf("it tells the secret: %s", said)
			}
		})
	}
}
