// LoadedModel: from the options of a command to a model in memory. Shared by serve, plan, eval and bench.
//
// open_model() reads metadata, applies overrides, checks and plans; load_model() goes on to read the weights. Called by
// the main thread (serve: by its loading thread). Errors are those of the parts.
#pragma once

#include <memory>
#include <string>

#include "daemon/options.h"
#include "model/gguf/gguf.h"
#include "model/runtime.h"
#include "model/tokenizer/tokenizer.h"

namespace llmd {

struct LoadedModel {
  std::unique_ptr<GgufModel> gguf;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Tokenizer> tokenizer;  // set by load_model()
  std::string memory_source;             // where an automatic budget came from; empty: the option
  bool threads_asked_for = false;        // --io threads
};

/// `http_bytes`: what the command's HTTP side may take of the budget.
Result<LoadedModel> open_model(const Options& options, uint64_t http_bytes, ReaderMaker make_reader = {});
/// The calling thread leads the steps afterwards and is pinned. `need_tokenizer` false lets a model without a usable
/// vocabulary run on token ids.
Status load_model(LoadedModel& model, bool need_tokenizer, const Runtime::ProgressFn& progress);
/// Writes the notes, warnings and the diagnosis of a loaded model to the log.
void log_notes(const LoadedModel& model);
/// What --io asks for, as the reader takes it.
ReaderOptions::Path reader_path(ReadPath path);
/// "llmd: message" on stderr; returns 1.
int report(const Error& error);

}  // namespace llmd
