#include "model/tokenizer/vocabulary.h"

#include <functional>

#include "model/tokenizer/byte_alphabet.h"

namespace llmd {
namespace {

constexpr size_t kTokensMax = 1u << 24;  // real vocabularies have at most a few hundred thousand

// "<0xE2>" stands for one byte.
bool parse_byte_token(std::string_view text, char* byte) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return false;
  unsigned value = 0;
  for (char c : text.substr(3, 2)) {
    unsigned digit = c >= '0' && c <= '9' ? static_cast<unsigned>(c - '0') : static_cast<unsigned>(c - 'A' + 10);
    if (digit > 15) return false;
    value = value * 16 + digit;
  }
  *byte = static_cast<char>(value);
  return true;
}

}  // namespace

Error vocabulary_error(const std::string& message) {
  return operating_error("gguf_invalid", "the vocabulary is broken: " + message);
}

void Vocabulary::StringArena::add(std::string_view text) {
  bytes += text;
  begins.push_back(static_cast<uint32_t>(bytes.size()));
}

std::string_view Vocabulary::StringArena::at(int32_t id) const {
  size_t i = static_cast<size_t>(id);
  return std::string_view(bytes).substr(begins[i], begins[i + 1] - begins[i]);
}

Result<Vocabulary> Vocabulary::load(const GgufModel& model) {
  const GgufArray* array = model.get_array("tokenizer.ggml.tokens");
  const auto* tokens = array ? std::get_if<std::vector<std::string>>(&array->items) : nullptr;
  if (!tokens || tokens->empty()) return vocabulary_error("tokenizer.ggml.tokens is missing, empty or not of strings");
  if (tokens->size() > kTokensMax) return vocabulary_error("tokenizer.ggml.tokens has more than 16,777,216 entries");
  Vocabulary vocabulary;
  LLMD_RETURN_IF_ERROR(vocabulary.read_types(model, tokens->size()));
  LLMD_RETURN_IF_ERROR(vocabulary.read_texts(*tokens));
  LLMD_RETURN_IF_ERROR(vocabulary.build_index());
  vocabulary.find_byte_tokens();
  return vocabulary;
}

Status Vocabulary::read_types(const GgufModel& model, size_t count) {
  const GgufArray* array = model.get_array("tokenizer.ggml.token_type");
  const auto* types = array ? std::get_if<std::vector<int64_t>>(&array->items) : nullptr;
  if (!types) return vocabulary_error("tokenizer.ggml.token_type is missing or not of integers");
  if (types->size() != count) {
    return vocabulary_error("tokenizer.ggml.token_type has " + std::to_string(types->size()) + " entries for " +
                            std::to_string(count) + " tokens");
  }
  types_.reserve(count);
  for (int64_t type : *types) {
    if (type < 0 || type > 6) {
      return vocabulary_error("token " + std::to_string(types_.size()) + " has the unknown type " +
                              std::to_string(type));
    }
    types_.push_back(static_cast<TokenType>(type));
  }
  return {};
}

Status Vocabulary::read_texts(const std::vector<std::string>& tokens) {
  uint64_t total = 0;
  for (const std::string& token : tokens) total += token.size();
  if (total > UINT32_MAX) return vocabulary_error("the token texts are longer than 4 GiB");
  texts_.bytes.reserve(total);
  texts_.begins.reserve(tokens.size() + 1);
  bytes_.begins.reserve(tokens.size() + 1);
  for (size_t i = 0; i < tokens.size(); i++) {
    texts_.add(tokens[i]);
    char byte = 0;
    if (types_[i] == TokenType::kByte && parse_byte_token(tokens[i], &byte)) {
      bytes_.add({&byte, 1});
    } else if (is_plain(static_cast<int32_t>(i))) {
      bytes_.add(from_byte_alphabet(tokens[i]));
    } else {
      bytes_.add({});
    }
  }
  bytes_.bytes.shrink_to_fit();
  return {};
}

Status Vocabulary::build_index() {
  size_t slots = 16;
  while (slots < types_.size() * 2) slots *= 2;
  table_.assign(slots, -1);
  for (int32_t id = 0; id < size(); id++) {
    std::string_view key = text(id);
    if (key.empty()) continue;
    size_t slot = std::hash<std::string_view>{}(key) & (slots - 1);
    while (table_[slot] >= 0) {
      if (text(table_[slot]) == key) {
        return vocabulary_error("tokens " + std::to_string(table_[slot]) + " and " + std::to_string(id) +
                                " have the same text");
      }
      slot = (slot + 1) & (slots - 1);
    }
    table_[slot] = id;
  }
  return {};
}

void Vocabulary::find_byte_tokens() {
  for (int byte = 0; byte < 256; byte++) {
    char c = static_cast<char>(byte);
    int32_t id = find(to_byte_alphabet({&c, 1}));
    if (id >= 0 && is_plain(id)) byte_tokens_[static_cast<size_t>(byte)] = id;
  }
  for (int32_t id = 0; id < size(); id++) {
    if (type(id) != TokenType::kByte || bytes(id).size() != 1) continue;
    int32_t& entry = byte_tokens_[static_cast<uint8_t>(bytes(id)[0])];
    if (entry < 0) entry = id;
  }
}

bool Vocabulary::is_special(int32_t id) const {
  TokenType t = type(id);
  return t == TokenType::kControl || t == TokenType::kUserDefined || t == TokenType::kUnknown;
}

bool Vocabulary::is_plain(int32_t id) const {
  TokenType t = type(id);
  return t == TokenType::kNormal || t == TokenType::kUndefined || t == TokenType::kByte;
}

int32_t Vocabulary::find(std::string_view key) const {
  if (key.empty()) return -1;
  size_t slot = std::hash<std::string_view>{}(key) & (table_.size() - 1);
  while (table_[slot] >= 0) {
    if (text(table_[slot]) == key) return table_[slot];
    slot = (slot + 1) & (table_.size() - 1);
  }
  return -1;
}

uint64_t Vocabulary::memory_bytes() const {
  return types_.capacity() + texts_.bytes.capacity() + bytes_.bytes.capacity() +
         (texts_.begins.capacity() + bytes_.begins.capacity()) * sizeof(uint32_t) + table_.capacity() * sizeof(int32_t);
}

}  // namespace llmd
