#!/bin/sh
# Builds the binary twice, in two folders and with nothing cached the second time,
# and compares. What -trimpath leaves of a path, and what depends on the order in
# which a compiler does things, would tell the two apart.
set -eu
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/elsewhere/tree"
git ls-files -z --cached --others --exclude-standard |
  tar -cf - --ignore-failed-read --null -T - 2>/dev/null | tar -xf - -C "$work/elsewhere/tree"

# The version is the same, as a release gives it; Go's own notes on the repository
# are left out, because the copy is none.
build() {
  # shellcheck disable=SC2086
  CGO_ENABLED=0 $go build ${BUILDFLAGS:--trimpath -tags grpcnotrace} -buildvcs=false -ldflags '-s -w -X main.version=v0.0.0-check' -o "$1" ./cmd/qosproxy
}
build "$work/first"
(cd "$work/elsewhere/tree" && GOCACHE="$work/cache" build "$work/second")

if ! cmp -s "$work/first" "$work/second"; then
  sha256sum "$work/first" "$work/second" >&2
  echo "reproducible: two builds of the same sources differ" >&2
  exit 1
fi
echo "reproducible: $(sha256sum <"$work/first" | cut -d ' ' -f 1), twice"
