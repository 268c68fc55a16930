#include "daemon/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "daemon/option_table.h"
#include "daemon/version.h"

namespace llmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

using Variables = std::map<std::string, std::string, std::less<>>;

Result<Options> parse(const std::vector<std::string_view>& arguments, const Variables& variables = {}) {
  return parse_options(arguments, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

Error parse_error(const std::vector<std::string_view>& arguments, const Variables& variables = {}) {
  const auto options = parse(arguments, variables);
  if (options.ok()) {
    ADD_FAILURE() << "expected an error";
    return {};
  }
  EXPECT_EQ(options.error().message.find('\n'), std::string::npos) << options.error().message;
  return options.error();
}

/// A config file that is gone at the end of the test.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_(::testing::TempDir() + "llmd_options_test_" + std::to_string(getpid()) + ".conf") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Options, TakesEveryServeFlag) {
  const auto options = parse({"serve",
                              "--model",
                              "m.gguf",
                              "--listen=0.0.0.0:9000",
                              "--memory",
                              "64G",
                              "--ctx",
                              "4096",
                              "--threads",
                              "8",
                              "--kv-type=q8_0",
                              "--kv-memory",
                              "2G",
                              "--prefill-chunk",
                              "512",
                              "--alias",
                              "tiny",
                              "--chat-template",
                              "t.jinja",
                              "--override-kv",
                              "a.b=1",
                              "--override-kv",
                              "c=x=y",
                              "--io",
                              "threads",
                              "--log-level",
                              "debug",
                              "--drain-seconds",
                              "5",
                              "--check-config",
                              "--print-config"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->command, Command::kServe);
  EXPECT_EQ(options->model, "m.gguf");
  EXPECT_EQ(options->listen[0].host, "0.0.0.0");
  EXPECT_EQ(options->listen[0].port, 9000);
  EXPECT_EQ(options->memory_bytes, 64ull << 30);
  EXPECT_EQ(options->context_tokens, 4096);
  EXPECT_EQ(options->threads, 8);
  EXPECT_EQ(options->kv_type, KvType::kQ8_0);
  EXPECT_EQ(options->kv_memory_bytes, 2ull << 30);
  EXPECT_EQ(options->prefill_chunk, 512);
  EXPECT_THAT(options->aliases, ElementsAre("tiny"));
  EXPECT_EQ(options->chat_template_file, "t.jinja");
  EXPECT_THAT(options->override_kv, ElementsAre(Pair("a.b", "1"), Pair("c", "x=y")));
  EXPECT_EQ(options->read_path, ReadPath::kThreads);
  EXPECT_EQ(options->log_level, LogLevel::kDebug);
  EXPECT_EQ(options->drain_seconds, 5);
  EXPECT_TRUE(options->check_config);
  EXPECT_TRUE(options->print_config);
}

TEST(Options, ListensOnASocketFile) {
  const auto options = parse({"serve", "--model", "m", "--listen", "unix:/run/llmd.sock"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->listen[0].unix_path, "/run/llmd.sock");
  EXPECT_THAT(config_text(*options), HasSubstr("listen = \"unix:/run/llmd.sock\"\n"));
  const std::string long_path = "unix:" + std::string(108, 'x');
  EXPECT_FALSE(parse({"serve", "--model", "m", "--listen", "unix:"}).ok());
  EXPECT_FALSE(parse({"serve", "--model", "m", "--listen", long_path}).ok());
}

TEST(Options, HasTheDocumentedDefaults) {
  const auto options = parse({"serve", "--model", "m.gguf"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->listen[0].host, "127.0.0.1");
  EXPECT_EQ(options->listen[0].port, 8080);
  EXPECT_FALSE(options->memory_bytes || options->context_tokens || options->threads || options->prefill_chunk);
  EXPECT_EQ(options->kv_type, KvType::kF16);
  EXPECT_EQ(options->read_path, ReadPath::kAuto);
}

TEST(Options, ShowsInTheHelpTheDefaultsThatHold) {
  Options defaults;
  for (const OptionSpec& spec : option_table()) {
    if (spec.get != nullptr && !spec.initial.empty()) {
      EXPECT_EQ(spec.get(defaults), spec.initial) << spec.flag;
    }
  }
}

TEST(Options, TakesTheOtherCommands) {
  const auto eval = parse({"eval", "--model", "m", "--tokens", "1,2,300", "--logits", "l.npy", "--greedy=7", "--json"});
  ASSERT_TRUE(eval.ok()) << eval.error().message;
  ASSERT_TRUE(eval->tokens.has_value());
  EXPECT_THAT(*eval->tokens, ElementsAre(1, 2, 300));
  EXPECT_EQ(eval->logits_file, "l.npy");
  EXPECT_EQ(eval->greedy_tokens, 7);
  EXPECT_TRUE(eval->json);
  const auto bench = parse({"bench", "prefill", "--model", "m", "--tokens", "64", "--depth", "128"});
  ASSERT_TRUE(bench.ok()) << bench.error().message;
  EXPECT_EQ(bench->bench_mode, BenchMode::kPrefill);
  EXPECT_EQ(bench->bench_tokens, 64);
  EXPECT_EQ(bench->depth, 128);
  const auto inspect = parse({"inspect", "--json", "m.gguf"});
  ASSERT_TRUE(inspect.ok()) << inspect.error().message;
  EXPECT_EQ(inspect->model, "m.gguf");
  const auto chat = parse({"chat", "--url", "http://host:1"});
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(chat->url, "http://host:1");
}

TEST(Options, FlagOutranksEnvironmentAndThatTheFile) {
  const ConfigFile file("model = \"file.gguf\"\nthreads = 3\nctx = 100\nmemory = \"1G\"\n");
  const Variables variables = {{"LLMD_THREADS", "4"}, {"LLMD_CTX", "200"}};
  const auto options = parse({"serve", "--config", file.path(), "--threads", "5"}, variables);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->model, "file.gguf");
  EXPECT_EQ(options->memory_bytes, 1ull << 30);
  EXPECT_EQ(options->context_tokens, 200);
  EXPECT_EQ(options->threads, 5);
}

TEST(Options, ReadsTheFileThatTheEnvironmentNames) {
  const ConfigFile file("model = \"file.gguf\"\n");
  const auto options = parse({"plan"}, {{"LLMD_CONFIG", file.path()}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->model, "file.gguf");
}

TEST(Options, ReplacesAListByThatOfAStrongerSource) {
  const ConfigFile file("model = \"m\"\noverride_kv = [\"a=1\", \"b=2\"]\n");
  const auto from_file = parse({"serve", "--config", file.path()});
  ASSERT_TRUE(from_file.ok()) << from_file.error().message;
  EXPECT_THAT(from_file->override_kv, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  const auto from_environment = parse({"serve", "--config", file.path()}, {{"LLMD_OVERRIDE_KV", "c=3;d=4"}});
  ASSERT_TRUE(from_environment.ok()) << from_environment.error().message;
  EXPECT_THAT(from_environment->override_kv, ElementsAre(Pair("c", "3"), Pair("d", "4")));
  const auto from_flag =
      parse({"serve", "--config", file.path(), "--override-kv", "e=5"}, {{"LLMD_OVERRIDE_KV", "c=3"}});
  ASSERT_TRUE(from_flag.ok());
  EXPECT_THAT(from_flag->override_kv, ElementsAre(Pair("e", "5")));
}

TEST(Options, LeavesWhatACommandDoesNotUse_WhenTheFileServesSeveral) {
  const ConfigFile file("model = \"m\"\nlisten = \"127.0.0.1:9999\"\n");
  const auto options = parse({"eval", "--config", file.path(), "--text", "hi"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->model, "m");
  EXPECT_EQ(options->listen[0].port, 8080);
}

TEST(Options, PrintsAConfigThatReadsBackTheSame) {
  const auto first = parse({"serve", "--model", "a \"quoted\"\\\n.gguf", "--memory", "1.5G", "--threads", "2",
                            "--listen", "[::1]:0", "--override-kv", "k=\"v\"", "--kv-type", "bf16", "--alias", "x"});
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string text = config_text(*first);
  EXPECT_THAT(text, HasSubstr("memory = \"1536M\"\n"));
  EXPECT_THAT(text, HasSubstr("threads = 2\n"));
  EXPECT_THAT(text, HasSubstr("ctx = \"auto\"\n"));
  EXPECT_THAT(text, HasSubstr("listen = \"[::1]:0\"\n"));
  const ConfigFile file(text);
  const auto second = parse({"serve", "--config", file.path()});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->model, first->model);
  EXPECT_EQ(config_text(*second), text);
}

TEST(Options, RefusesABadFlagWithItsCure) {
  const struct {
    std::vector<std::string_view> arguments;
    const char* message;
  } cases[] = {
      {{}, "llmd --help"},
      {{"server"}, "did you mean llmd serve?"},
      {{"frobnicate"}, "llmd --help"},
      {{"serve"}, "--model FILE"},
      {{"serve", "--memroy", "1G"}, "did you mean --memory?"},
      {{"serve", "--greedy", "1"}, "it belongs to llmd eval"},
      {{"serve", "--zzzzzzzz"}, "llmd help serve"},
      {{"serve", "-m", "x"}, "no short flags"},
      {{"serve", "--model"}, "--model needs a value: --model FILE"},
      {{"serve", "--model", "--memory", "1G"}, "write --model=..."},
      {{"serve", "--model", ""}, "the path is empty"},
      {{"serve", "--model", "m", "extra"}, "\"extra\" is one argument too many"},
      {{"serve", "--model", "m", "--check-config=yes"}, "--check-config takes no value"},
      {{"serve", "--model", "m", "--threads", "0"}, "--threads: \"0\" is out of range; give a number from 1 to 1024"},
      {{"serve", "--model", "m", "--threads", "-1"}, "--threads: \"-1\" is out of range"},
      {{"serve", "--model", "m", "--threads", "4x"}, "--threads: \"4x\" is not a whole number"},
      {{"serve", "--model", "m", "--threads", " 4"}, "is not a whole number"},
      {{"serve", "--model", "m", "--threads", ""}, "is not a whole number"},
      {{"serve", "--model", "m", "--ctx", "99999999999999999999"}, "--ctx: \"99999999999999999999\" is out of range"},
      {{"serve", "--model", "m", "--memory", "64Q"}, "--memory: \"64Q\" is not a size"},
      {{"serve", "--model", "m", "--memory", "0"}, "--memory: a size of 0"},
      {{"serve", "--model", "m", "--kv-memory", "some"}, "--kv-memory: \"some\" is not a size"},
      {{"serve", "--model", "m", "--kv-type", "q4"}, "--kv-type: \"q4\" is none of f16, q8_0, bf16, f32"},
      {{"serve", "--model", "m", "--io", "mmap"}, "--io: \"mmap\" is none of auto, uring, threads"},
      {{"serve", "--model", "m", "--listen", "8080"}, "is not HOST:PORT"},
      {{"serve", "--model", "m", "--listen", "::1:8080"}, "[::1]:8080 for IPv6"},
      {{"serve", "--model", "m", "--listen", "localhost:70000"}, "--listen: \"70000\" is out of range"},
      {{"serve", "--model", "m", "--override-kv", "novalue"}, "is not KEY=VALUE"},
      {{"serve", "--model", "m", "--memory", "1G", "--kv-memory", "1G"}, "--kv-memory is not smaller than memory"},
      {{"eval", "--model", "m"}, "exactly one prompt"},
      {{"eval", "--model", "m", "--text", "a", "--file", "b"}, "exactly one prompt"},
      {{"eval", "--model", "m", "--tokens", "1,,2"}, "--tokens: \"\" is not a whole number"},
      {{"eval", "--model", "m", "--tokens", "1,-2"}, "--tokens: \"-2\" is out of range"},
      {{"bench", "--model", "m"}, "llmd bench needs decode|prefill|io|cache|chats"},
      {{"bench", "swim", "--model", "m"}, "\"swim\" is none of decode, prefill, io, cache, chats"},
      {{"bench", "cache", "--model", "m"}, "llmd bench cache needs a trace"},
      {{"eval", "--model", "m", "--text", "a", "--chat-template", "f"}, "it belongs to llmd serve"},
      {{"inspect"}, "llmd inspect needs FILE"},
      {{"help", "nothing"}, "no command \"nothing\""},
  };
  for (const auto& item : cases) {
    const Error error = parse_error(item.arguments);
    EXPECT_THAT(error.message, HasSubstr(item.message));
    EXPECT_EQ(exit_status(error), 2) << error.message;
  }
}

TEST(Options, RefusesABadFileWithItsLine) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"model = \"m\"\n\nmemroy = \"1G\"\n", ":3: no setting is called \"memroy\"; did you mean memory?"},
      {"model = \"m\"\n[kv]\ntype = \"f16\"\n", ":3: no setting is called \"kv.type\""},
      {"model = \"m\"\njson = true\n", ":2: no setting is called \"json\""},
      {"# c\nthreads = \"4\"\n", ":2: threads is a string; it takes an integer or \"auto\""},
      {"drain_seconds = \"auto\"\n", ":1: drain_seconds"},
      {"threads = 4.5\n", ":1: threads is a number with a fraction"},
      {"\n\nthreads = 0\n", ":3: threads: \"0\" is out of range"},
      {"memory = true\n", ":1: memory is a boolean; it takes a size"},
      {"memory = \"64X\"\n", ":1: memory: \"64X\" is not a size"},
      {"memory = 99999999999999999999\n", ":1: memory"},
      {"model = 7\n", ":1: model is an integer; it takes a string"},
      {"override_kv = \"a=1\"\n", ":1: override_kv is a string; it takes an array of strings"},
      {"override_kv = [1]\n", ":1: override_kv is an array; it takes an array of strings"},
      {"model = \"m\"\nthreads = = 3\n", ":2: "},
      {"model = \"m\"\nmodel = \"n\"\n", ":2: value (\"model\") already exists"},
      {"threads = 4\n", "no model is set"},
      {"", "no model is set"},
      {"model = \"m\"\nmemory = \"1G\"\nkv_memory = \"2G\"\n", "kv-memory is not smaller than memory"},
  };
  for (const auto& item : cases) {
    const ConfigFile file(item.text);
    const Error error = parse_error({"serve", "--config", file.path()});
    EXPECT_THAT(error.message, HasSubstr(file.path() + (item.message[0] == ':' ? item.message : "")));
    EXPECT_THAT(error.message, HasSubstr(item.message));
    EXPECT_THAT(error.message, Not(HasSubstr("toml::")));
    EXPECT_EQ(exit_status(error), 78) << error.message;
  }
}

TEST(Options, TakesAShareFromEverySource) {
  EXPECT_EQ(parse({"serve", "--model", "m"})->verify_reads, 0);
  EXPECT_EQ(parse({"serve", "--model", "m", "--verify-reads", "0.25"})->verify_reads, 0.25);
  EXPECT_EQ(parse({"eval", "--model", "m", "--text", "a"}, {{"LLMD_VERIFY_READS", "1"}})->verify_reads, 1);
  for (const auto& [text, share] : {std::pair("0.001", 0.001), {"1", 1.0}, {"1e-3", 0.001}, {"0.0", 0.0}}) {
    const ConfigFile file("model = \"m\"\nverify_reads = " + std::string(text) + "\n");
    const auto options = parse({"serve", "--config", file.path()});
    ASSERT_TRUE(options.ok()) << options.error().message;
    EXPECT_EQ(options->verify_reads, share);
    const ConfigFile printed(config_text(*options));
    EXPECT_EQ(parse({"serve", "--config", printed.path()})->verify_reads, share);
  }
  for (const char* text : {"", "-0.1", "1.01", "2", "half", "0.1x", "nan", "inf", "1e-3"})
    EXPECT_THAT(parse_error({"serve", "--model", "m", std::string("--verify-reads=") + text}).message,
                HasSubstr("is not a share; give a number from 0 to 1"));
  for (const char* text : {"1.5", "nan", "\"0.5\""}) {
    const ConfigFile file("verify_reads = " + std::string(text) + "\n");
    EXPECT_THAT(parse_error({"serve", "--config", file.path()}).message, HasSubstr(":1: verify_reads"));
  }
}

TEST(Options, TakesSamplingDefaults_FromFlagEnvironmentAndTable) {
  const auto none = parse({"serve", "--model", "m"});
  EXPECT_FALSE(none->sampling_temperature || none->sampling_top_k || none->sampling_presence_penalty);
  const ConfigFile file(
      "model = \"m\"\n[sampling]\ntemperature = 0.5\ntop_k = 20\ntop_p = 1\nrepeat_last_n = -1\nmin_p = \"auto\"\n"
      "presence_penalty = -1.5\n");
  const auto options =
      parse({"serve", "--config", file.path(), "--sampling-top-k", "0"}, {{"LLMD_SAMPLING_REPEAT_PENALTY", "1.1"}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->sampling_temperature, 0.5);
  EXPECT_EQ(options->sampling_top_k, 0);
  EXPECT_EQ(options->sampling_top_p, 1);
  EXPECT_EQ(options->sampling_repeat_last_n, -1);
  EXPECT_FALSE(options->sampling_min_p.has_value());
  EXPECT_EQ(options->sampling_presence_penalty, -1.5);
  EXPECT_EQ(options->sampling_repeat_penalty, 1.1);
  EXPECT_THAT(config_text(*options), HasSubstr("sampling.temperature = 0.5\n"));
  EXPECT_THAT(config_text(*options), HasSubstr("sampling.min_p = \"auto\"\n"));
  const ConfigFile printed(config_text(*options));
  const auto again = parse({"serve", "--config", printed.path()});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(config_text(*again), config_text(*options));
}

TEST(Options, RefusesSamplingDefaultsOutOfRange) {
  for (const char* flag :
       {"--sampling-temperature=2.1", "--sampling-top-k=-1", "--sampling-top-p=0", "--sampling-min-p=1.5",
        "--sampling-typical-p=0", "--sampling-repeat-penalty=0", "--sampling-repeat-last-n=-2",
        "--sampling-presence-penalty=3", "--sampling-frequency-penalty=x"})
    EXPECT_FALSE(parse({"serve", "--model", "m", flag}).ok()) << flag;
  const ConfigFile text("[sampling]\ntemperature = \"0.5\"\n");
  EXPECT_THAT(parse_error({"serve", "--config", text.path()}).message,
              HasSubstr(":2: sampling.temperature is a string; it takes a number"));
  const ConfigFile unknown("[sampling]\ntemprature = 1\n");
  EXPECT_THAT(parse_error({"serve", "--config", unknown.path()}).message,
              HasSubstr("did you mean sampling.temperature"));
}

TEST(Options, TakesVerifyFlags) {
  const auto options = parse({"verify", "m.gguf", "--write", "--checksums", "sums", "--io", "threads"});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->command, Command::kVerify);
  EXPECT_EQ(options->model, "m.gguf");
  EXPECT_TRUE(options->write_checksums);
  EXPECT_EQ(options->checksums_file, "sums");
  EXPECT_EQ(options->read_path, ReadPath::kThreads);
  EXPECT_THAT(parse_error({"verify"}).message, HasSubstr("llmd verify needs FILE"));
  EXPECT_THAT(parse_error({"serve", "--model", "m", "--write"}).message, HasSubstr("it belongs to llmd verify"));
}

TEST(Options, RefusesAFileThatWouldExhaustTheParser) {
  const std::string texts[] = {"a = " + std::string(3000, '[') + "\n", std::string(200000, '.') + "\n",
                               "a = \"" + std::string(2 << 20, 'x') + "\"\n", [] {
                                 std::string lines = "a = [\n";
                                 for (int i = 0; i < 50000; ++i) lines += "[\n";
                                 return lines;
                               }()};
  for (const std::string& text : texts) {
    const ConfigFile file(text);
    EXPECT_EQ(exit_status(parse_error({"serve", "--config", file.path()})), 78);
  }
}

TEST(Options, RefusesAFileThatIsNotThere) {
  const Error error = parse_error({"serve", "--config", "/nonexistent/llmd.conf"});
  EXPECT_THAT(error.message, HasSubstr("/nonexistent/llmd.conf: cannot open the config file"));
  EXPECT_EQ(exit_status(error), 78);
  EXPECT_EQ(exit_status(parse_error({"serve", "--config", "/"})), 78);
}

TEST(Options, RefusesABadVariableByItsName) {
  const Error error = parse_error({"serve", "--model", "m"}, {{"LLMD_KV_TYPE", "q4"}});
  EXPECT_THAT(error.message, HasSubstr("LLMD_KV_TYPE: \"q4\" is none of"));
  EXPECT_EQ(exit_status(error), 78);
}

TEST(Options, AllowsAnEmptyVariableAndForeignOnes) {
  EXPECT_TRUE(parse({"serve", "--model", "m"}, {{"LLMD_THREADS", ""}, {"LLMD_CPU", "scalar"}}).ok());
}

TEST(Options, KeepsControlCharactersOutOfItsMessages) {
  const Error error = parse_error({"serve", "--model", "m", "--threads", "1\n\x1b[31m"});
  EXPECT_THAT(error.message, HasSubstr("\"1??[31m\""));
}

TEST(ParseSize, TakesBytesUnitsAndFractions) {
  const std::pair<const char*, uint64_t> cases[] = {{"1", 1},
                                                    {"4096", 4096},
                                                    {"1K", 1024},
                                                    {"1k", 1024},
                                                    {"512M", 512ull << 20},
                                                    {"64G", 64ull << 30},
                                                    {"64GiB", 64ull << 30},
                                                    {"64GB", 64ull << 30},
                                                    {"2T", 2ull << 40},
                                                    {"1.5G", 3ull << 29},
                                                    {"0.5K", 512},
                                                    {"10B", 10},
                                                    {"0", 0},
                                                    {"1048576T", 1ull << 60}};
  for (const auto& [text, bytes] : cases) {
    const auto size = parse_size("--x", text);
    ASSERT_TRUE(size.ok()) << size.error().message;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", "G", "-1G", "+1", "1 G", "1.G", "1.5", ".5G", "1e3", "1GG", "1Gi", "0x10", "1.0000001G",
                           "1048577T", "18446744073709551616", "99999999999999999999999G", "64g b", "\n"}) {
    EXPECT_FALSE(parse_size("--x", text).ok()) << text;
  }
}

TEST(ParseSize, ReadsWhatFormatSizeWrites) {
  for (const uint64_t bytes : {1ull, 1023ull, 1024ull, 1536ull, 64ull << 30, 3ull << 29, (1ull << 40) + 1}) {
    EXPECT_EQ(*parse_size("--x", format_size(bytes)), bytes);
  }
}

TEST(Help, NamesEveryFlagOfACommandAndNoOther) {
  const std::string serve = help_text(Command::kServe);
  for (const OptionSpec& spec : option_table()) {
    const std::string flag =
        "  --" + std::string(spec.flag) + (spec.value.empty() ? " " : " " + std::string(spec.value));
    if ((spec.commands & command_bit(Command::kServe)) != 0) {
      EXPECT_THAT(serve, HasSubstr(flag));
    } else {
      EXPECT_THAT(serve, Not(HasSubstr(flag)));
    }
  }
}

TEST(Help, FitsA120ColumnTerminal) {
  std::string all = help_text(std::nullopt);
  for (const CommandSpec& spec : command_table()) all += help_text(spec.command);
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Help, NamesEveryCommand) {
  for (const CommandSpec& spec : command_table())
    EXPECT_THAT(help_text(std::nullopt), HasSubstr("\n  " + std::string(spec.name) + " "));
}

TEST(Help, IsReachedByEveryUsualSpelling) {
  for (const std::vector<std::string_view>& arguments :
       {std::vector<std::string_view>{"help", "serve"}, {"serve", "--help"}, {"serve", "--model", "m", "-h"}}) {
    const auto options = parse(arguments);
    ASSERT_TRUE(options.ok()) << options.error().message;
    EXPECT_EQ(options->command, Command::kHelp);
    EXPECT_EQ(options->help_topic, Command::kServe);
  }
  EXPECT_EQ(parse({"--help"})->command, Command::kHelp);
  EXPECT_EQ(parse({"--version"})->command, Command::kVersion);
}

TEST(Version, IsThatOfTheBuild) {
  std::ifstream file(LLMD_SOURCE_DIR "/CMakeLists.txt");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("project(llmd VERSION " + std::string(kVersion) + " "));
}

}  // namespace
}  // namespace llmd
