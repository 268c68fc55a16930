#!/bin/bash
# Configures a preset and builds targets of it. Usage: tools/build.sh PRESET [TARGET...]
# As many compilers at once as there are processors, but no more than memory allows (2 GiB each, and at least two).
set -euo pipefail
cd "$(dirname "$0")/.."
preset="$1"
shift

jobs=$(nproc)
by_memory=$(awk '/^MemAvailable:/ {print int($2 / 2097152)}' /proc/meminfo)
if [ "$jobs" -gt "$by_memory" ]; then jobs=$by_memory; fi
if [ "$jobs" -lt 2 ]; then jobs=2; fi

mkdir -p build
if ! cmake --preset "$preset" >"build/configure-$preset.log" 2>&1; then
  cat "build/configure-$preset.log" >&2
  exit 1
fi
exec cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
