# Starts Case in the sandbox: $1 is its program, $2 the name of the task, and the
# workspace is the current directory. The settings lie in $HOME/case.
#
# What is printed are the lines of Case's event files, each whole and once, and
# at the end one of our own with its exit code. Case's own output goes to stderr.
set -eu
home=$HOME/case
repo=$PWD
own=$repo/.case
events=$own/$2/events
tasks=$own/tasks/active

# The workspace is a repository already. main is what the reviewer compares with.
[ -d .git ] || {
  echo "remit: Case works in a git repository, and the workspace could not be made one" >&2
  exit 127
}
git checkout -q -b "case/$2" >&2

# The two configuration directories, the task pair, the pointer to it.
mkdir -p "$home/data" "$home/pi" "$home/bin" "$home/nowhere" "$home/seen" "$tasks"
place=$(printf '%s' "$repo" | sed 's/[\\|&]/\\&/g')
mv "$home/config.json" "$home/data/"
sed "s|@workspace@|$place|g" "$home/projects.json" >"$home/data/projects.json"
mv "$home/models.json" "$home/pi/"
sed "s|@created@|$(date -u +%Y-%m-%dT%H:%M:%S.000Z)|" "$home/task.json" >"$tasks/$2.task.json"
mv "$home/task.md" "$tasks/$2.md"
printf '%s\n' "$2" >"$own/active"

# The agents call the program by its name.
ln -s "$1" "$home/bin/ca"
PATH=$home/bin:$PATH
CASE_DATA_DIR=$home/data
PI_CODING_AGENT_DIR=$home/pi
export PATH CASE_DATA_DIR PI_CODING_AGENT_DIR

# drain prints the lines that have an end and were not printed before.
drain() {
  for file in "$events"/run-*.jsonl; do
    [ -f "$file" ] || continue
    seen=$home/seen/${file##*/}
    from=$(cat "$seen" 2>/dev/null || echo 0)
    to=$(wc -l <"$file")
    [ "$to" -gt "$from" ] || continue
    head -n "$to" "$file" | tail -n "+$((from + 1))"
    echo "$to" >"$seen"
  done
}

# rest prints what a dying program left of a line.
rest() {
  for file in "$events"/run-*.jsonl; do
    if [ -f "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
      tail -n 1 "$file"
      echo
    fi
  done
}

(
  until [ -e "$home/ended" ]; do
    drain
    sleep 0.2
  done
) &
printer=$!
code=0
(cd "$home/nowhere" && exec "$home/bin/ca" run --task "$tasks/$2.task.json" --mode unattended) </dev/null >&2 || code=$?
: >"$home/ended"
wait "$printer" || :
drain
rest
printf '{"event":"remit_ended","code":%d}\n' "$code"

# 0 and 1 say nothing (the events do); more is a signal, or nothing was started.
[ "$code" -le 1 ] || exit "$code"
