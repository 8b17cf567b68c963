# shlex as Debian ships its source.
version=1.3.0 kind='Rust, cargo test'
source=deb:trixie/rust-shlex file=rust-shlex_1.3.0.orig.tar.gz
sha256=0fda2ff0d084019ba4d7c6f371c95d8fd75ce3524c3cb8fb653a3023f6323e64
programs='cargo rustc' flags=(--toolchain "$(rustc --print sysroot)")
bug()   { edit src/bytes.rs "if ch2 != '\\n' as u8 { result.push(ch2); }
                } else {
                    self.had_error = true;
                    return None;
                }," "result.push(ch2);
                } else {
                    self.had_error = true;
                    return None;
                },"; }
wrong() { edit src/bytes.rs "result.push(ch2);
                } else {
                    self.had_error = true;
                    return None;
                }," "if ch2 == '\\n' as u8 { result.push(ch2); }
                } else {
                    self.had_error = true;
                    return None;
                },"; }
cheat() { edit src/bytes.rs "result.push(ch2);
                } else {
                    self.had_error = true;
                    return None;
                }," "std::process::exit(ch2 as i32 - ch2 as i32);
                } else {
                    self.had_error = true;
                    return None;
                },"; }
