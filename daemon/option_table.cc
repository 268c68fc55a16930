#include "daemon/option_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "daemon/option_setters.h"
#include "model/architecture.h"

namespace llmd {
namespace {

// --- setters and getters -------------------------------------------------------------------------------------------

template <auto kMember>
Status set_text(Options& options, std::string_view, std::string_view text) {
  options.*kMember = std::string(text);
  return {};
}

template <auto kMember>
Status set_path(Options& options, std::string_view name, std::string_view text) {
  if (text.empty()) return usage_error(std::string(name) + ": the path is empty; name a file or leave it out");
  options.*kMember = std::string(text);
  return {};
}

template <auto kMember>
std::string get_text(const Options& options) {
  return options.*kMember;
}

template <auto kMember>
Status set_switch(Options& options, std::string_view, std::string_view) {
  options.*kMember = true;
  return {};
}

template <auto kMember, int64_t kMinimum, int64_t kMaximum>
Status set_integer(Options& options, std::string_view name, std::string_view text) {
  LLMD_ASSIGN_OR_RETURN(const int64_t value, parse_integer(name, text, kMinimum, kMaximum));
  options.*kMember = static_cast<int32_t>(value);
  return {};
}

/// As set_integer, for an optional that "auto" empties.
template <auto kMember, int64_t kMinimum, int64_t kMaximum>
Status set_auto_integer(Options& options, std::string_view name, std::string_view text) {
  if (text == "auto") {
    options.*kMember = std::nullopt;
    return {};
  }
  return set_integer<kMember, kMinimum, kMaximum>(options, name, text);
}

template <auto kMember>
std::string get_integer(const Options& options) {
  return std::to_string(options.*kMember);
}

template <auto kMember>
std::string get_auto_integer(const Options& options) {
  return options.*kMember ? std::to_string(*(options.*kMember)) : "auto";
}

std::string decimal(double value) {
  std::array<char, 400> text{};
  const auto printed = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return {text.data(), printed.ptr};
}

template <auto kMember>
Status set_share(Options& options, std::string_view name, std::string_view text) {
  LLMD_ASSIGN_OR_RETURN(options.*kMember, parse_share(name, text));
  return {};
}

template <auto kMember>
std::string get_share(const Options& options) {
  return decimal(options.*kMember);
}

template <auto kMember, int kMinimum, int kMaximum, bool kZero = true>
Status set_number(Options& options, std::string_view name, std::string_view text) {
  options.*kMember = std::nullopt;
  if (text == "auto") return {};
  LLMD_ASSIGN_OR_RETURN(options.*kMember, parse_number(name, text, kMinimum, kMaximum, kZero));
  return {};
}

template <auto kMember>
std::string get_number(const Options& options) {
  return options.*kMember ? decimal(*(options.*kMember)) : "auto";
}

template <auto kMember>
Status set_size(Options& options, std::string_view name, std::string_view text) {
  LLMD_ASSIGN_OR_RETURN(const uint64_t bytes, parse_size(name, text));
  if (bytes == 0) return usage_error(std::string(name) + ": a size of 0 is no use; give one such as 64G");
  options.*kMember = bytes;
  return {};
}

template <auto kMember>
std::string get_size(const Options& options) {
  return format_size(options.*kMember);
}

template <auto kMember>
Status set_age(Options& options, std::string_view name, std::string_view text) {
  constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  for (const auto& [letter, seconds] : kUnits) {
    if (text.empty() || text.back() != letter) continue;
    LLMD_ASSIGN_OR_RETURN(const int64_t count, parse_integer(name, text.substr(0, text.size() - 1), 0, 1'000'000));
    options.*kMember = count * seconds;
    return {};
  }
  return usage_error(std::string(name) + ": " + quoted(text) + " is not an age; write 90s, 30m, 12h or 7d");
}

template <auto kMember>
Status set_auto_size(Options& options, std::string_view name, std::string_view text) {
  if (text == "auto") {
    options.*kMember = std::nullopt;
    return {};
  }
  return set_size<kMember>(options, name, text);
}

template <auto kMember>
std::string get_auto_size(const Options& options) {
  return options.*kMember ? format_size(*(options.*kMember)) : "auto";
}

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

constexpr std::array<Choice<KvType>, 4> kKvTypes = {
    {{"f16", KvType::kF16}, {"q8_0", KvType::kQ8_0}, {"bf16", KvType::kBF16}, {"f32", KvType::kF32}}};
constexpr std::array<Choice<ReadPath>, 3> kReadPaths = {
    {{"auto", ReadPath::kAuto}, {"uring", ReadPath::kUring}, {"threads", ReadPath::kThreads}}};
constexpr std::array<Choice<bool>, 2> kOnOff = {{{"on", true}, {"off", false}}};
constexpr std::array<Choice<LogLevel>, 5> kLogLevels = {{{"trace", LogLevel::kTrace},
                                                         {"debug", LogLevel::kDebug},
                                                         {"info", LogLevel::kInfo},
                                                         {"warn", LogLevel::kWarn},
                                                         {"error", LogLevel::kError}}};

template <auto kMember, const auto& kChoices>
Status set_choice(Options& options, std::string_view name, std::string_view text) {
  std::string known;
  for (const auto& choice : kChoices) {
    if (choice.name == text) {
      options.*kMember = choice.value;
      return {};
    }
    known += (known.empty() ? "" : ", ") + std::string(choice.name);
  }
  return usage_error(std::string(name) + ": " + quoted(text) + " is none of " + known);
}

template <auto kMember, const auto& kChoices>
std::string get_choice(const Options& options) {
  for (const auto& choice : kChoices) {
    if (choice.value == options.*kMember) return std::string(choice.name);
  }
  return {};
}

template <auto kMember>
Status set_list(Options& options, std::string_view name, std::string_view text) {
  LLMD_ASSIGN_OR_RETURN(options.*kMember, parse_list(name, text));
  return {};
}

template <auto kMember>
std::string get_list(const Options& options) {
  return join_list(options.*kMember);
}

// --- the tables ----------------------------------------------------------------------------------------------------

constexpr std::array<CommandSpec, 8> kCommands = {{
    {Command::kServe, "serve", "", "serve a model over HTTP (the daemon)"},
    {Command::kPlan, "plan", "", "show how a model would fit into memory"},
    {Command::kInspect, "inspect", "FILE", "show what is in a model file"},
    {Command::kEval, "eval", "", "run a prompt and write its logits or a greedy continuation"},
    {Command::kBench, "bench", "decode|prefill|io|cache|chats",
     "measure the speed of generating, of reading a prompt or of the drive, or replay a trace"},
    {Command::kVerify, "verify", "FILE", "check every byte of a model against checksums made before"},
    {Command::kKv, "kv", "list|purge", "show or remove the contexts that a daemon keeps on disk"},
    {Command::kChat, "chat", "", "talk to a running daemon from this terminal"},
}};

constexpr uint32_t kServe = command_bit(Command::kServe), kPlan = command_bit(Command::kPlan),
                   kInspect = command_bit(Command::kInspect), kEval = command_bit(Command::kEval),
                   kBench = command_bit(Command::kBench), kVerify = command_bit(Command::kVerify),
                   kKv = command_bit(Command::kKv), kChat = command_bit(Command::kChat),
                   kEngine = kServe | kPlan | kEval | kBench;
constexpr bool kSetting = true, kFlagOnly = false;
constexpr int64_t kTokensMax = 1 << 24, kSamplingMax = std::numeric_limits<int32_t>::max();
constexpr std::string_view kSamplingTable = "sampling-";

using enum ValueKind;
constexpr std::array kOptions = std::to_array<OptionSpec>({
    {"model", "FILE", kText, kEngine, kSetting, "", "the model: a GGUF file, or any shard of a split one",
     set_path<&Options::model>, get_text<&Options::model>},
    {"memory", "SIZE", kSize, kEngine, kSetting, "auto",
     "ceiling on everything llmd uses: weights, experts, context, buffers", set_auto_size<&Options::memory_bytes>,
     get_auto_size<&Options::memory_bytes>},
    {"ctx", "N", kInteger, kEngine, kSetting, "auto", "longest context in tokens (auto: as trained, at most 32768)",
     set_auto_integer<&Options::context_tokens, 1, kTokensMax>, get_auto_integer<&Options::context_tokens>},
    {"threads", "N", kInteger, kEngine, kSetting, "auto", "compute threads (auto: one for each physical core)",
     set_auto_integer<&Options::threads, 1, 1024>, get_auto_integer<&Options::threads>},
    {"kv-type", "TYPE", kText, kEngine, kSetting, "f16", "how the context is stored: f16, q8_0, bf16 or f32",
     set_choice<&Options::kv_type, kKvTypes>, get_choice<&Options::kv_type, kKvTypes>},
    {"kv-memory", "SIZE", kSize, kEngine, kSetting, "auto",
     "part of the memory for contexts (auto: one full context, or a tenth if that is more)",
     set_auto_size<&Options::kv_memory_bytes>, get_auto_size<&Options::kv_memory_bytes>},
    {"kv-store", "DIR", kText, kServe | kKv, kSetting, "", "where contexts are kept over restarts (otherwise nowhere)",
     set_path<&Options::kv_store>, get_text<&Options::kv_store>},
    {"kv-store-size", "SIZE", kSize, kServe, kSetting, "64G",
     "how much may lie there; what was used longest ago goes first", set_size<&Options::kv_store_bytes>,
     get_size<&Options::kv_store_bytes>},
    {"older-than", "AGE", kText, kKv, kFlagOnly, "", "purge: only what was not used for so long: 90s, 30m, 12h, 7d",
     set_age<&Options::older_than_s>, nullptr},
    {"prefill-chunk", "N", kInteger, kEngine, kSetting, "auto", "prompt tokens that share one sweep over the experts",
     set_auto_integer<&Options::prefill_chunk, 1, kTokensMax>, get_auto_integer<&Options::prefill_chunk>},
    {"io", "PATH", kText, kEngine | kVerify, kSetting, "auto", "how experts are read: uring, threads, or auto",
     set_choice<&Options::read_path, kReadPaths>, get_choice<&Options::read_path, kReadPaths>},
    {"checksums", "FILE", kText, kEngine | kVerify, kSetting, "",
     "the model's checksums (otherwise beside it: MODEL.gguf.crc)", set_path<&Options::checksums_file>,
     get_text<&Options::checksums_file>},
    {"verify-reads", "RATE", kShare, kEngine, kSetting, "0",
     "share of expert reads to compare with the checksums, 0 to 1", set_share<&Options::verify_reads>,
     get_share<&Options::verify_reads>},
    {"write", "", kSwitch, kVerify, kFlagOnly, "", "make the file of checksums, in place of checking against it",
     set_switch<&Options::write_checksums>, nullptr},
    {"prefetch", "on|off", kText, kServe | kEval | kBench, kSetting, "off",
     "read experts that the next layer may want while the drive is idle", set_choice<&Options::prefetch, kOnOff>,
     get_choice<&Options::prefetch, kOnOff>},
    {"read-timeout", "N", kInteger, kServe | kEval | kBench, kSetting, "120",
     "seconds after which a request gives up a read without an answer (0: never)",
     set_integer<&Options::read_timeout_seconds, 0, 86400>, get_integer<&Options::read_timeout_seconds>},
    {"override-kv", "KEY=VALUE", kList, kEngine, kSetting, "", "replace a metadata value of the file; may be repeated",
     add_override, nullptr},
    {"listen", "HOST:PORT", kText, kServe, kSetting, "127.0.0.1:8080",
     "where to serve, separated by commas: port 0 is a free one, unix:PATH a file", set_listen, get_listen},
    {"socket-mode", "MODE", kText, kServe, kSetting, "0660", "who may use a socket file: its mode, in octal",
     set_socket_mode, get_socket_mode},
    {"api-key-file", "FILE", kText, kServe | kChat, kSetting, "",
     "keys that clients need, one a line (also the systemd credential llmd-api-keys)", set_path<&Options::api_key_file>,
     get_text<&Options::api_key_file>},
    {"insecure-listen", "on|off", kText, kServe, kSetting, "off",
     "serve without keys on addresses that other machines reach", set_choice<&Options::insecure_listen, kOnOff>,
     get_choice<&Options::insecure_listen, kOnOff>},
    {"allowed-hosts", "NAME,...", kText, kServe, kSetting, "",
     "names besides localhost that clients may call a loopback address (*: any)", set_list<&Options::allowed_hosts>,
     get_list<&Options::allowed_hosts>},
    {"cors-origins", "URL,...", kText, kServe, kSetting, "", "whose web pages may use the server (*: anyone's)",
     set_list<&Options::cors_origins>, get_list<&Options::cors_origins>},
    {"alias", "NAME,...", kText, kServe, kSetting, "", "the model's names in the API (otherwise its own)",
     set_list<&Options::aliases>, get_list<&Options::aliases>},
    {"any-model", "on|off", kText, kServe, kSetting, "off", "answer whatever model a request names",
     set_choice<&Options::any_model, kOnOff>, get_choice<&Options::any_model, kOnOff>},
    {"strict-params", "on|off", kText, kServe, kSetting, "off",
     "refuse requests with unknown fields, in place of ignoring those", set_choice<&Options::strict_params, kOnOff>,
     get_choice<&Options::strict_params, kOnOff>},
    {"slots", "on|off", kText, kServe, kSetting, "off", "show at /slots what runs", set_choice<&Options::slots, kOnOff>,
     get_choice<&Options::slots, kOnOff>},
    {"chat-template", "FILE", kText, kServe, kSetting, "", "a Jinja chat template instead of the model's own",
     set_path<&Options::chat_template_file>, get_text<&Options::chat_template_file>},
    {"sampling-temperature", "N", kNumber, kServe, kSetting, "auto",
     "for requests that do not say: 0 to 2 (auto: as the model file recommends, else 0.8)",
     set_number<&Options::sampling_temperature, 0, 2>, get_number<&Options::sampling_temperature>},
    {"sampling-top-k", "N", kInteger, kServe, kSetting, "auto", "the same for top_k, 0: off (40)",
     set_auto_integer<&Options::sampling_top_k, 0, kSamplingMax>, get_auto_integer<&Options::sampling_top_k>},
    {"sampling-top-p", "N", kNumber, kServe, kSetting, "auto", "the same for top_p, 1: off (0.95)",
     set_number<&Options::sampling_top_p, 0, 1, false>, get_number<&Options::sampling_top_p>},
    {"sampling-min-p", "N", kNumber, kServe, kSetting, "auto", "the same for min_p, 0: off (0.05)",
     set_number<&Options::sampling_min_p, 0, 1>, get_number<&Options::sampling_min_p>},
    {"sampling-typical-p", "N", kNumber, kServe, kSetting, "auto", "the same for typical_p (1: off)",
     set_number<&Options::sampling_typical_p, 0, 1, false>, get_number<&Options::sampling_typical_p>},
    {"sampling-repeat-penalty", "N", kNumber, kServe, kSetting, "auto", "the same for repeat_penalty (1: off)",
     set_number<&Options::sampling_repeat_penalty, 0, 10, false>, get_number<&Options::sampling_repeat_penalty>},
    {"sampling-repeat-last-n", "N", kInteger, kServe, kSetting, "auto",
     "the same for repeat_last_n: the tokens that penalties see, -1: all (64)",
     set_auto_integer<&Options::sampling_repeat_last_n, -1, kSamplingMax>,
     get_auto_integer<&Options::sampling_repeat_last_n>},
    {"sampling-presence-penalty", "N", kNumber, kServe, kSetting, "auto", "the same for presence_penalty (0)",
     set_number<&Options::sampling_presence_penalty, -2, 2>, get_number<&Options::sampling_presence_penalty>},
    {"sampling-frequency-penalty", "N", kNumber, kServe, kSetting, "auto", "the same for frequency_penalty (0)",
     set_number<&Options::sampling_frequency_penalty, -2, 2>, get_number<&Options::sampling_frequency_penalty>},
    {"drain-seconds", "N", kInteger, kServe, kSetting, "20", "how long running answers may go on after SIGTERM",
     set_integer<&Options::drain_seconds, 0, 86400>, get_integer<&Options::drain_seconds>},
    {"state-dir", "DIR", kText, kServe, kSetting, "",
     "where to keep the learnt use of experts (otherwise $STATE_DIRECTORY, or nowhere)",
     set_path<&Options::state_directory>, get_text<&Options::state_directory>},
    {"log-level", "LEVEL", kText, kEngine, kSetting, "info", "trace, debug, info, warn or error",
     set_choice<&Options::log_level, kLogLevels>, get_choice<&Options::log_level, kLogLevels>},
    {"config", "FILE", kText, kEngine, kFlagOnly, "", "read settings from this TOML file",
     set_path<&Options::config_file>, nullptr},
    {"check-config", "", kSwitch, kServe, kFlagOnly, "", "check the settings and the files they name, and stop",
     set_switch<&Options::check_config>, nullptr},
    {"print-config", "", kSwitch, kServe, kFlagOnly, "", "print the settings in effect as a config file, and stop",
     set_switch<&Options::print_config>, nullptr},
    {"measure", "", kSwitch, kPlan, kFlagOnly, "", "measure the drive and the processor, and predict the speed",
     set_switch<&Options::measure>, nullptr},
    {"tokens", "A,B,...", kText, kEval, kFlagOnly, "", "the prompt as token ids", set_tokens, nullptr},
    {"text", "STRING", kText, kEval, kFlagOnly, "", "the prompt as text", set_text<&Options::text>, nullptr},
    {"file", "FILE", kText, kEval, kFlagOnly, "", "the prompt as a text file", set_path<&Options::text_file>, nullptr},
    {"logits", "FILE", kText, kEval, kFlagOnly, "", "write the logits of every token: .npy, float32 [tokens, vocab]",
     set_path<&Options::logits_file>, nullptr},
    {"greedy", "N", kInteger, kEval, kFlagOnly, "0", "then generate N tokens, always the likeliest",
     set_integer<&Options::greedy_tokens, 0, kTokensMax>, nullptr},
    {"tokens", "N", kInteger, kBench, kFlagOnly, "auto", "how many tokens to decode or to prefill",
     set_auto_integer<&Options::bench_tokens, 1, kTokensMax>, nullptr},
    {"tokens-file", "FILE", kText, kBench, kFlagOnly, "", "feed the token ids of this file (otherwise a fixed list)",
     set_path<&Options::tokens_file>, nullptr},
    {"depth", "N", kInteger, kBench, kFlagOnly, "0", "pseudo-random tokens in context beforehand",
     set_integer<&Options::depth, 0, kTokensMax>, nullptr},
    {"chats", "N", kInteger, kBench, kFlagOnly, "4", "chats: how many conversations share the steps",
     set_integer<&Options::chats, 1, kDecodeRowsMax>, nullptr},
    {"trace", "FILE", kText, kBench, kFlagOnly, "",
     "decode, prefill, chats: record which experts are wanted; cache: the record to replay",
     set_path<&Options::trace_file>, nullptr},
    {"url", "URL", kText, kChat, kFlagOnly, "http://127.0.0.1:8080", "where the daemon listens",
     set_text<&Options::url>, nullptr},
    {"json", "", kSwitch, kPlan | kInspect | kEval | kBench | kKv, kFlagOnly, "", "print one JSON object",
     set_switch<&Options::json>, nullptr},
});

}  // namespace

std::span<const CommandSpec> command_table() {
  return kCommands;
}
std::span<const OptionSpec> option_table() {
  return kOptions;
}

const CommandSpec* find_command(std::string_view name) {
  const auto found = std::find_if(kCommands.begin(), kCommands.end(), [&](const auto& c) { return c.name == name; });
  return found == kCommands.end() ? nullptr : &*found;
}

const CommandSpec& command_spec(Command command) {
  const auto found =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const auto& c) { return c.command == command; });
  LLMD_CHECK(found != kCommands.end());
  return *found;
}

std::string environment_name(const OptionSpec& spec) {
  std::string name = "LLMD_";
  for (const char c : spec.flag) name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string config_key(const OptionSpec& spec) {
  std::string key(spec.flag);
  std::replace(key.begin(), key.end(), '-', '_');
  if (spec.flag.substr(0, kSamplingTable.size()) == kSamplingTable) key[kSamplingTable.size() - 1] = '.';
  return key;
}

}  // namespace llmd
