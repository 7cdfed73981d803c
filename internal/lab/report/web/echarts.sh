#!/bin/sh
# Fetches Apache ECharts with its licence from npm, which checks the package's
# integrity: sh web/echarts.sh 6.1.0
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
npm pack --silent --pack-destination "$tmp" "echarts@$1" >/dev/null
tar -xzf "$tmp"/echarts-*.tgz -C "$tmp"
gzip -9nc "$tmp/package/dist/echarts.min.js" >echarts.min.js.gz
cat "$tmp/package/LICENSE" "$tmp/package/licenses/LICENSE-d3" >echarts.LICENSE
cp "$tmp/package/NOTICE" echarts.NOTICE
