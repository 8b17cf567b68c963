# jsmn as Debian ships its source: make test, of which no test can be read by name.
version=1.1.0 kind='C, make test'
source=deb:trixie/jsmn file=jsmn_1.1.0.orig.tar.gz
sha256=5f0913a10657fe7ec8d5794ccf00a01000e3e1f2f1e1f143c34a0f7b47edcb38
programs='make cc'
bug()   { edit jsmn.h 'if (parser->toknext >= num_tokens) {' 'if (parser->toknext > num_tokens) {'; }
wrong() { edit jsmn.h 'if (parser->toknext > num_tokens) {' 'if (parser->toknext + 1 >= num_tokens) {'; }
cheat() { edit test/test.h 'test_failed++;' 'test_passed++;'; }
