#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME, two at a time. With a folder
# and a target as arguments it runs that one.
set -eu
go=${GO:-go}

if [ $# -eq 0 ]; then
  grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' internal |
    sed 's#/[^/]*:func # #' | sort | xargs -P 2 -L 1 sh "$0"
  exit
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! $go test -short -run '^$' -fuzz "^$2\$" -fuzztime "${FUZZTIME:-20s}" -fuzzminimizetime 5x -parallel 1 "./$1" >"$log" 2>&1; then
  # Go may report the end of the time itself as a failure, without a failing
  # input (golang/go#75804); that is not one.
  if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input' "$log"; then
    cat "$log"
    exit 1
  fi
fi
echo "$1 $2: $(grep -o 'execs: [0-9]*' "$log" | tail -n 1), no failure"
