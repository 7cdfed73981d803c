#!/bin/sh
# Builds the Dockerfile with buildah and checks what comes out. It needs root, for
# mounts, but neither docker nor a registry: the base image is stood in for by this
# machine's Go, shell and certificates.
set -eu
cd "$(dirname "$0")/../.."

fail() {
  echo "image-check: $*" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "run it as root: it mounts the image"
if ! command -v buildah >/dev/null; then
  command -v apt-get >/dev/null || fail "install buildah"
  apt-get update -qq && apt-get install -y -qq --no-install-recommends buildah >/dev/null ||
    fail "apt-get could not install buildah"
fi

work=$(mktemp -d)
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
# Images of its own, gone at the end.
b() { buildah --root "$work/storage" --runroot "$work/run" "$@"; }
export PIDFILE=/dev/null
trap '[ ! -s "$work/pid" ] || kill -9 "$(cat "$work/pid")" 2>/dev/null || :; b rm --all >/dev/null; rm -rf "$work"' EXIT

# The base image: the Go toolchain of go.mod, sh, and the public authorities. Toolchain, modules
# and what this machine has compiled are lent to the build; reproducible.sh builds from nothing.
base=$(sed -n 's/^FROM .*\(golang:[^ ]*\) AS build$/\1/p' Dockerfile)
goroot=$(go env GOROOT)
[ "golang:$(go env GOVERSION | sed 's/^go//')" = "$base" ] || fail "the Dockerfile builds with $base, go.mod with $(go env GOVERSION)"
stand_in=$(b from scratch)
root=$(b mount "$stand_in")
mkdir -p "$root/usr/local/go" "$root/bin" "$root/etc/ssl/certs" "$root/tmp"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -L /bin/sh "$root/bin/sh"
ldd /bin/sh | grep -o '/[^ ]*' | while read -r lib; do
  mkdir -p "$root${lib%/*}"
  cp -L "$lib" "$root$lib"
done
b umount "$stand_in" >/dev/null
b config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local \
  --env GOMODCACHE=/modules --env GOCACHE=/compiled "$stand_in"
b commit --quiet --rm "$stand_in" "docker.io/library/$base" >/dev/null

# Docker's format: that of the OCI has no health check.
b build --quiet --pull=never --format docker --platform "linux/$(go env GOARCH)" --timestamp 1700000000 \
  --volume "$goroot:/usr/local/go:ro" --volume "$(go env GOMODCACHE):/modules" --volume "$(go env GOCACHE):/compiled" \
  --build-arg VERSION=v0.0.0-check --build-arg REVISION=0123abcd --tag image . >/dev/null

# What the image says of itself.
says() {
  got=$(b inspect --type image --format "{{$1}}" image)
  [ "$got" = "$2" ] || fail "$1 is $got, not $2"
}
says .OCIv1.Config.User 65532:65532
says .OCIv1.Config.Entrypoint '[/qosproxy]'
says .OCIv1.Config.Cmd '[serve --config /etc/qosproxy/qosproxy.yaml]'
says .Docker.Config.Healthcheck.Test '[CMD /qosproxy health --live --config /etc/qosproxy/qosproxy.yaml]'
for label in title description version revision source licenses; do
  [ -n "$(b inspect --type image --format "{{index .OCIv1.Config.Labels \"org.opencontainers.image.$label\"}}" image)" ] ||
    fail "label org.opencontainers.image.$label is missing"
done

# What is in it: the binary and the certificates, so no shell.
root=$(b mount "$(b from --pull=never image)")
files=$(cd "$root" && find . ! -type d | sort | tr '\n' ' ')
[ "$files" = './etc/ssl/certs/ca-certificates.crt ./qosproxy ' ] || fail "it holds $files"
grep -q 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt" || fail "it holds no certificates"
size=$(stat -c %s "$root/qosproxy")
[ "$size" -le $((25 << 20)) ] || fail "the binary has $size bytes, more than 25 MiB"
if go tool nm "$root/qosproxy" 2>/dev/null | grep -q .; then fail "the binary is not stripped"; fi

# It runs, which without libraries only a static binary does: its root read-only,
# as its user, who has no capabilities, as chroot clears them on leaving uid 0.
mkdir "$root/etc/qosproxy"
# Ports of this machine, which the namespace of a container would keep apart.
cat >"$root/etc/qosproxy/qosproxy.yaml" <<EOF
cassandra: {contact_points: ["127.0.0.1:1"], local_dc: dc1}
listen: {grpc: "127.0.0.1:0", http: "", admin: "127.0.0.1:48081"}
tables: [{name: shop.products}]
shutdown: {delay: 0s}
EOF
run() {
  unshare --mount sh -ec 'root=$1; shift
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    echo $$ >"$PIDFILE"
    exec setpriv --no-new-privs chroot --userspec=65532:65532 --groups=65532 "$root" "$@"' - "$root" "$@"
}
run /qosproxy version | grep -q '^qosproxy v0.0.0-check (commit 0123abcd,' || fail "qosproxy version does not say version and commit"
run /qosproxy config check /etc/qosproxy/qosproxy.yaml >/dev/null || fail "qosproxy config check does not run"

# It serves without a cluster, alive and not ready, by its own health check; and ends
# well on SIGTERM.
health="/qosproxy health --config /etc/qosproxy/qosproxy.yaml"
run $health --live 2>/dev/null && fail "something else listens on 127.0.0.1:48081"
PIDFILE="$work/pid" run /qosproxy serve --config /etc/qosproxy/qosproxy.yaml 2>"$work/log" &
waited=$!
tries=0
until run $health --live >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -le 60 ] || fail "it does not come alive: $(cat "$work/log")"
  sleep 0.5
done
run $health >/dev/null 2>&1 && fail "it is ready without a cluster"
served=$(cat "$work/pid")
grep -q '^CapEff:	0*$' "/proc/$served/status" || fail "it has capabilities: $(grep Cap "/proc/$served/status")"
kill -TERM "$served"
wait "$waited" || fail "it does not end well: $(tail -n 3 "$work/log")"

# What is in it, beside it.
make --no-print-directory sbom BINARY="$root/qosproxy" VERSION=v0.0.0-check SBOM=dist/qosproxy.cdx.json >/dev/null
grep -q '"pkg:golang/google.golang.org/grpc@v' dist/qosproxy.cdx.json || fail "the bill of materials does not name gRPC"

echo "image-check: ok, the binary has $((size >> 20)) MiB; dist/qosproxy.cdx.json says what is in it"
