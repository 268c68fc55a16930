#include "io/result.h"

namespace llmd {

std::string Error::to_string() const {
  std::string text = message;
  if (!file.empty()) text += " (" + file + (offset ? " at byte " + std::to_string(*offset) : "") + ")";
  return text;
}

}  // namespace llmd
