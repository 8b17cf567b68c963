'use strict'
// A reporter of node --test that writes what became of each test, in the shape
// of jest's JSON. It runs in the process of the runner, not in that of a test file.
module.exports = async function* (events) {
  const byFile = new Map()
  const said = {} // the runner's own counts
  const open = [] // names of the tests around the next event
  for await (const { type, data } of events) {
    if (type === 'test:start') {
      open.length = data.nesting
      open[data.nesting] = data.name
    } else if (type === 'test:diagnostic' && data.nesting === 0) {
      const [, name, count] = /^(pass|fail|cancelled|skipped|todo) (\d+)$/.exec(data.message) || []
      if (name) said[name] = (said[name] || 0) + Number(count)
    } else if (type === 'test:pass' || type === 'test:fail') {
      const failed = type === 'test:fail'
      const error = failed ? data.details?.error : undefined
      const suite = data.details?.type === 'suite'
      if (suite && (!failed || error?.failureType === 'subtestsFailed')) continue
      const name = data.file || ''
      if (!byFile.has(name)) byFile.set(name, { name, assertionResults: [] })
      const skipped = data.skip !== undefined && data.skip !== false || data.todo !== undefined && data.todo !== false
      const whole = data.nesting === 0 && (data.name === name || require('node:path').resolve(data.name) === name)
      byFile.get(name).assertionResults.push({
        ancestorTitles: open.slice(0, data.nesting), title: whole ? '' : data.name, suite,
        status: skipped ? 'pending' : failed ? 'failed' : 'passed',
        failureMessages: error ? [String(error.cause?.message || error.message || error)] : [],
      })
    }
  }
  const count = (...names) => names.reduce((sum, n) => sum + (said[n] || 0), 0)
  yield JSON.stringify({
    numTotalTests: count('pass', 'fail', 'cancelled', 'skipped', 'todo'), numPassedTests: count('pass'),
    numFailedTests: count('fail', 'cancelled'), numPendingTests: count('skipped', 'todo'),
    success: count('fail', 'cancelled') === 0, testResults: [...byFile.values()],
  })
}
