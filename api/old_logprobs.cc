#include "api/old_logprobs.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/tokenizer/utf8.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;

std::string bytes_of(const ordered_json& entry) {
  std::string bytes;
  for (const ordered_json& byte : entry["bytes"]) bytes.push_back(static_cast<char>(byte.get<int>()));
  return bytes;
}

// A part of a character is named by its bytes, as OpenAI does: two such tokens would look the same as text.
std::string name_of(const ordered_json& entry) {
  const std::string bytes = bytes_of(entry);
  if (is_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) {
    std::array<char, 8> text{};
    snprintf(text.data(), text.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    name += text.data();
  }
  return name;
}

int64_t characters_begun(std::string_view bytes) {
  int64_t count = 0;
  for (const char c : bytes) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

void append(std::string& list, const ordered_json& value) {
  if (!list.empty()) list += ',';
  list += value.dump();
}

}  // namespace

std::string OldLogprobs::convert(std::string_view elements) {
  std::string tokens, logprobs, tops, offsets;
  std::istringstream in{std::string(elements)};
  ordered_json entry;
  while (in.peek() != std::istringstream::traits_type::eof()) {
    in >> entry;  // one at a time: all of them as documents would take many times as much
    append(tokens, name_of(entry));
    append(logprobs, entry["logprob"]);
    ordered_json top = ordered_json::object();
    for (const ordered_json& other : entry["top_logprobs"]) top[name_of(other)] = other["logprob"];
    append(tops, top);
    append(offsets, characters_);
    characters_ += characters_begun(bytes_of(entry));
    if (in.peek() == ',') in.get();
  }
  return "{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + logprobs + "],\"top_logprobs\":[" + tops +
         "],\"text_offset\":[" + offsets + "]}";
}

}  // namespace llmd
