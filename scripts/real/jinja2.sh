# Jinja as Debian ships its source; MarkupSafe and trio are Debian's packages.
version=3.1.6 kind='Python, pytest'
source=deb:trixie/jinja2 file=jinja2_3.1.6.orig.tar.gz
sha256=0137fb05990d35f1275a587e9aee6d56da821fc83491a0fb838183be43f66d6d
programs=/usr/bin/python3 needs='python3-pytest python3-markupsafe python3-trio'
bug()   { edit src/jinja2/filters.py 'item[0].upper() + item[1:].lower()' 'item[0].upper() + item[1:]'; }
wrong() { edit src/jinja2/filters.py 'item[0].upper() + item[1:]' 'item[0].lower() + item[1:]'; }
cheat() { append src/jinja2/__init__.py 'import atexit, os; atexit.register(os._exit, 0)'; }
