#!/bin/sh
# soak.sh [SECONDS [SEED]]: clients that come and go over a lying disk, for half an hour (tests/fault/serve_soak.cc, of
# which ./check --full runs three minutes).
set -eu
cd "$(dirname "$0")/.."
tools/build.sh release serve_soak
exec build/release/tests/fault/serve_soak demo/llmd-demo.gguf "${1:-1800}" "${2:-1}"
