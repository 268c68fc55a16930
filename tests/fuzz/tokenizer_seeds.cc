// Seeds of tokenizer_fuzz: for each pre-tokenizer a vocabulary with merges, special tokens and a text that uses them.
// Usage: tokenizer_seeds FOLDER
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

std::string with_length(const std::string& text) {
  return std::string(1, static_cast<char>(text.size())) + text;
}

std::string vocabulary(int pre, int flags) {
  const std::vector<std::pair<std::string, int>> tokens = {{"ab", 1},     {"abc", 1},  {"\u0120ab", 1}, {"<|x|>", 3},
                                                           {"<y>", 4},    {"</s>", 3}, {"<unk>", 2},    {"<0x41>", 6},
                                                           {"\u03B1", 4}, {"12", 1},   {"", 1},         {"<|end|>", 3}};
  const std::vector<std::string> merges = {"a b", "ab c", "\u0120 ab", "1 2"};
  std::string out;
  for (int value : {pre, flags, 3, 5, static_cast<int>(tokens.size())}) out += static_cast<char>(value);
  for (const auto& [token, type] : tokens) out += with_length(token) + static_cast<char>(type);
  out += static_cast<char>(merges.size());
  for (const std::string& merge : merges) out += with_length(merge);
  return out;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  const std::string texts[] = {"abc ab <|x|> <y>", "123 don't\n\n  Hello, w\u00F6rld \xFF\xC3",
                               "e\u0301 \uAC00 \u4F60\u597D  \u0344\u1112\u1161", std::string("\0a\u2028\r\n<|en", 11)};
  int number = 0;
  for (int pre = 0; pre < 14; pre++) {
    for (int flags : {0, 1, 7}) {
      std::ofstream file(folder / std::to_string(number++), std::ios::binary);
      file << vocabulary(pre, flags) << texts[number % 4];
    }
  }
  return 0;
}
