#!/usr/bin/env bash
# Get a CI runner ready for remit check: bubblewrap, Go, and this checkout's own program
# on the PATH of later steps.
set -euo pipefail
cd "$(dirname "$0")/.."

# Ubuntu's runners forbid what bubblewrap needs until they are told otherwise.
restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
if [ "$(cat "$restricted" 2>/dev/null || echo 0)" = 1 ] && command -v sudo >/dev/null; then
	sudo sysctl -qw kernel.apparmor_restrict_unprivileged_userns=0
fi
if ! command -v bwrap >/dev/null; then
	if [ "$(id -u)" = 0 ]; then
		apt-get update -qq && apt-get install -qqy bubblewrap
	else
		sudo apt-get update -qq && sudo apt-get install -qqy bubblewrap
	fi
fi
scripts/build.sh "$RUNNER_TEMP/remit-bin/remit"
echo "$RUNNER_TEMP/remit-bin" >>"$GITHUB_PATH"
"$RUNNER_TEMP/remit-bin/remit" doctor
