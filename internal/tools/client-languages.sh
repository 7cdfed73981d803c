#!/bin/sh
# Installs by apt-get, as root on Debian, what the clients in other languages are built with, and
# says elsewhere which of them will not be tested.
set -eu

packages=
need() { # need PROGRAM PACKAGE...
  command -v "$1" >/dev/null 2>&1 && return
  shift
  packages="$packages $*"
}
need python3 python3 python3-venv
python3 -c 'import ensurepip' 2>/dev/null || packages="$packages python3 python3-venv"
need node nodejs
need npm npm
need javac default-jdk-headless
[ -n "$packages" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  apt-get update -qq
  # Words, not one name.
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $packages >/dev/null
  exit 0
fi
echo "NOT TESTED: clients of languages that are not installed (Debian: apt-get install$packages)" >&2
