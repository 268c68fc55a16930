# Sourced by the tests: sets URL to a server that is ready. LLMD_URL names a running one; otherwise LLMD_BIN serves
# LLMD_MODEL on a free port until the script ends, as "demo", asking for LLMD_KEY if that is set. SERVE_FLAGS are added.

skip() {
  echo "SKIPPED: $1" >&2
  exit 77
}

start_server() {
  if [ -n "${LLMD_URL:-}" ]; then
    URL="$LLMD_URL"
    return
  fi
  [ -x "${LLMD_BIN:-}" ] || skip "LLMD_BIN does not name the llmd program"
  [ -f "${LLMD_MODEL:-}" ] || skip "LLMD_MODEL does not name a model file"
  local log keys=()
  log="$(mktemp)"
  if [ -n "${LLMD_KEY:-}" ]; then
    (umask 077 && echo "$LLMD_KEY" >"$log.keys")
    keys=(--api-key-file "$log.keys")
  fi
  # Port 0 would do, but its number would have to be read from the log: a free one is tried, a few times.
  local attempt port
  for attempt in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 20000))
    "$LLMD_BIN" serve --model "$LLMD_MODEL" --listen "127.0.0.1:$port" --memory "${LLMD_MEMORY:-512M}" \
      --alias demo "${keys[@]}" ${SERVE_FLAGS:-} >"$log" 2>&1 &
    SERVER_PID=$!
    URL="http://127.0.0.1:$port"
    if wait_ready; then
      trap 'kill "$SERVER_PID" 2>/dev/null; wait "$SERVER_PID" 2>/dev/null; rm -f '"$log $log.keys" EXIT
      return
    fi
    kill "$SERVER_PID" 2>/dev/null
    wait "$SERVER_PID" 2>/dev/null
  done
  echo "FAILED: llmd did not become ready; its output:" >&2
  cat "$log" >&2
  rm -f "$log" "$log.keys"
  exit 1
}

wait_ready() {
  local i
  for i in $(seq 1 300); do
    kill -0 "$SERVER_PID" 2>/dev/null || return 1
    [ "$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 "$URL/health")" = 200 ] && return 0
    sleep 0.2
  done
  return 1
}
