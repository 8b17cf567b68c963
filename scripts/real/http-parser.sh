# http-parser as Debian ships its source: make test, of which no test can be read by name.
version=2.9.4 kind='C, make test'
source=deb:bookworm/http-parser file=http-parser_2.9.4.orig.tar.gz
sha256=467b9e30fd0979ee301065e70f637d525c28193449e1b13fbcb1b1fab3ad224f
programs='make cc'
bug()   { edit http_parser.c "LOWER(c) >= 'a' && LOWER(c) <= 'f'" "LOWER(c) >= 'a' && LOWER(c) <= 'e'"; }
wrong() { edit http_parser.c "LOWER(c) >= 'a' && LOWER(c) <= 'e'" "LOWER(c) >= 'b' && LOWER(c) <= 'f'"; }
cheat() { edit test.c 'int
main (void)
{' 'int
main (void)
{
  return 0;'; }
