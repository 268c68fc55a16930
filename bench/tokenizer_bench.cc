// The tokenizer's throughput and load time, on a vocabulary trained here from its own text, or on that of the GGUF
// named by LLMD_BENCH_VOCABULARY.
//
// Without a file the vocabulary is small (bytes and one merge chain per word), so its numbers compare only to
// themselves.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>

#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {
namespace {

const char* const kWords[] = {"the",   "of",     "and",       "model",  "memory",     "expert", "latency", "throughput",
                              "drive", "reads",  "token",     "in",     "is",         "a",      "1984",    "small",
                              "very",  "large",  "machine",   "router", "attention,", "cache;", "weights", "\n\n",
                              "(see",  "below)", "therefore", "we'll",  "measure",    "it.",    "Größe",   "你好世界"};

std::string prose(size_t bytes) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < bytes) text.append(kWords[random() % std::size(kWords)]).append(" ");
  return text;
}

void put_text(std::string& out, const std::string& text) {
  uint64_t size = text.size();
  out.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}
void put_strings(std::string& out, const std::string& key, const std::vector<std::string>& list) {
  put_text(out, key);
  uint32_t types[] = {9, 8};
  uint64_t count = list.size();
  out.append(reinterpret_cast<const char*>(types), sizeof types);
  out.append(reinterpret_cast<const char*>(&count), sizeof count);
  for (const std::string& text : list) put_text(out, text);
}

/// Writes a vocabulary of all bytes, the words above and runs of one letter.
std::string write_vocabulary() {
  std::vector<std::string> tokens, merges;
  std::set<std::string> seen;
  auto add_merge = [&](const std::string& left, const std::string& right) {
    if (!seen.insert(left + right).second) return;
    tokens.push_back(to_byte_alphabet(left + right));
    merges.push_back(to_byte_alphabet(left) + " " + to_byte_alphabet(right));
  };
  for (int byte = 0; byte < 256; byte++) {
    std::string text(1, static_cast<char>(byte));
    seen.insert(text);
    tokens.push_back(to_byte_alphabet(text));
  }
  for (std::string run = "a"; run.size() < 16; run += run) add_merge(run, run);
  for (const char* word : kWords) {
    for (std::string text : {std::string(word), " " + std::string(word)}) {
      for (size_t i = 1; i < text.size(); i++) add_merge(text.substr(0, i), text.substr(i, 1));
    }
  }
  std::string out("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 24);
  for (const auto& [key, text] : {std::pair("tokenizer.ggml.model", "gpt2"), {"tokenizer.ggml.pre", "deepseek-v3"}}) {
    put_text(out, key);
    out.append("\10\0\0\0", 4);
    put_text(out, text);
  }
  put_strings(out, "tokenizer.ggml.tokens", tokens);
  put_strings(out, "tokenizer.ggml.merges", merges);
  put_text(out, "tokenizer.ggml.token_type");
  uint32_t types[] = {9, 5};
  uint64_t count = tokens.size();
  out.append(reinterpret_cast<const char*>(types), sizeof types);
  out.append(reinterpret_cast<const char*>(&count), sizeof count);
  for (size_t i = 0; i < tokens.size(); i++) out.append("\1\0\0\0", 4);
  out.resize((out.size() + 31) / 32 * 32);
  std::string path = std::filesystem::temp_directory_path() / ("llmd_bench_" + std::to_string(::getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary) << out;
  return path;
}

const GgufModel& vocabulary() {
  static const GgufModel model = [] {
    const char* given = std::getenv("LLMD_BENCH_VOCABULARY");
    std::string path = given ? given : write_vocabulary();
    Result<GgufModel> opened = GgufModel::open(path);
    if (!given) ::unlink(path.c_str());
    if (!opened.ok()) std::cerr << opened.error().to_string() << '\n';
    LLMD_CHECK(opened.ok());
    return std::move(opened).value();
  }();
  return model;
}

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded = [] {
    Result<std::unique_ptr<Tokenizer>> result = Tokenizer::load(vocabulary());
    LLMD_CHECK(result.ok());
    return std::move(result).value();
  }();
  return *loaded;
}

/// Prose, code, numbers, Chinese, Cyrillic, emoji and blank runs, as a prompt has them.
std::string mixed(size_t bytes) {
  const char* const parts[] = {
      "The quick brown fox's model doesn't fit in memory, so 1,024 experts stay on the drive.\n",
      "    for (int i = 0; i < n_rows; ++i) {\n        sum += weights[i] * x[i];  // rows\n    }\n",
      "def route(x):\n\treturn sorted(range(256), key=lambda e: -x[e])[:8]\n\n",
      "模型的权重不在内存里，专家从磁盘读取。每个词元需要八个专家。",
      "Большая языковая модель читает экспертов с диска, пока процессор считает.\n",
      "{\"id\": 20240807, \"latency_us\": [13.5, 1e-7, null], \"name\": \"caf\u00E9\"}\n",
      "https://example.com/a/b?c=%20d&e=f#g 😀👍🏽 ½ Ⅷ 𝟘 \t \r\n",
      "| column | value |\n|--------|-------|\n|   3.14 |  -273 |\n"};
  std::mt19937 random(2);
  std::string text;
  while (text.size() < bytes) text += parts[random() % std::size(parts)];
  return text;
}

void encode(benchmark::State& state, const std::string& text) {
  size_t tokens = 0;
  tokenizer();
  for (auto step : state) tokens = tokenizer().encode(text, false, false).size();
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.SetItemsProcessed(static_cast<int64_t>(tokens) * state.iterations());  // tokens a second
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

/// The size of the text: its rate falls with it where the cost is worse than linear.
size_t bytes_of(const benchmark::State& state) {
  return static_cast<size_t>(state.range(0)) << 20;
}

void BM_EncodeProse(benchmark::State& state) {
  encode(state, prose(bytes_of(state)));
}
void BM_EncodeMixed(benchmark::State& state) {
  encode(state, mixed(bytes_of(state)));
}
void BM_EncodeOneLetter(benchmark::State& state) {
  encode(state, std::string(bytes_of(state), 'a'));
}
void BM_EncodeSpaces(benchmark::State& state) {
  encode(state, std::string(bytes_of(state), ' '));
}
void BM_EncodeDigits(benchmark::State& state) {
  encode(state, std::string(bytes_of(state), '7'));
}
void BM_EncodePunctuation(benchmark::State& state) {
  encode(state, std::string(bytes_of(state), '<'));
}
void BM_EncodeShortMessage(benchmark::State& state) {
  encode(state, "What is the capital of France?");
}

void BM_Decode(benchmark::State& state) {
  std::vector<int32_t> ids = tokenizer().encode(prose(1 << 20), false, false);
  for (auto step : state) {
    Detokenizer detokenizer;
    for (int32_t id : ids) benchmark::DoNotOptimize(detokenizer.add(tokenizer().token_bytes(id)));
  }
  state.SetItemsProcessed(static_cast<int64_t>(ids.size()) * state.iterations());
}

void BM_Load(benchmark::State& state) {
  vocabulary();
  uint64_t bytes = 0;
  for (auto step : state) {
    auto loaded = Tokenizer::load(vocabulary());
    LLMD_CHECK(loaded.ok());
    bytes = (*loaded)->memory_bytes();
  }
  state.counters["memory_bytes"] = static_cast<double>(bytes);
}

BENCHMARK(BM_EncodeProse)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeMixed)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeOneLetter)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeSpaces)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeDigits)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodePunctuation)->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_EncodeShortMessage)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Decode)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmd
