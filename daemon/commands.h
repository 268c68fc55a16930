// The commands of the program, one function each; main.cc picks one.
//
// Each is called once, from the main thread, with checked options and logging already set up, and returns the exit
// status of the process: 0, or 1 after one line on stderr that says what went wrong and what to do. `serve` returns 78
// when the settings cannot work on this machine (the plan does not fit), which tells systemd not to restart.
#pragma once

#include <string>

#include "daemon/options.h"

namespace llmd {

int run_serve(const Options& options);
int run_plan(const Options& options);
int run_inspect(const std::string& path, bool json);
int run_eval(const Options& options);
int run_bench(const Options& options);
int run_bench_cache(const Options& options);
int run_bench_chats(const Options& options);
int run_bench_io(const Options& options);
int run_verify(const Options& options);
int run_kv(const Options& options);
int run_chat(const Options& options);

}  // namespace llmd
