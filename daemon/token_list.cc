#include "daemon/token_list.h"

#include <algorithm>
#include <fstream>

namespace llmd {

Result<std::vector<int32_t>> token_list(const std::string& path, size_t count, int32_t vocab) {
  std::vector<int32_t> tokens;
  if (path.empty()) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    while (tokens.size() < count) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab)));
    }
    return tokens;
  }
  std::ifstream file(path);
  if (!file) return operating_error("file_open", "cannot read the token list", path);
  for (std::string word; tokens.size() < count && std::getline(file, word, ',');) {
    for (char& c : word)
      if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    size_t at = 0;
    while ((at = word.find_first_not_of(' ', at)) != std::string::npos && tokens.size() < count) {
      size_t end = std::min(word.find(' ', at), word.size());
      std::string item = word.substr(at, end - at);
      if (item.find_first_not_of("0123456789") != std::string::npos || item.size() > 9 || std::stoi(item) >= vocab)
        return client_error("invalid_token", "\"" + item + "\" in " + path + " is not a token of this model");
      tokens.push_back(std::stoi(item));
      at = end;
    }
  }
  if (tokens.size() < count)
    return client_error("invalid_token", path + " has " + std::to_string(tokens.size()) + " tokens, " +
                                             std::to_string(count) + " are wanted");
  return tokens;
}

}  // namespace llmd
