#!/bin/sh
# Writes the generated code of the package: generate.sh PYTHON [OUT]. PYTHON has the packages of
# requirements.txt; OUT is the folder of the package qosproxy, by default that of this file.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-$here}
mkdir -p "$out"
"$1" -m grpc_tools.protoc -I "$here/.." --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" \
  "$here/../qosproxy/v1/qosproxy.proto" "$here/../qosproxy/v1/value.proto"
# No service, no stub.
rm -f "$out/qosproxy/v1/value_pb2_grpc.py"
