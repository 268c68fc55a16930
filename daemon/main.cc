// llmd: parse the command line, set up the log, run one command.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "daemon/check_config.h"
#include "daemon/commands.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/version.h"

namespace llmd {
namespace {

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

int fail(const std::string& message, int status) {
  std::fprintf(stderr, "llmd: %s\n", escape_controls(message).c_str());
  return status;
}

int serve(const Options& options) {
  if (options.print_config) return print(config_text(options));
  if (options.check_config) {
    if (auto status = check_paths(options); !status) return fail(status.error().message, exit_status(status.error()));
    return print("the settings are in order\n");
  }
  return run_serve(options);
}

int dispatch(const Options& options) {
  switch (options.command) {
    case Command::kHelp:
      return print(help_text(options.help_topic));
    case Command::kVersion:
      return print("llmd " + std::string(kVersion) + "\n");
    case Command::kServe:
      return serve(options);
    case Command::kPlan:
      return run_plan(options);
    case Command::kInspect:
      return run_inspect(options.model, options.json);
    case Command::kEval:
      return run_eval(options);
    case Command::kBench:
      return run_bench(options);
    case Command::kVerify:
      return run_verify(options);
    case Command::kKv:
      return run_kv(options);
    case Command::kChat:
      return run_chat(options);
  }
  return 2;  // not reached: the parser knows no other command
}

int run(const std::vector<std::string_view>& arguments) {
  const Environment environment = process_environment();
  const auto options = parse_options(arguments, environment);
  if (!options) return fail(options.error().message, exit_status(options.error()));
  set_up_logging(options->log_level, environment);
  return dispatch(*options);
}

}  // namespace
}  // namespace llmd

int main(int argc, char** argv) {
  try {
    return llmd::run({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {  // of a library, or no memory; llmd's own code reports by Result
    std::fprintf(stderr, "llmd: %s\n", error.what());
    return 1;
  }
}
