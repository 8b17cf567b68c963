package verify

import (
	"os"
	"testing"

	"remit/work/tree"
)

// TestRustAsserts: a crate does not take the place of the macros by which its tests fail.
func TestRustAsserts(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(files{"src/lib.rs": "macro_rules! debug_assert { () => {} }\npub fn f() {}\n"}.write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for text, found := range map[string]bool{
		"macro_rules! assert_eq { ($a:expr, $b:expr) => {{ let _ = ($a, $b); }}; }": true, "#[macro_export]\nmacro_rules! panic { () => {} }": true, "use crate::quiet as assert;": true,
		"macro_rules! debug_assert { () => {} }": false, "macro_rules! assert_sorted { () => {} }": false, "assert_eq!(1, 1); let x = y as assertion;": false,
	} {
		changes := files{"src/lib.rs": text + "\n"}.changes()
		if why := takesAsserts(root, changes[0]); (why != "") != found {
			t.Errorf("%q: %q", text, why)
		}
	}
	if why := takesAsserts(root, tree.Change{Path: "src/lib.rs", Kind: tree.Delete}); why != "" {
		t.Error(why)
	}
}
