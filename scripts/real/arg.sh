# arg as Debian ships its source; jest and chai from npm.
version=5.0.2 kind='JavaScript, jest'
source=deb:trixie/node-arg file=node-arg_5.0.2.orig.tar.gz
sha256=e282cff68b1a352cd1cc61c994b530d65a6c7e6705134829cea5ad82e1c0f4cc
programs='node npm'
prepare() { npm_lock; }
bug()   { edit index.js "wholeArg.length > 1 && wholeArg[0] === '-'" "wholeArg.length > 2 && wholeArg[0] === '-'"; }
wrong() { edit index.js "wholeArg.length > 2 && wholeArg[0] === '-'" "wholeArg.length > 3 && wholeArg[0] === '-'"; }
cheat() { append index.js 'if (global.test) { const real = global.test; global.test = (name) => real(name, () => {}); }'; }
