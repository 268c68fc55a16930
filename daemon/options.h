// Options: what a person may decide, typed and checked. One struct for every command of the program.
//
// parse_options() reads, in rising precedence, the defaults, the TOML file named by --config, the LLMD_* environment
// and the command line; daemon/option_table.cc is the one list of all of them. It is called once, from main, before any
// thread starts; afterwards Options is a plain value that is only read.
// Errors carry one of two codes, each with a message that names the flag, variable or file:line and the cure:
// "usage" (the command line is wrong: exit 2) and "config_invalid" (the file or the environment is: exit 78, which
// tells systemd not to restart). An empty optional means "auto": the planner decides from the model and the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/result.h"
#include "model/kernels/kernels.h"

namespace llmd {

enum class Command { kHelp, kVersion, kServe, kPlan, kInspect, kEval, kBench, kVerify, kKv, kChat };
enum class ReadPath { kAuto, kUring, kThreads };
enum class BenchMode { kDecode, kPrefill, kIo, kCache, kChats };
enum class KvAction { kList, kPurge };
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };

/// An address to listen on. Port 0 asks the kernel for a free one.
struct ListenAddress {
  std::string host = "127.0.0.1";  // IPv4, IPv6 without brackets, or a name
  uint16_t port = 8080;
  std::string unix_path;  // when not empty: a UNIX socket, and host and port do not count

  /// "HOST:PORT", "[IPV6]:PORT" or "unix:PATH", as --listen takes it.
  std::string to_string() const;
};

struct Options {
  Command command = Command::kHelp;
  std::optional<Command> help_topic;  // kHelp: the command to explain

  // The model and the machine: serve, plan, eval, bench (inspect and verify: some of them).
  std::string model;                                             // a GGUF file, or any shard of a split one
  std::vector<std::pair<std::string, std::string>> override_kv;  // GGUF metadata that replaces the file's: key, value
  std::optional<uint64_t> memory_bytes;   // the ceiling on everything; auto: from the machine or the cgroup
  std::optional<int32_t> context_tokens;  // auto: min(trained, 32,768)
  std::optional<int32_t> threads;         // auto: the physical cores
  KvType kv_type = KvType::kF16;
  std::optional<uint64_t> kv_memory_bytes;  // auto: max(one context, 10 % of the budget)
  std::optional<int32_t> prefill_chunk;     // tokens; auto: as many as the budget allows
  ReadPath read_path = ReadPath::kAuto;     // --io
  std::string checksums_file;               // empty: beside the model
  bool prefetch = false;                    // read experts of the next layer on a guess
  double verify_reads = 0;                  // share of expert reads to compare with the checksums, 0 to 1
  int32_t read_timeout_seconds = 120;       // a read older than this fails its request; 0: never

  // serve
  std::vector<ListenAddress> listen = {ListenAddress{}};
  uint32_t socket_mode = 0660;
  std::string api_key_file;      // also chat's; empty: $CREDENTIALS_DIRECTORY/llmd-api-keys, if it is there
  bool insecure_listen = false;  // no keys on addresses that other machines reach
  std::vector<std::string> allowed_hosts, cors_origins;
  std::vector<std::string> aliases;  // the first is the model's id in the API; none: general.name, else the file's stem
  bool any_model = false, strict_params = false, slots = false;
  std::string chat_template_file;                // Jinja; empty: the template in the model file
  int32_t drain_seconds = 20;                    // how long running answers may take after SIGTERM
  uint64_t kv_store_bytes = uint64_t{64} << 30;  // what may lie in kv_store
  std::string state_directory;                   // --state-dir; empty: $STATE_DIRECTORY, or nothing is kept
  // What holds where a request says nothing; auto: as the model file recommends, else llama.cpp's defaults.
  std::optional<double> sampling_temperature, sampling_top_p, sampling_min_p, sampling_typical_p;
  std::optional<double> sampling_repeat_penalty, sampling_presence_penalty, sampling_frequency_penalty;
  std::optional<int32_t> sampling_top_k, sampling_repeat_last_n;
  LogLevel log_level = LogLevel::kInfo;
  std::string config_file;
  bool check_config = false, print_config = false;

  bool measure = false;  // plan: measure drive and processor, and predict the speed

  // plan, inspect, eval, bench: one JSON object on stdout
  bool json = false;

  // eval: exactly one of the three sources
  std::optional<std::vector<int32_t>> tokens;
  std::optional<std::string> text;
  std::string text_file;
  std::string logits_file;    // .npy, float32 [tokens, vocab]; empty: not written
  int32_t greedy_tokens = 0;  // how many tokens to generate after the prompt

  // bench
  BenchMode bench_mode = BenchMode::kDecode;
  std::optional<int32_t> bench_tokens;  // how many; auto: the benchmark's own choice
  std::string tokens_file;              // token ids to feed, in place of the pseudo-random list
  int32_t depth = 0;                    // tokens already in context
  int32_t chats = 4;                    // conversations of bench chats
  std::string trace_file;               // decode, prefill: written; cache: read

  // verify
  bool write_checksums = false;  // make the file of checksums, in place of checking against it

  // kv, and the first also serve
  std::string kv_store;  // the directory of the KV store (kv/kv_store.h); empty: contexts are not kept
  KvAction kv_action = KvAction::kList;
  std::optional<int64_t> older_than_s;  // purge: only what was not used for so long

  // chat
  std::string url = "http://127.0.0.1:8080";
};

/// Looks up an environment variable; empty optional: not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
/// The environment of this process.
Environment process_environment();

/// Parses the arguments after the program's name. Reads the config file, nothing else.
Result<Options> parse_options(std::span<const std::string_view> arguments, const Environment& environment);

/// The exit status for an error of parse_options(): 2 for "usage", 78 for "config_invalid".
int exit_status(const Error& error);

/// What `llmd help [topic]` prints.
std::string help_text(std::optional<Command> topic);

/// The effective settings as a config file: parsing it again gives the same Options.
std::string config_text(const Options& options);

/// "64G", "512M", "1.5G", "4096": bytes, in powers of 1024 (K, M, G, T; a following "B" or "iB" is allowed). `name` is
/// the flag, for the message. Errors: "usage".
Result<uint64_t> parse_size(std::string_view name, std::string_view text);
/// A whole decimal number within [minimum, maximum]. Errors: "usage".
Result<int64_t> parse_integer(std::string_view name, std::string_view text, int64_t minimum, int64_t maximum);
/// A decimal number within [minimum, maximum], such as "0.7"; without `zero` it is not 0. Errors: "usage".
Result<double> parse_number(std::string_view name, std::string_view text, int minimum, int maximum, bool zero);
/// A decimal number from 0 to 1, such as "0.01". Errors: "usage".
Result<double> parse_share(std::string_view name, std::string_view text);

}  // namespace llmd
