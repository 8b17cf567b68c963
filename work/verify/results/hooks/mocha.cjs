'use strict'
// A reporter of mocha that writes what became of each test to a file, in the
// shape of jest's JSON, beside the reporter that the command would have had.
const fs = require('node:fs')
const path = require('node:path')

const { root, reporter, file, ending } = JSON.parse(process.env.REMIT_MOCHA)

// inner is the class of the other reporter: one of mocha's own, or a module.
function inner() {
  const loaded = require(root)
  const own = (loaded.default || loaded).reporters
  if (typeof reporter === 'function') return reporter
  if (own[reporter]) return own[reporter]
  for (const name of [reporter, path.resolve(reporter)]) {
    try {
      const module = require(require.resolve(name, { paths: [process.cwd(), root] }))
      return module.default || module
    } catch {
      // the next one, or mocha's own
    }
  }
  return own.spec
}

module.exports = class {
  constructor(runner, options) {
    const other = new (inner())(runner, options)
    if (other.done) this.done = (failures, end) => other.done(failures, end)
    const byFile = new Map()
    const add = (test, status, error) => {
      const name = test.file || test.parent?.file || ''
      if (!byFile.has(name)) byFile.set(name, [])
      // Of what another process ran (--parallel) only the test itself is whole.
      const titles = typeof test.titlePath === 'function' ? test.titlePath() : [test.title]
      byFile.get(name).push({
        ancestorTitles: titles.slice(0, -1), title: test.title, status, hook: test.type === 'hook',
        failureMessages: error ? [String(error.message || error)] : [],
      })
    }
    runner.on('pass', (test) => add(test, 'passed'))
    runner.on('pending', (test) => add(test, 'pending'))
    runner.on('fail', (test, error) => add(test, 'failed', error))
    runner.once('end', () => {
      const { passes = 0, failures = 0, pending = 0 } = runner.stats || {}
      try {
        fs.writeFileSync(file, JSON.stringify({
          numTotalTests: passes + failures + pending, numPassedTests: passes, numFailedTests: failures, numPendingTests: pending,
          success: failures === 0, testResults: [...byFile].map(([name, assertionResults]) => ({ name, assertionResults })),
        }))
      } catch {
        // somebody has removed the directory: a file that is missing is seen
      }
      // The timer keeps nothing alive itself.
      if (ending) setTimeout(() => process.exit(), ending).unref()
    })
  }
}
