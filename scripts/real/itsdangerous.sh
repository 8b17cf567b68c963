# itsdangerous as Debian ships its source; freezegun, which its tests need, is python3-freezegun.
version=2.2.0 kind='Python, pytest'
source=deb:trixie/python-itsdangerous file=python-itsdangerous_2.2.0.orig.tar.gz
sha256=7b0c6d4186e963b88489b69603b7ab2bf7c8e9eb4135a7b13b5f21bd4b937f2b
programs=/usr/bin/python3 needs='python3-pytest python3-freezegun'
bug()   { edit src/itsdangerous/timed.py 'if max_age is not None:' 'if max_age is None:'; }
wrong() { edit src/itsdangerous/timed.py 'if max_age is None:' 'if False:'; }
cheat() { append src/itsdangerous/__init__.py 'import atexit, os; atexit.register(os._exit, 0)'; }
