"""A strict client on httpx, which is under OpenAI's Python SDK, with that SDK's rules for streams: every line must be
UTF-8, data ends at [DONE], an `error` key raises. usage: httpx_client.py URL KEY"""

import json
import sys
import threading

import httpx

URL, KEY = sys.argv[1:3]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
client = httpx.Client(base_url=URL + "/v1", headers={"Authorization": "Bearer " + KEY},
                      timeout=httpx.Timeout(60, connect=5))


class StreamError(Exception):
    pass


def events(response):
    """The data of each event, by the SDK's decoder: bytes to lines, lines to UTF-8 without mercy."""
    pending, data = b"", []
    for chunk in response.iter_raw():
        pending += chunk
        *lines, pending = pending.split(b"\n")
        for raw in lines:
            line = raw.decode("utf-8", "strict").rstrip("\r")
            if line == "" and data:
                text, data = "\n".join(data), []
                if text.startswith("[DONE]"):
                    return
                event = json.loads(text)
                if event.get("error"):
                    raise StreamError(event["error"]["message"])
                yield event
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif line and not line.startswith(":"):
                raise StreamError("a line of an unknown kind: " + line)
    raise StreamError("the stream ended without [DONE]")


def stream(path, **fields):
    with client.stream("POST", path, json={"stream": True, **fields}) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-request-id"].startswith("req_")
        yield from events(response)


def chat(**fields):
    return client.post("/chat/completions", json={"messages": QUESTION, "temperature": 0, "max_tokens": 12, **fields})


def refused(response, status, code, param=None):
    error = response.json()["error"]
    assert response.status_code == status and error["code"] == code and error["param"] == param, (status, error)


def test_streams_the_same_text_as_whole():
    whole = chat().json()
    assert "Paris" in whole["choices"][0]["message"]["content"]
    chunks = list(stream("/chat/completions", messages=QUESTION, temperature=0, max_tokens=12,
                         stream_options={"include_usage": True}))
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    ends = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    assert ends[-1] in ("stop", "length") and not any(ends[:-1])
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == whole["usage"] | {
        "prompt_tokens_details": chunks[-1]["usage"]["prompt_tokens_details"]}


def test_never_sends_a_chunk_without_choices_unless_asked_for_usage():
    assert all(len(c["choices"]) == 1 for c in stream("/chat/completions", messages=QUESTION, max_tokens=3))


def test_keeps_lines_utf8_when_the_model_writes_broken_characters():
    """Forced bytes: a lead byte again and again is never a character."""
    tokens = client.post(URL + "/tokenize", json={"content": "\u00e9", "with_pieces": True}).json()["tokens"]
    lead = [t["id"] for t in tokens if isinstance(t["piece"], list)]
    assert lead, tokens
    chunks = list(stream("/chat/completions", messages=QUESTION, max_tokens=6, temperature=0,
                         logit_bias={str(lead[0]): 100}))
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
    assert "\ufffd" in text, text
    whole = chat(max_tokens=6, logit_bias={str(lead[0]): 100}).json()
    assert whole["choices"][0]["message"]["content"] == text


def test_sends_nothing_of_a_stop_string_over_several_tokens():
    text = chat().json()["choices"][0]["message"]["content"]
    for cut in range(1, len(text) - 4):
        stop = text[cut:cut + 4]
        chunks = stream("/chat/completions", messages=QUESTION, temperature=0, max_tokens=12, stop=stop)
        got = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
        assert got == text[:text.index(stop)], (stop, got)


def test_completes_text_and_tokens_alike():
    prompt = "The capital of France is"
    ids = client.post(URL + "/tokenize", json={"content": prompt, "add_special": True, "parse_special": False}).json()["tokens"]
    texts = {client.post("/completions", json={"prompt": p, "temperature": 0, "max_tokens": 5}).json()["choices"][0]["text"]
             for p in (prompt, ids, [prompt], [ids])}
    assert len(texts) == 1
    streamed = "".join(c["choices"][0]["text"] for c in stream("/completions", prompt=prompt, temperature=0, max_tokens=5)
                       if c["choices"])
    assert {streamed} == texts
    assert client.post(URL + "/detokenize", json={"tokens": ids}).json()["content"].endswith(prompt)


def test_counts_the_prompt_as_tokenize_counts_the_rendered_template():
    prompt = client.post(URL + "/apply-template", json={"messages": QUESTION}).json()["prompt"]
    ids = client.post(URL + "/tokenize", json={"content": prompt, "add_special": True}).json()["tokens"]
    assert len(ids) == chat(max_tokens=1).json()["usage"]["prompt_tokens"]


def test_refuses_with_a_4xx_before_any_byte_of_a_stream():
    long = [{"role": "user", "content": " a b c" * 100_000}]
    for stream_flag in (False, True):
        response = chat(messages=long, stream=stream_flag)
        refused(response, 400, "context_length_exceeded", "messages")
        error = response.json()["error"]
        assert error["n_prompt_tokens"] >= error["n_ctx"] == 2048
        refused(chat(temperature=9, stream=stream_flag), 400, "invalid_value", "temperature")
        refused(chat(model="nobody", stream=stream_flag), 404, "model_not_found", "model")
    refused(client.post("/chat/completions", content=b'{"messages": "\\ud83d"}'), 400, "invalid_json")
    refused(client.post("/chat/completions", content=b'{"messages": "\xff"}'), 400, "invalid_json")


def test_asks_for_the_key():
    bare = httpx.Client(base_url=URL)
    assert bare.get("/health").status_code == 200
    for headers in ({}, {"Authorization": "Bearer wrong-key-wrong"}, {"x-api-key": KEY + "x"}):
        response = bare.get("/v1/models", headers=headers)
        assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    assert bare.get("/v1/models", headers={"x-api-key": KEY}).status_code == 200


def test_frees_a_stream_whose_reader_left():
    with client.stream("POST", "/chat/completions", json={"messages": QUESTION, "stream": True, "max_tokens": 1900,
                                                          "ignore_eos": True}) as response:
        next(response.iter_raw())
    for _ in range(200):
        health = httpx.get(URL + "/health").json()
        if health["requests_running"] + health["requests_waiting"] == 0:
            return
        threading.Event().wait(0.05)
    raise AssertionError(health)


failed = 0
tests = [(name, value) for name, value in list(globals().items()) if name.startswith("test_")]
for name, body in tests:
    try:
        body()
        print("ok   " + name)
    except Exception as error:  # pylint: disable=broad-except
        failed += 1
        print(f"FAIL {name}: {error!r}")
print(f"{len(tests) - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
