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
trap 'b rm --all >/dev/null; rm -rf "$work"' EXIT

# The base image: the Go toolchain of go.mod, sh, and the public authorities.
base=$(sed -n 's/^FROM \(golang:[^ ]*\) AS build$/\1/p' Dockerfile)
goroot=$(go env GOROOT)
[ "golang:$(go env GOVERSION | sed 's/^go//')" = "$base" ] || fail "the Dockerfile builds with $base, go.mod with $(go env GOVERSION)"
stand_in=$(b from scratch)
root=$(b mount "$stand_in")
mkdir -p "$root/usr/local" "$root/bin" "$root/etc/ssl/certs" "$root/tmp"
cp -R "$goroot" "$root/usr/local/go"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp -L /bin/sh "$root/bin/sh"
ldd /bin/sh | grep -o '/[^ ]*' | while read -r lib; do
  mkdir -p "$root${lib%/*}"
  cp -L "$lib" "$root$lib"
done
b umount "$stand_in" >/dev/null
b config --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local "$stand_in"
b commit --quiet --rm "$stand_in" "docker.io/library/$base" >/dev/null

b build --quiet --pull=never --build-arg VERSION=v0.0.0-check --tag image . >/dev/null

# What the image says of itself.
says() {
  got=$(b inspect --type image --format "{{$1}}" image)
  [ "$got" = "$2" ] || fail "$1 is $got, not $2"
}
says .OCIv1.Config.User 65532:65532
says .OCIv1.Config.Entrypoint '[/qosproxy]'
says .OCIv1.Config.Cmd '[serve --config /etc/qosproxy/qosproxy.yaml]'
for label in title description version source licenses; do
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
cat >"$root/etc/qosproxy/qosproxy.yaml" <<EOF
cassandra: {contact_points: [cassandra.example.com], local_dc: dc1}
tables: [{name: shop.products}]
EOF
run() {
  unshare --mount sh -ec 'root=$1; shift
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    exec setpriv --no-new-privs chroot --userspec=65532:65532 --groups=65532 "$root" "$@"' - "$root" "$@"
}
run /qosproxy version | grep -q '^qosproxy v0.0.0-check ' || fail "qosproxy version does not say the version"
run /qosproxy config check /etc/qosproxy/qosproxy.yaml >/dev/null || fail "qosproxy config check does not run"

echo "image-check: ok, the binary has $((size >> 20)) MiB"
