#!/bin/sh
# Compares the Go benchmarks of this tree with those of the commit at which it
# left BASE. The two run in turns, so that a machine that is slow for a while is
# slow for both; benchstat says which differences are more than noise.
#
#   BASE       main    branch, tag or commit
#   GOBENCH    .       which benchmarks, as go test -bench
#   BENCHTIME  100ms   for each benchmark in each turn
#   COUNT      6       turns; benchstat wants six at least
#   PKGS       ./internal/...
set -eu
: "${GO:=go}" "${BASE:=main}" "${GOBENCH:=.}" "${BENCHTIME:=100ms}" "${COUNT:=6}" "${PKGS:=./internal/...}"

head=$PWD
tmp=$(mktemp -d)
trap 'git worktree remove --force "$tmp/tree" 2>/dev/null || true; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
git worktree add --quiet --detach "$tmp/tree" "$(git merge-base HEAD "$BASE")"

# build TREE SIDE makes a test binary of each package that has benchmarks.
build() {
	mkdir "$tmp/$2"
	cd "$1"
	for dir in $($GO list -f '{{.Dir}}' $PKGS); do
		grep -qs '^func Benchmark' "$dir"/*_test.go || continue
		dir=${dir#"$1"/}
		$GO test -c -o "$tmp/$2/$(echo "$dir" | tr / -).test" "./$dir"
		echo "$dir" >>"$tmp/$2.list"
	done
}

# run TREE SIDE runs each binary in the directory of its package.
run() {
	while read -r dir; do
		cd "$1/$dir"
		"$tmp/$2/$(echo "$dir" | tr / -).test" -test.short -test.run '^$' \
			-test.bench "$GOBENCH" -test.benchmem -test.benchtime "$BENCHTIME" >>"$tmp/$2.txt"
	done <"$tmp/$2.list"
}

build "$tmp/tree" base
build "$head" head
turn=0
while [ $turn -lt "$COUNT" ]; do
	turn=$((turn + 1))
	echo "turn $turn of $COUNT" >&2
	run "$tmp/tree" base
	run "$head" head
done
"$head/bin/tools/benchstat" base="$tmp/base.txt" head="$tmp/head.txt"
