// Fuzzes the tokenizer: an input is a small vocabulary, then a text. In order:
//   u8 pre-tokenizer, u8 flags (1: the 256 byte tokens come first; 2: add_bos; 4: add_eos), u8 bos, u8 eos,
//   u8 tokens, each u8 length, u8 type, bytes;  u8 merges, each u8 length, bytes;  the rest is the text.
// Whatever the vocabulary, loading gives a tokenizer or a typed error, ids lie inside the vocabulary, untrusted text
// never becomes a control token, and with all byte tokens the ids give the text back. The ids then go through the
// detokenizer and the stop matcher, whole and in pieces: the same text, always UTF-8.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "model/gguf/gguf_reader.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/utf8.h"
#include "tests/gguf/gguf_builder.h"

namespace llmd {
namespace {

using Type = GgufValueType;

constexpr std::array<const char*, 14> kPres = {"deepseek-v3", "deepseek-llm", "deepseek-coder", "qwen2",       "qwen35",
                                               "llama-bpe",   "kimi-k2",      "gpt-4o",         "tekken",      "youtu",
                                               "gpt-2",       "falcon",       "default",        "no such rule"};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    uint8_t value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::string text() {
    std::string out(rest_.substr(0, byte()));
    rest_.remove_prefix(std::min(rest_.size(), out.size()));
    return out;
  }
  std::string rest() const { return std::string(rest_); }

 private:
  std::string_view rest_;
};

struct Case {
  std::string pre, file, text;
  bool has_bytes = false;
};

Case read_case(Input& input) {
  Case out;
  out.pre = kPres[input.byte() % kPres.size()];
  const uint8_t flags = input.byte(), bos = input.byte(), eos = input.byte();
  out.has_bytes = (flags & 1) != 0;
  std::vector<std::string> tokens;
  std::string texts, types, merges;
  auto add = [&](const std::string& text, int32_t type) {
    tokens.push_back(text);
    texts += testing::le_string(text);
    types += testing::le(type);
  };
  for (int i = 0; out.has_bytes && i < 256; i++) {
    const char c = static_cast<char>(i);
    add(to_byte_alphabet({&c, 1}), 1);
  }
  for (int left = input.byte(); left > 0; left--) {
    const std::string text = input.text();
    add(text, input.byte() % 8);
  }
  const uint8_t merge_count = input.byte();
  for (int i = 0; i < merge_count; i++) merges += testing::le_string(input.text());
  testing::GgufBuilder builder;
  builder.text("general.architecture", "test").text("tokenizer.ggml.model", "gpt2");
  builder.text("tokenizer.ggml.pre", out.pre);
  builder.key("tokenizer.ggml.tokens", Type::kArray, testing::le_array(Type::kString, tokens.size(), texts));
  builder.key("tokenizer.ggml.token_type", Type::kArray, testing::le_array(Type::kI32, tokens.size(), types));
  builder.key("tokenizer.ggml.merges", Type::kArray, testing::le_array(Type::kString, merge_count, merges));
  builder.u32("tokenizer.ggml.bos_token_id", bos).u32("tokenizer.ggml.eos_token_id", eos);
  builder.key("tokenizer.ggml.add_bos_token", Type::kBool, std::string(1, (flags & 2) ? '\1' : '\0'));
  builder.key("tokenizer.ggml.add_eos_token", Type::kBool, std::string(1, (flags & 4) ? '\1' : '\0'));
  out.file = builder.build();
  out.text = input.rest();
  return out;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = decode_utf8(text, at);
    if (step.kind != Utf8Kind::kValid) return false;
    at += step.length;
  }
  return true;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, const std::string& bytes) {
  Detokenizer whole, pieces;
  std::string streamed;
  StopMatcher all({"ab", "\n\n", "b"}), cut({"ab", "\n\n", "b"});
  std::string stopped;
  for (int32_t id : ids) {
    const std::string piece = pieces.add(tokenizer.token_bytes(id, true));
    LLMD_CHECK(is_utf8(piece));
    streamed += piece;
    stopped += cut.add(piece);
  }
  LLMD_CHECK(streamed == whole.add(bytes));
  stopped += cut.finish();
  std::string expected = all.add(streamed);
  expected += all.finish();
  LLMD_CHECK(stopped == expected && cut.stopped() == all.stopped());
}

void check_ids(const Tokenizer& tokenizer, const Case& input, bool trusted) {
  const std::vector<int32_t> ids = tokenizer.encode(input.text, trusted, false);
  std::string bytes, storage;
  for (int32_t id : ids) {
    LLMD_CHECK(id >= 0 && id < tokenizer.vocab_size());
    LLMD_CHECK(trusted || !tokenizer.is_control(id));
    bytes += tokenizer.token_bytes(id, true);
  }
  const bool normalizes = find_pre_tokenizer(input.pre)->nfc;
  if (input.has_bytes && !normalizes) LLMD_CHECK(bytes == input.text);
  if (input.has_bytes) {
    LLMD_CHECK(ids.size() * static_cast<size_t>(tokenizer.longest_token_bytes()) >= input.text.size());
  }
  check_stream(tokenizer, ids, bytes);
}

void run(const uint8_t* data, size_t size) {
  Input reader(data, size);
  const Case input = read_case(reader);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(input.file));
  uint64_t budget = GgufReader::kDecodedBytesMax;
  Result<GgufHeader> header = GgufReader::read_file(*gguf_memory_source("fuzz", bytes), budget);
  LLMD_CHECK(header.ok());
  std::vector<GgufHeader> headers;
  headers.push_back(std::move(*header));
  Result<GgufModel> model = GgufReader::join(std::move(headers));
  LLMD_CHECK(model.ok());
  auto tokenizer = Tokenizer::load(*model);
  if (!tokenizer.ok()) {
    const Error& error = tokenizer.error();
    LLMD_CHECK(error.code == "gguf_invalid" || error.code == "tokenizer_unsupported");
    LLMD_CHECK(error.kind == ErrorKind::kOperating && !error.message.empty());
    return;
  }
  check_ids(**tokenizer, input, true);
  check_ids(**tokenizer, input, false);
  const TextRun runs[] = {{input.text.substr(0, input.text.size() / 2), true},
                          {input.text.substr(input.text.size() / 2), false}};
  for (int32_t id : (*tokenizer)->encode(runs, true)) LLMD_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
}

}  // namespace
}  // namespace llmd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llmd::run(data, size);
  return 0;
}
