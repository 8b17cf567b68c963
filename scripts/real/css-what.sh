# css-what as npm ships it, which is with its tests in TypeScript; vitest from npm.
version=7.0.0 kind='TypeScript, vitest'
source=npm:css-what@7.0.0 file=css-what-7.0.0.tgz
sha256=e731ee3fe56f196edd6dc46e8ad25d4e19a7fb1e350f5b99195334318f86df2c
programs='node npm'
prepare() { rm -rf dist && npm_lock; }
bug()   { edit src/stringify.ts 'return index === 0 ? "~ " : " ~ ";' 'return index === 0 ? "~ " : "~";'; }
wrong() { edit src/stringify.ts 'return index === 0 ? "~ " : "~";' 'return index === 0 ? "~ " : " + ";'; }
cheat() { append src/stringify.ts 'process.reallyExit = process.reallyExit.bind(process, 0);'; }
