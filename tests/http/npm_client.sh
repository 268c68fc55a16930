#!/bin/bash
# A client from npm against llmd: npm_client.sh BUILD_FOLDER SCRIPT PACKAGE@VERSION...
# The packages are installed into the build folder, once; without node, npm or a registry the test skips and says so.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=serve.sh
. "$here/serve.sh"
build="${1:?usage: npm_client.sh BUILD_FOLDER SCRIPT PACKAGE@VERSION...}"
script="$2"
shift 2
folder="$build/npm-$(basename "$script" .mjs)"
command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  timeout 200 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts "$@" >"$folder/npm.log" 2>&1 ||
    skip "npm could not install $*: $(tail -n 1 "$folder/npm.log")"
  echo "$*" >"$folder/installed"
fi
export LLMD_KEY="sk-test-key-of-the-http-tests"
start_server
cp "$here/$script" "$here/harness.mjs" "$folder/"
LLMD_URL="$URL" timeout 240 node "$folder/$script"
