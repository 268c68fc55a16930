// Fuzzes the splitter of thinking and answer: the first byte says how, the rest is the text. In pieces it comes to the
// same as whole, nothing is held back for ever, and no tag that opened or closed the thinking is in either field.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/reasoning.h"

namespace {

struct Fields {
  std::string reasoning, content;
};

Fields split(std::string_view text, bool inside, size_t piece) {
  llmd::ReasoningSplitter splitter({"<think>", "</think>"}, inside);
  Fields fields;
  for (size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at))
    splitter.add(text.substr(at, piece), fields.reasoning, fields.content);
  splitter.finish(fields.reasoning, fields.content);
  return fields;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool inside = (data[0] & 1) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Fields whole = split(text, inside, SIZE_MAX), pieces = split(text, inside, 1 + data[0] / 2);
  // Longer runs of white space than are held back may be cut elsewhere.
  if (text.size() < 4096 && (whole.reasoning != pieces.reasoning || whole.content != pieces.content)) std::abort();
  if (whole.reasoning.find("</think>") != std::string::npos) std::abort();
  if (whole.reasoning.size() + whole.content.size() > text.size()) std::abort();
  return 0;
}
