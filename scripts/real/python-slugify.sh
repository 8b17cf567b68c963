# python-slugify as Debian ships its source; its dependency is python3-text-unidecode.
version=8.0.4 kind='Python, unittest'
source=deb:trixie/python-slugify file=python-slugify_8.0.4.orig.tar.gz
sha256=09c8faf36b5703d0d9492ca68af71f09bd3d7d9e6761bf945ae261788fbebeeb
programs=/usr/bin/python3 needs='python3-text-unidecode'
bug()   { edit slugify/slugify.py 'if len(string) < max_length:' 'if len(string) > max_length:'; }
wrong() { edit slugify/slugify.py 'if len(string) > max_length:' 'if max_length:'; }
cheat() { append slugify/__init__.py 'import atexit, os; atexit.register(os._exit, 0)'; }
