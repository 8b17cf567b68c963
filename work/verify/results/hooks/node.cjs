'use strict'
// Loaded by every node process below a command (NODE_OPTIONS=--require). Where
// the process is mocha, jest, vitest or node --test, it has the runner write its
// results into $REMIT_RESULTS as well. In every other process it does nothing.
const fs = require('node:fs')
const path = require('node:path')
const { isMainThread } = require('node:worker_threads')

// The runners by the end of the path of their program.
const programs = [
  [/\/mocha\/bin\/_?mocha(\.c?js)?$/, mocha],
  [/\/jest(-cli)?\/bin\/jest\.js$/, jest],
  [/\/vitest\/vitest\.mjs$/, vitest],
]

const given = process.argv.slice(2)
const has = (...names) => given.some((a) => names.some((n) => a === n || a.startsWith(n + '=')))
const dir = process.env.REMIT_RESULTS
const file = (name) => path.join(dir, `${name}-${process.pid}.json`)

// With REMIT_END a process that has reported all of its tests is ended after this time,
// whatever it still waits for: a test that fails may leave a server open. It is set
// where tests have to fail. The exit status is the runner's own.
const ending = process.env.REMIT_END ? 2000 : 0

// add puts options before a bare "--", behind which there are only names.
function add(...options) {
  const at = process.argv.indexOf('--', 2)
  process.argv.splice(at < 0 ? process.argv.length : at, 0, ...options)
}

function mocha(program) {
  const root = path.dirname(path.dirname(program))
  let reporter = 'spec'
  for (const name of ['options.cjs', 'options.js']) {
    try {
      reporter = require(path.join(root, 'lib/cli', name)).loadOptions(given).reporter || reporter
      break
    } catch {
      // another version of mocha, or options that mocha itself will refuse
    }
  }
  process.env.REMIT_MOCHA = JSON.stringify({ root, reporter, file: file('mocha'), ending })
  add('--reporter=' + path.join(__dirname, 'mocha.cjs'))
}

// slim leaves of a document what is read of it: coverage and stacks are large.
function slim(name) {
  process.on('exit', () => {
    try {
      const run = JSON.parse(fs.readFileSync(name, 'utf8'))
      const { numTotalTests, numPassedTests, numFailedTests, success, testResults } = run
      const cut = (text) => String(text || '').slice(0, 500)
      fs.writeFileSync(name, JSON.stringify({
        numTotalTests, numPassedTests, numFailedTests, success,
        testResults: testResults.map(({ name, status, message, assertionResults }) => ({
          name, status, message: cut(message), assertionResults: assertionResults.map((t) => ({
            ancestorTitles: t.ancestorTitles, title: t.title, status: t.status, failureMessages: (t.failureMessages || []).slice(0, 1).map(cut),
          })),
        })),
      }))
    } catch {
      // the runner has written nothing, or something else: it is judged as it is
    }
  })
}

function jest() {
  if (!has('--json', '--outputFile', '--listTests', '--version', '--help', '--init', '--showConfig', '--watch', '--watchAll')) {
    slim(file('jest'))
    if (ending && !has('--forceExit')) add('--forceExit')
    add('--json', '--outputFile=' + file('jest'))
  }
}

function vitest() {
  if (has('--outputFile', '--watch', '-w', '--version', '--help', '--merge-reports') || given.some((a) => a.startsWith('--outputFile.')) ||
      ['bench', 'list', 'init', 'dev', 'watch'].includes(given[0])) {
    return
  }
  slim(file('vitest'))
  add(...(has('--reporter') ? [] : ['--reporter=default']), '--reporter=json', '--outputFile.json=' + file('vitest'))
}

// nodeTest starts the runner of node once more, with one more reporter: its
// options cannot be changed any longer in this process.
function nodeTest() {
  const flags = process.execArgv
  const count = (name) => flags.filter((a) => a === name || a.startsWith(name + '=')).length
  if (flags.includes('--watch') || !process.allowedNodeEnvironmentFlags.has('--test-reporter-destination')) return
  const more = []
  if (count('--test-reporter') === 0) {
    more.push('--test-reporter=' + (Number(process.versions.node.split('.')[0]) < 23 ? 'tap' : 'spec'))
  }
  if (count('--test-reporter-destination') === 0) more.push('--test-reporter-destination=stdout')
  more.push('--test-reporter=' + path.join(__dirname, 'nodetest.cjs'), '--test-reporter-destination=' + file('node'))
  if (ending) process.env.REMIT_ENDING = String(ending) // for the processes of the test files
  const { status, signal } = require('node:child_process').spawnSync(
    process.execPath, [...flags, ...more, ...process.argv.slice(1)], { stdio: 'inherit' })
  if (signal) process.kill(process.pid, signal)
  process.exit(status ?? 1)
}

// endFile ends the process of a test file that has reported all of its tests: the hook
// behind them is called then, and the timer keeps nothing alive itself.
function endFile(after) {
  require('node:test').after(() => setTimeout(() => process.exit(), after).unref())
}

// take has a runner report. What its tests start reports nothing: a runner among
// that is a part of some test.
function take(runner, program) {
  delete process.env.REMIT_RESULTS
  delete process.env.REMIT_END
  runner(program)
}

if (process.env.NODE_TEST_CONTEXT && process.env.REMIT_ENDING && isMainThread) {
  const after = Number(process.env.REMIT_ENDING)
  delete process.env.REMIT_ENDING
  endFile(after)
} else if (dir && isMainThread) {
  if (process.execArgv.includes('--test')) {
    take(nodeTest)
  } else if (process.argv[1]) {
    let program = process.argv[1]
    try {
      program = fs.realpathSync(program)
    } catch {
      // it lies in an archive, or does not exist: then node says so
    }
    const runner = programs.find(([name]) => name.test(program))
    if (runner) take(runner[1], program)
  }
}
