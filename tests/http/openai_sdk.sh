#!/bin/bash
# The official OpenAI package for Node, installed into the build folder given as $1, against llmd.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=serve.sh
. "$here/serve.sh"
version=7.59.0
folder="${1:?usage: openai_sdk.sh BUILD_FOLDER}/openai-$version"
command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
if [ ! -d "$folder/node_modules/openai" ]; then
  mkdir -p "$folder"
  timeout 120 npm install --prefix "$folder" --no-audit --no-fund --ignore-scripts "openai@$version" >"$folder/npm.log" 2>&1 ||
    skip "npm could not install openai@$version: $(tail -n 1 "$folder/npm.log")"
fi
start_server
cp "$here/openai_sdk.mjs" "$folder/"
LLMD_URL="$URL" timeout 240 node "$folder/openai_sdk.mjs"
