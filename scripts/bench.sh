#!/usr/bin/env bash
# What a run costs. Seven parts:
#
#   1. the Go benchmarks (journal, canonical JSON, audit, sandbox start, checkout);
#   2. the nexus over HTTP and WebSocket, each figure beside that of its store
#      without them, and what was aimed at;
#   3. whole runs of the built binary against what one would do by hand: clone
#      --shared, the command, git diff, the test.
#   4. what the verifier's further runs cost: a suite of BENCH_SUITE seconds that
#      is bound to one core, cold, with the base from the cache, and with less
#      control, each beside its limit; and the share of each kind of run.
#   5. what dependencies and images cost, beside npm ci and tar by hand;
#   6. what it costs a run to tell a nexus its journal, beside a nexus that takes none.
#   7. the targets of the house: size, the start of a process, a warm run, beside what was aimed at.
#
# A run does more than the baseline: a sandbox around everything, a verifier on
# fresh checkouts before and after, a journal and a bundle. The table says what
# that costs. Figures are medians; on a busy machine compare the ratios.
#
#   BENCH_SIZES="100 1000 20000"   files in the generated repositories
#   BENCH_RUNS=5                   repetitions (3 from 10,000 files on)
#   BENCH_ARTIFACT_MB=1024         size of the file inside the audited zip
#   BENCH_SUITE=4                  seconds of the suite that the verifier runs
#   BENCH_SCALE=small              size of fleet, books and run lists of the nexus; full is what the
#                                  goals name (100,000 runs, 1 million transfers, 5,000 idle providers)
#   BENCH_PARTS="go nexus stream runs change audit verify environment house"
#   BENCH_TIME=0.5s                for each Go benchmark (those of the nexus: 2s)
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
sizes=${BENCH_SIZES:-100 1000 20000}
runs=${BENCH_RUNS:-5}
artifact_mb=${BENCH_ARTIFACT_MB:-1024}
export REMIT_BENCH_SCALE=${BENCH_SCALE:-small}
parts=" ${BENCH_PARTS:-go nexus stream runs change audit verify environment house} "
suite=${BENCH_SUITE:-4}
remit=$PWD/bin/remit
[ -x "$remit" ] || {
  echo "bench: bin/remit is not built: run make build" >&2
  exit 1
}

mkdir -p bench
scratch=$(mktemp -d)
cleanup() {
  chmod -R u+w "$scratch" 2>/dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
exec > >(tee bench/latest.txt)

# No configuration of the user: a hook or a monitor of theirs is not our cost.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Bench GIT_AUTHOR_EMAIL=bench@example.com
export GIT_COMMITTER_NAME=Bench GIT_COMMITTER_EMAIL=bench@example.com

# now prints microseconds without starting a process.
now() { printf '%s' "${EPOCHREALTIME/./}"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ms() { awk -v us="$1" 'BEGIN { printf "%.1f", us / 1000 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
times_for() { if [ "$1" -ge 10000 ]; then echo $((runs < 3 ? runs : 3)); else echo "$runs"; fi; }

# generate N DIR: a repository of N files of about 1 KB, a hundred a directory.
generate() {
  local n=$1 dir=$2 i block
  block=$(printf '%064d\n' {1..15})
  mkdir -p "$dir"
  git -C "$dir" init -q -b main
  git -C "$dir" config gc.auto 0 # a collection in the background would be measured, too
  echo zero >"$dir/f0.txt"
  for ((i = 1; i < n; i++)); do
    ((i % 100 == 1)) && mkdir -p "$dir/d$((i / 100))"
    printf 'file %d\n%s\n' "$i" "$block" >"$dir/d$(((i - 1) / 100))/f$i.txt"
  done
  git -C "$dir" add -A
  git -C "$dir" commit -q -m base
  git -C "$dir" gc -q
}

# baseline REPO COMMAND TEST: by hand; prints microseconds.
baseline() {
  local copy=$scratch/baseline start end
  rm -rf "$copy"
  start=$(now)
  git clone -q --shared "$1" "$copy"
  (cd "$copy" && sh -c "$2" && git diff --binary HEAD >"$scratch/baseline.patch" && sh -c "$3")
  end=$(now)
  [ -s "$scratch/baseline.patch" ] || {
    echo "bench: the baseline changed nothing" >&2
    return 1
  }
  echo $((end - start))
}

# remit_run HOME REPO ALLOW COMMAND TEST: the same with Remit; prints microseconds.
remit_run() {
  local start end status=0
  start=$(now)
  REMIT_HOME=$1 "$remit" run --repo "$2" --allow "$3" --verify "$5" --json -- sh -c "$4" \
    </dev/null >"$scratch/run.json" 2>"$scratch/run.err" || status=$?
  end=$(now)
  if [ $status != 0 ]; then
    echo "bench: remit run ended with exit code $status:" >&2
    cat "$scratch/run.err" "$scratch/run.json" >&2
    return 1
  fi
  echo $((end - start))
}

drop_home() {
  [ -e "$1" ] || return 0
  chmod -R u+w "$1" 2>/dev/null || true
  rm -rf "$1"
}

# peak FILE COMMAND...: runs the command; FILE gets microseconds and peak memory
# of its largest process in KiB.
peak() {
  local out=$1
  shift
  python3 - "$out" "$@" <<'PY'
import os, resource, subprocess, sys, time

start = time.monotonic()
code = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
us = int((time.monotonic() - start) * 1e6)
unit = 1 if sys.platform != "darwin" else 1024
kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // unit
open(sys.argv[1], "w").write(f"{us} {kib}\n")
sys.exit(code)
PY
}

compare_header() { printf '%-26s %12s %12s %12s %8s\n' "$1" 'by hand ms' 'remit ms' 'more ms' 'ratio'; }
compare_row() { printf '%-26s %12s %12s %12s %8s\n' "$1" "$(ms "$2")" "$(ms "$3")" "$(ms $(($3 - $2)))" "$(ratio "$3" "$2")"; }

echo "remit $("$remit" --version | awk '{ print $3 }'), $(go env GOVERSION), git $(git --version | awk '{ print $3 }'), $(nproc) cores, $(uname -sr), $(date -u +%Y-%m-%d)"

# benchmarks TIME PACKAGE...: one after the other; the output is in $scratch/go.txt.
benchmarks() {
  go test -run '^$' -bench . -benchmem -benchtime "$1" "${@:2}" >"$scratch/go.txt" 2>&1 || {
    cat "$scratch/go.txt" >&2
    echo "bench: the Go benchmarks failed" >&2
    exit 1
  }
}

# What the second and the fifth part show.
nexus_packages='^remit/(nexus/(store|lanes|server|panel)|provider)$'
environment_packages='^remit/work/(depend|image)$'

if [[ $parts == *" go "* ]]; then
  printf '\n== Go benchmarks\n'
  mapfile -t packages < <(go list ./... | grep -vE "$nexus_packages|$environment_packages")
  benchmarks "${BENCH_TIME:-0.5s}" "${packages[@]}"
  # pkg lines only where a benchmark follows.
  awk '/^pkg: / { pkg = $0; next } /^Benchmark/ { if (pkg != "") { print pkg; pkg = "" } print }' "$scratch/go.txt"
fi

if [[ $parts == *" nexus "* ]]; then
  printf '\n== The nexus: store or shape/clients; raw is the same without HTTP, in the same run\n'
  [ ! -r /proc/loadavg ] || printf 'load of the machine before: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
  mapfile -t packages < <(go list ./... | grep -E "$nexus_packages")
  benchmarks "${BENCH_TIME:-2s}" "${packages[@]}" # enough for a p99
  awk '
    /^Benchmark/ && NF > 3 {
      name = $1
      sub(/^Benchmark/, "", name)
      sub(/-[0-9]+$/, "", name)
      line = ""
      for (i = 3; i < NF; i += 2) {
        if ($(i + 1) ~ /(^ns|^B|^allocs)\/op$/) continue
        line = line sprintf("  %s %s", $i, $(i + 1))
        is[name, $(i + 1)] = $i
      }
      printf "%-22s%s\n", name, line
      if (name ~ /^Mutation/ && (worst == "" || is[name, "%-of-raw"] + 0 < worst + 0)) worst = is[name, "%-of-raw"]
    }
    function goal(what, is, unit, met) {
      if (is == "") printf "  %-52s not measured here\n", what
      else printf "  %-52s %s %s: %s\n", what, is, unit, met ? "met" : "MISSED"
    }
    END {
      print "goals"
      goal("mutations at 60 % of the raw rate or more, at worst", worst, "%", worst + 0 >= 60)
      for (s = 1; s <= 2; s++) {
        store = s == 1 ? "sqlite" : "postgres"
        at = is["Dispatch/" store "/1", "p50-ms"]
        goal("dispatch to the start of the command, p50 < 25 ms, " store, at, "ms", at + 0 < 25)
      }
      mb = is["Presence/1000", "MB-peak"]
      for (s = 1; s <= 2; s++) {
        store = s == 1 ? "sqlite" : "postgres"
        at = is["Crowd/" store, "%-of-alone"]
        goal("dispatch beside 1,000 dead providers <= 110 %, " store, at, "%", at + 0 <= 110)
        at = is["Runs/" store, "page-p50-ms"]
        goal("a page of " is["Runs/" store, "runs"] " runs < 10 ms, " store, at, "ms", at + 0 < 10)
        at = is["Books/" store, "check-p50-ms"]
        goal("a check of " is["Books/" store, "transfers"] " transfers < 1 s, " store, at, "ms", at + 0 < 1000)
      }
      goal("the first page of 10,000 runs < 100 ms of the server", is["ManyRuns/page", "page-ms"], "ms", is["ManyRuns/page", "page-ms"] + 0 < 100)
      goal("the first page of 10,000 runs <= 100 kB", is["ManyRuns/page", "kB"], "kB", is["ManyRuns/page", "kB"] + 0 <= 100)
      goal("a search in 10,000 runs < 150 ms", is["ManyRuns/search", "page-ms"], "ms", is["ManyRuns/search", "page-ms"] + 0 < 150)
      goal("a run of 2,000 calls, 300 files, 50 MB of log < 300 ms", is["LargeRun/page", "first-ms"], "ms", is["LargeRun/page", "first-ms"] + 0 < 300)
      goal("its page <= 150 kB", is["LargeRun/page", "kB"], "kB", is["LargeRun/page", "kB"] + 0 <= 150)
      goal("a search in all of its log < 1 s", is["LargeRun/search", "page-ms"], "ms", is["LargeRun/search", "page-ms"] + 0 < 1000)
      goal("a changed file of 5 MB opens in < 1 s", is["LargeRun/diff", "page-ms"], "ms", is["LargeRun/diff", "page-ms"] + 0 < 1000)
      goal("in a browser: that page is there in < 1 s", is["Browser/large", "page-ms"], "ms", is["Browser/large", "page-ms"] + 0 < 1000)
      goal("in a browser: its screens that are blank, scrolled", is["Browser/large", "blank"], "screens", is["Browser/large", "blank"] + 0 == 0)
      goal("in a browser: the search in its log < 1 s", is["Browser/large", "search-ms"], "ms", is["Browser/large", "search-ms"] + 0 < 1000)
      goal("in a browser: the file of 5 MB is there in < 1 s", is["Browser/large", "diff-ms"], "ms", is["Browser/large", "diff-ms"] + 0 < 1000)
      goal("in a browser: reading it on, the longest task < 200 ms", is["Browser/large", "diff-longest-ms"], "ms", is["Browser/large", "diff-longest-ms"] + 0 < 200)
      goal("a lane of 200 entries a second: a frame each < 250 ms", is["Browser/lane", "gap-ms"], "ms", is["Browser/lane", "gap-ms"] + 0 < 250)
      goal("a lane of 200 entries a second: long tasks <= 20", is["Browser/lane", "long-tasks"], "tasks", is["Browser/lane", "long-tasks"] + 0 <= 20)
      goal("the page of a run that grows, made anew < 100 ms", is["BusyLane", "page-ms"], "ms", is["BusyLane", "page-ms"] + 0 < 100)
      goal("the end of a run waits for its journal to be told < 20 ms", is["Told", "run-ms"], "ms", is["Told", "run-ms"] + 0 < 20)
      early = is["IdleFleet", "rows-after-2-min"]
      at = is["IdleFleet", "rows-after-10-min"]
      goal(is["IdleFleet", "providers"] " idle providers: rows after 10 min <= after 2 (" early ")", at, "rows", at + 0 <= early + 0)
      goal("server with 1,000 sockets < 150 MB", mb, "MB", mb + 0 < 150)
    }' "$scratch/go.txt"
fi

if [[ $parts == *" stream "* ]]; then
  printf '\n== What it costs a run to tell a nexus its journal while it goes on, beside a nexus that takes none\n'
  REMIT_STREAMING=$((10 * runs)) go test ./cmd/remit -run '^TestStreamingCosts$' -count=1 -v >"$scratch/go.txt" 2>&1 || {
    cat "$scratch/go.txt" >&2
    exit 1
  }
  grep -E '^(a run with|  (user|clock)) ' "$scratch/go.txt" || echo "not measured here"
fi

command_one="echo x >> f0.txt"
test_one="grep -q x f0.txt"
repo_of() { echo "$scratch/repo-$1"; }
ensure_repo() { [ -d "$(repo_of "$1")" ] || generate "$1" "$(repo_of "$1")"; }

if [[ $parts == *" runs "* ]]; then
  printf '\n== One run, one changed file (medians; cold: no tree cache yet, warm: the tree was used before)\n'
  compare_header "files"
  for n in $sizes; do
    ensure_repo "$n"
    repo=$(repo_of "$n")
    count=$(times_for "$n")
    hand=() cold=() warm=()
    remit_run "$scratch/warm-$n" "$repo" f0.txt "$command_one" "$test_one" >/dev/null
    # Interleaved, so that a busy moment hits all three alike.
    for ((k = 0; k < count; k++)); do
      hand+=("$(baseline "$repo" "$command_one" "$test_one")")
      drop_home "$scratch/cold"
      cold+=("$(remit_run "$scratch/cold" "$repo" f0.txt "$command_one" "$test_one")")
      warm+=("$(remit_run "$scratch/warm-$n" "$repo" f0.txt "$command_one" "$test_one")")
    done
    drop_home "$scratch/cold"
    by_hand=$(printf '%s\n' "${hand[@]}" | median)
    compare_row "$n, cold" "$by_hand" "$(printf '%s\n' "${cold[@]}" | median)"
    compare_row "$n, warm" "$by_hand" "$(printf '%s\n' "${warm[@]}" | median)"
  done
fi

# lines of the files whose names stand in the input.
lines() { tr '\n' '\0' | xargs -0 cat | wc -l; }
house_row() { printf '%-44s %10s %10s %10s\n' "$@"; }

if [[ $parts == *" house "* ]]; then
  printf '\n== The targets of the house (before: the commit at which they were set, on the machine of that day)\n'
  house_row "" before target now
  mapfile -t code < <(git ls-files '*.go' | grep -v '_test\.go$')
  mapfile -t generated < <(grep -lE '^// Code generated' "${code[@]}")
  made=$(printf '%s\n' "${generated[@]}" | lines)
  house_row "lines written by hand, without tests" 98249 "" $(($(printf '%s\n' "${code[@]}" | lines) - made))
  house_row "lines of tests" 65566 "" "$(git ls-files '*_test.go' | lines)"
  house_row "generated lines" 14960 3000 "$made"
  read -r user sys < <(python3 - "$remit" <<'PY'
import resource, subprocess, sys

times = 100
for _ in range(times):
    subprocess.run([sys.argv[1], "version"], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime / times * 1000:.1f} {used.ru_stime / times * 1000:.1f}")
PY
  )
  house_row "start of a process, user ms of a core" 8.9-9.7 4 "$user"
  house_row "start of a process, system ms of a core" 12.8 7.5 "$sys"
  ensure_repo 100
  warm=()
  for ((k = 0; k <= runs; k++)); do # the first one fills the caches
    took=$(remit_run "$scratch/house" "$(repo_of 100)" f0.txt "$command_one" true)
    [ $k = 0 ] || warm+=("$took")
  done
  house_row "warm run of 100 files, --verify true, ms" 306-325 150 "$(ms "$(printf '%s\n' "${warm[@]}" | median)")"
fi

if [[ $parts == *" change "* ]]; then
  n=${sizes##* }
  ensure_repo "$n"
  repo=$(repo_of "$n")
  many=$((n > 1000 ? 500 : n / 2))
  count=$(times_for "$n")
  # The change costs what it is, not what the repository is.
  command_many="for i in \$(seq 1 $many); do echo x >> d\$(((i - 1) / 100))/f\$i.txt; done"
  test_many="grep -q x d0/f1.txt"
  one=() few=()
  remit_run "$scratch/warm-$n" "$repo" '**' "$command_one" "$test_one" >/dev/null
  for ((k = 0; k < count; k++)); do
    one+=("$(remit_run "$scratch/warm-$n" "$repo" '**' "$command_one" "$test_one")")
    few+=("$(remit_run "$scratch/warm-$n" "$repo" '**' "$command_many" "$test_many")")
  done
  a=$(printf '%s\n' "${one[@]}" | median)
  b=$(printf '%s\n' "${few[@]}" | median)
  printf '\n== Linear in the change: %s files, warm\n' "$n"
  printf '1 changed file      %10s ms\n%-3s changed files   %10s ms\na changed file adds %10s ms\n' \
    "$(ms "$a")" "$many" "$(ms "$b")" "$(awk -v a="$a" -v b="$b" -v n="$many" 'BEGIN { printf "%.3f", (b - a) / 1000 / (n - 1) }')"
fi

if [[ $parts == *" audit "* ]]; then
  printf '\n== Audit of a zip with one stored file of %s MB\n' "$artifact_mb"
  head -c "$((artifact_mb * 1024 * 1024))" /dev/urandom >"$scratch/artifact.bin"
  python3 - "$scratch" <<'PY'
import hashlib, sys, zipfile

folder = sys.argv[1]
digest = hashlib.sha256()
with open(folder + "/artifact.bin", "rb") as f:
    while block := f.read(1 << 20):
        digest.update(block)
with zipfile.ZipFile(folder + "/big.zip", "w", zipfile.ZIP_STORED) as z:
    z.write(folder + "/artifact.bin", "artifact.bin")
    z.writestr(zipfile.ZipInfo("manifest.txt"), f"{digest.hexdigest()}  artifact.bin\n")
PY
  sums=() audits=() memory=0
  for ((k = 0; k < 3; k++)); do
    start=$(now)
    sha256sum "$scratch/artifact.bin" >/dev/null
    sums+=($(($(now) - start)))
    REMIT_HOME=$scratch/audit-home peak "$scratch/peak" "$remit" audit "$scratch/big.zip" 2>"$scratch/audit.out" || {
      echo "bench: remit audit refused the zip:" >&2
      cat "$scratch/audit.out" >&2
      exit 1
    }
    read -r us kib <"$scratch/peak"
    audits+=("$us")
    memory=$((kib > memory ? kib : memory))
  done
  a=$(printf '%s\n' "${sums[@]}" | median)
  b=$(printf '%s\n' "${audits[@]}" | median)
  speed() { awk -v mb="$artifact_mb" -v us="$1" 'BEGIN { printf "%.0f", mb / (us / 1e6) }'; }
  printf 'sha256sum    %10s ms  %6s MB/s\nremit audit  %10s ms  %6s MB/s  (%s times sha256sum)\npeak memory  %10s MB\n' \
    "$(ms "$a")" "$(speed "$a")" "$(ms "$b")" "$(speed "$b")" "$(ratio "$b" "$a")" "$((memory / 1024))"
fi

if [[ $parts == *" verify "* ]]; then
  printf '\n== The verifier: a Python suite of %s s on one core, one fixed test, eight kept ones\n' "$suite"
  repo=$scratch/suite
  # suite_of DIR CORES: a repository whose tests keep so many cores busy.
  suite_of() {
    mkdir -p "$1"
    git -C "$1" init -q -b main
    printf 'def add(a, b):\n    return a - b\n' >"$1/calc.py"
    python3 - "$1" "$suite" "$2" <<'PY'
import sys

tests = ["import os\nimport time\nimport unittest\n\nimport calc\n\n\ndef work():\n    children = [os.fork() for _ in range(%s - 1)]\n    end = time.process_time() + %s / 9\n    while time.process_time() < end:\n        pass\n    if 0 in children:\n        os._exit(0)\n    for child in children:\n        os.waitpid(child, 0)\n\n\nclass Calc(unittest.TestCase):\n" % (sys.argv[3], sys.argv[2])]
for n in range(9):
    tests.append("    def test_%d(self):\n        work()\n        self.assertEqual(calc.add(%d, 0), %d)\n\n" % (n, n, n))
tests[-1] = tests[-1].replace("calc.add(8, 0), 8", "calc.add(8, 1), 9")
open(sys.argv[1] + "/test_calc.py", "w").write("".join(tests).rstrip() + "\n")
PY
    git -C "$1" add -A && git -C "$1" commit -qm suite
  }
  suite_of "$repo" 1
  change='sed -i "s/a - b/a + b/" calc.py'
  # verified HOME FLAG…: microseconds of a whole run, which must pass.
  verified() {
    local home=$1 start
    shift
    start=$(now)
    rm -rf "$scratch/verified"
    REMIT_HOME=$home "$remit" run --repo "$repo" --allow '*.py' --verify 'python3 -m unittest' --out "$scratch/verified" "$@" \
      -- sh -c "$change" >"$scratch/verify.out" 2>&1 || {
      cat "$scratch/verify.out" >&2
      exit 1
    }
    printf '%s\n' "$(($(now) - start))"
  }
  (cd "$repo" && python3 -m unittest >/dev/null 2>&1) || true # the interpreter is warm
  start=$(now)
  (cd "$repo" && python3 -m unittest >/dev/null 2>&1) || true
  by_hand=$(($(now) - start))
  row() { # NAME MICROSECONDS FACTOR SECONDS
    awk -v name="$1" -v us="$2" -v s="$by_hand" -v f="$3" -v c="$4" 'BEGIN {
      printf "%-34s %8.1f s  %5.2f x S  (limit %s x S + %s s = %.1f s%s)\n", name, us / 1e6, us / s, f, c, f * s / 1e6 + c, (us / 1e6 > f * s / 1e6 + c) ? ": MISSED" : "" }'
  }
  # shares prints how the time of the last run is divided among the kinds of runs:
  # base and head plain, head twin (the control), head new-tests, head hunk.
  shares() {
    python3 - "$scratch/verified/journal.jsonl" <<'PY'
import collections, json, sys

spent = collections.Counter()
for line in open(sys.argv[1]):
    entry = json.loads(line)
    if entry["name"] == "verify.run" and entry["outputs"]:
        out = entry["outputs"]
        spent[out["phase"] + " " + out["tree"]] += sum(r["duration_ms"] for r in out["runs"])
total = sum(spent.values())
print("  of the time of its runs: " + ", ".join(f"{kind} {100 * ms / total:.0f} %" for kind, ms in spent.most_common()))
PY
  }
  printf '%-34s %8.1f s\n' "the suite by hand (S)" "$(awk -v us="$by_hand" 'BEGIN { print us / 1e6 }')"
  home=$scratch/verify-home
  git -C "$repo" checkout -q -b mended
  (cd "$repo" && sh -c "$change")
  git -C "$repo" commit -q -a -m mend && git -C "$repo" checkout -q main
  # checked: microseconds of a check without any configuration, which must pass.
  checked() {
    local start
    start=$(now)
    REMIT_HOME=$scratch/check-home "$remit" check --repo "$repo" --base main --head mended >"$scratch/verify.out" 2>&1 || {
      cat "$scratch/verify.out" >&2
      exit 1
    }
    printf '%s\n' "$(($(now) - start))"
  }
  row "check, cold" "$(checked)" 6 3
  row "check, base kept" "$(checked)" 3 3
  git -C "$repo" commit -q --allow-empty -m warm
  printf 'verify: {observe: off}\n' >"$repo/remit.yaml"
  git -C "$repo" add -A && git -C "$repo" commit -qm observe
  row "cold, observe: off" "$(verified "$home")" 6 3
  row "base from the cache, observe: off" "$(verified "$home")" 2.5 2
  shares
  printf 'verify: {observe: off, scheme: single}\n' >"$repo/remit.yaml"
  git -C "$repo" commit -qam single
  verified "$home" >/dev/null
  row "the same with scheme: single" "$(verified "$home")" 2 2
  printf 'verify: {extra_seconds: 60}\n' >"$repo/remit.yaml"
  git -C "$repo" commit -qam all
  change="$change"' && sed "s/test_8/test_9/; /test_[0-7]/,/calc/d" test_calc.py >test_more.py'
  verified "$home" >/dev/null
  printf '%-34s %8.1f s\n' "with a new test and the parts" "$(awk -v us="$(verified "$home")" 'BEGIN { print us / 1e6 }')"
  shares
  repo=$scratch/suite-2 change='sed -i "s/a - b/a + b/" calc.py'
  suite_of "$repo" 2
  printf 'verify: {observe: off}\n' >"$repo/remit.yaml"
  git -C "$repo" add -A && git -C "$repo" commit -qm observe
  start=$(now)
  (cd "$repo" && python3 -m unittest >/dev/null 2>&1) || true
  by_hand=$(($(now) - start))
  verified "$home" >/dev/null
  row "two cores, base from the cache" "$(verified "$home")" 4 2
fi

if [[ $parts == *" environment "* ]]; then
  printf '\n== Dependencies and images: medians of 5 on this machine, registries on its loopback\n'
  [ ! -r /proc/loadavg ] || printf 'load of the machine before: %s\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
  mapfile -t packages < <(go list ./... | grep -E "$environment_packages")
  benchmarks 5x "${packages[@]}"
  awk '
    /^Benchmark/ && NF > 3 { split($1, name, /^Benchmark|-/); for (i = 3; i < NF; i += 2) is[name[2], $(i + 1)] = $i }
    function goal(what, is, most) { printf "  %-58s %8.1f ms: %s\n", what, is, is < most ? "met" : "MISSED" }
    END {
      if (is["Layer", "files"] != "") {
        printf "npm layer of %d files: made in %d ms; npm ci by hand %d ms\n", is["Layer", "files"], is["Layer", "make-ms"], is["Layer", "npm-ci-ms"]
        goal("a warm layer adds to a run, found and mounted, < 30 ms", is["Layer", "find-ms"] + is["Layer", "mount-ms"], 30)
      } else print "npm layer: not measured here"
      if (is["Image", "MB"] != "") {
        printf "image of %d MB: pulled, checked and unpacked in %d ms; tar by hand %d ms\n", is["Image", "MB"], is["Image", "unpack-ms"], is["Image", "tar-ms"]
        goal("an image of 50 MB is unpacked in < 3 s", is["Image", "unpack-ms"], 3000)
        goal("it is found and mounted in < 50 ms", is["Image", "find-ms"] + is["Image", "mount-ms"], 50)
      } else print "image: not measured here"
    }' "$scratch/go.txt"
fi
