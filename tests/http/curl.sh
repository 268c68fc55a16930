#!/bin/bash
# What a person at a shell does: every request here is one from the documentation, with curl.
set -u
here="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=serve.sh
. "$here/serve.sh"
command -v curl >/dev/null || skip "curl is not installed"
start_server

passed=0 failed=0
check() {  # check NAME EXPECTED ACTUAL: equal?
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  expected: %s\n  actual:   %s\n' "$1" "$2" "$3" >&2
  fi
}
check_in() {  # check_in NAME PART TEXT: does TEXT hold PART?
  case "$3" in
    *"$2"*) passed=$((passed + 1)) ;;
    *)
      failed=$((failed + 1))
      printf 'FAILED: %s\n  expected in it: %s\n  actual: %s\n' "$1" "$2" "$3" >&2
      ;;
  esac
}
get() { curl -s --max-time 60 "$@"; }
code() { curl -s --max-time 60 -o /dev/null -w '%{http_code}' "$@"; }

chat="$URL/v1/chat/completions"
hello='{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"temperature":0}'
stream='{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}'

check "health" 200 "$(code "$URL/health")"
check_in "health body" '"status":"ok"' "$(get "$URL/health")"
check "models" 200 "$(code "$URL/v1/models")"
check_in "models body" '"object":"list"' "$(get "$URL/v1/models")"
check "models without /v1 and with a slash" 200 "$(code "$URL/models/")"
check "unknown path" 404 "$(code "$URL/v1/nothing")"
check "wrong method" 405 "$(code "$chat")"
check "HEAD" 200 "$(code -I "$URL/health")"
check "OPTIONS" 204 "$(code -X OPTIONS "$chat")"
check "HTTP/1.0" 200 "$(code -0 "$URL/health")"

# -d says application/x-www-form-urlencoded unless told otherwise.
answer="$(get -d "$hello" "$chat")"
check_in "answer" '"object":"chat.completion"' "$answer"
check_in "answer has usage" '"completion_tokens":' "$answer"
check "the same answer again at temperature 0" "$(sed 's/.*"content":\(.*\),"refusal".*/\1/' <<<"$answer")" \
  "$(get -H 'Content-Type: application/json' -d "$hello" "$chat" | sed 's/.*"content":\(.*\),"refusal".*/\1/')"
check "chunked request body" 200 "$(printf '%s' "$hello" | code -H 'Transfer-Encoding: chunked' -d @- "$chat")"
check "Expect: 100-continue" 200 "$(code -H 'Expect: 100-continue' -d "$hello" "$chat")"

streamed="$(get -N -d "$stream" "$chat")"
check_in "stream role" '"delta":{"role":"assistant"' "$streamed"
check_in "stream usage" '"usage":{' "$streamed"
check "stream end" "data: [DONE]" "$(grep . <<<"$streamed" | tail -n 1)"
check_in "stream type" "text/event-stream" "$(get -D - -o /dev/null -d "$stream" "$chat")"

check "bad JSON" 400 "$(code -d '{' "$chat")"
check_in "bad JSON body" '"code":"invalid_json"' "$(get -d '{' "$chat")"
check "no messages" 400 "$(code -d '{}' "$chat")"
check "temperature out of range" 400 "$(code -d "${hello%\}},\"temperature\":3}" "$chat")"
check "unknown model" 404 "$(code -d "${hello%\}},\"model\":\"no-such-model\"}" "$chat")"
check "wrong type" 415 "$(code -H 'Content-Type: text/csv' -d "$hello" "$chat")"
long="$(head -c 600000 /dev/zero | tr '\0' 'x' | sed 's/x\{6\}/ a b c/g')"
check_in "prompt too long" '"code":"context_length_exceeded"' \
  "$(printf '{"messages":[{"role":"user","content":"%s"}],"max_tokens":1}' "$long" | get -d @- "$chat")"
check "body too large" 413 "$(head -c 20000000 /dev/zero | tr '\0' ' ' | code --data-binary @- "$chat")"

# A client that goes away must not take the server with it.
timeout 1 curl -s -N -d "${stream/\"max_tokens\":8/\"max_tokens\":100000}" "$chat" >/dev/null
check "alive afterwards" 200 "$(code -d "$hello" "$chat")"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
