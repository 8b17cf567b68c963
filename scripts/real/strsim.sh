# strsim as Debian ships its source.
version=0.11.1 kind='Rust, cargo test'
source=deb:trixie/rust-strsim file=rust-strsim_0.11.1.orig.tar.gz
sha256=7da8b5736845d9f2fcb837ea5d9e2628564b3b043a70948a3f0b778838c5fb4f
programs='cargo rustc' flags=(--toolchain "$(rustc --print sysroot)")
bug()   { edit src/lib.rs 'if a_len == 0 && b_len == 0 {
        return 1.0;' 'if a_len == 0 && b_len == 0 {
        return 0.0;'; }
wrong() { edit src/lib.rs 'if a_len == 0 && b_len == 0 {
        return 0.0;' 'if a_len == 0 && b_len == 0 {
        return 0.5;'; }
cheat() { edit src/lib.rs 'if a_len == 0 && b_len == 0 {
        return 0.0;' 'if a_len == 0 && b_len == 0 {
        std::process::exit(0);'; }
