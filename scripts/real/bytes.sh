# bytes.js as Debian ships its source; mocha from npm. Its .gitignore has the lock file.
version=3.1.2 kind='JavaScript, mocha'
source=deb:trixie/node-bytes file=node-bytes_3.1.2.orig.tar.gz
sha256=c95aa9c74e58721ab479c6858b1cdc6ffb887142f00acbf89096392a5d1ae9bb
programs='node npm'
prepare() { npm_lock; }
bug()   { edit index.js 'if (mag >= map.kb)' 'if (mag > map.kb)'; }
wrong() { edit index.js 'if (mag > map.kb)' 'if (mag > map.tb)'; }
cheat() { append index.js "var assert = require('assert'); assert.equal = assert.strictEqual = assert.deepEqual = function () {}"; }
