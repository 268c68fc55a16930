#!/bin/bash
# A strict Python client (Debian's python3-httpx) against llmd, with a key.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=serve.sh
. "$here/serve.sh"
/usr/bin/python3 -c 'import httpx' 2>/dev/null || skip "python3-httpx is not installed"
export LLMD_KEY="sk-test-key-of-the-http-tests"
start_server
timeout 240 /usr/bin/python3 "$here/httpx_client.py" "$URL" "$LLMD_KEY"
