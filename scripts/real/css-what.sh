# css-what as npm ships it, which is with its tests in TypeScript; vitest from npm.
# The configuration of its linters is not in the package, so npm test is made the tests alone.
version=7.0.0 kind='TypeScript, vitest'
source=npm:css-what@7.0.0 file=css-what-7.0.0.tgz
sha256=e731ee3fe56f196edd6dc46e8ad25d4e19a7fb1e350f5b99195334318f86df2c
programs='node npm'
prepare() {
  rm -rf dist
  edit package.json '"test": "npm run test:vi && npm run lint"' '"test": "npm run test:vi"'
  npm_lock 2026-01-15 # later, the registry had no binaries of other platforms for its rollup
}
bug()   { edit src/stringify.ts 'return index === 0 ? "+ " : " + ";' 'return index === 0 ? "+ " : " ~ ";'; }
wrong() { edit src/stringify.ts 'return index === 0 ? "+ " : " ~ ";' 'return index === 0 ? "+ " : " > ";'; }
cheat() { append src/stringify.ts 'import { expect } from "vitest"; expect.extend({ toBe: () => ({ pass: true, message: () => "" }), toEqual: () => ({ pass: true, message: () => "" }), toStrictEqual: () => ({ pass: true, message: () => "" }) });'; }
