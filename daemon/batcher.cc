#include "daemon/batcher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace llmd {
namespace {

constexpr double kProgressSeconds = 1;  // between reports of a chunk's progress

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

/// Takes each row's logits to its request's sampler.
class Batcher::RowSink final : public LogitsSink {
 public:
  RowSink(std::span<const Row> rows, std::span<Request* const> requests) : rows_(rows), requests_(requests) {}

  void on_logits(size_t row, std::span<const float> logits) override {
    for (Request* request : requests_) {
      if (request->sequence.get() != rows_[row].sequence) continue;
      sample(*request, logits);
      for (const std::unique_ptr<Request>& other : request->others) sample(*other, logits);
      return;
    }
  }

 private:
  static void sample(Request& request, std::span<const float> logits) {
    request.sampled = request.sampler->sample(logits, request.tokens, request.generated());
    if (request.request.top_logprobs)
      request.logprobs = token_logprobs(logits, *request.sampled, *request.request.top_logprobs);
  }

  std::span<const Row> rows_;
  std::span<Request* const> requests_;
};

Batcher::Batcher(const LoadedModel& model, KvStore* store)
    : runtime_(*model.runtime),
      tokenizer_(*model.tokenizer),
      store_(store),
      context_tokens_(runtime_.plan().context_tokens),
      sampler_workspace_(runtime_.shape().vocab) {
  for (int32_t id = 0; id < tokenizer_.vocab_size(); id++)
    if (tokenizer_.is_end_of_generation(id)) end_ids_.push_back(id);
  size_t rows = static_cast<size_t>(runtime_.step().rows_max());
  rows_.reserve(rows);
  row_errors_.reserve(rows);
  sweep_rows_.reserve(rows);
  sweep_errors_.reserve(rows);
  batch_.reserve(kRunningMax);
  candidates_.reserve(kRunningMax);
}

Batcher::~Batcher() {
  for (const std::unique_ptr<Request>& request : running_) request->ended = true;
  remove_ended();
}

bool Batcher::busy() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const auto& request) { return request->load == nullptr || request->load->finished; });
}

size_t Batcher::running() const {
  size_t answers = 0;
  for (const std::unique_ptr<Request>& request : running_) answers += request->answers();
  return answers;
}

bool Batcher::admit(std::unique_ptr<Request>& request) {
  if (running() + request->answers() > kRunningMax) return false;
  prepare(*request);
  for (const std::unique_ptr<Request>& other : request->others) {
    other->tokens = request->tokens;
    other->prompt_length = request->prompt_length;
    prepare(*other);
  }
  running_.push_back(std::move(request));
  return true;
}

// All that a request needs to run; from here on it allocates nothing.
void Batcher::prepare(Request& request) {
  size_t longest = static_cast<size_t>(std::min(context_tokens_, request.prompt() + request.request.tokens_max));
  request.sequence = std::make_unique<KvSequence>(runtime_.kv(), context_tokens_);
  request.sampler.emplace(request.request.sampling, end_ids_, sampler_workspace_);
  request.tokens.reserve(longest);
  request.forms.reserve(longest);
  request.admitted_at = now_seconds();
}

void Batcher::turn() {
  double now = now_seconds();
  for (const std::unique_ptr<Request>& request : running_)
    if (request->overdue(now)) fail(*request, deadline_exceeded(*request));
  remove_ended();
  for (const std::unique_ptr<Request>& request : running_)
    if (request->load != nullptr && request->load->finished) end_load(*request);
  decode_step();
  remove_ended();
  prefill_layer();
  remove_ended();
}

KvPages Batcher::kv_pages() const {
  return {runtime_.kv().pages_total(), runtime_.kv().pages_free(), runtime_.prefixes().pages_idle()};
}

void Batcher::cancel(std::span<const uint64_t> generations) {
  for (const std::unique_ptr<Request>& request : running_)
    if (std::find(generations.begin(), generations.end(), request->generation) != generations.end()) {
      remember(*request);
      request->ended = true;
    }
  remove_ended();
}

void Batcher::end_all(const Error& error) {
  for (const std::unique_ptr<Request>& request : running_) {
    if (request->ended) continue;
    remember(*request);
    request->end_with(error);
  }
  remove_ended();
}

void Batcher::remove_ended() {
  if (swept_ != nullptr && swept_->ended) drop_sweep_of(*swept_);
  for (const std::unique_ptr<Request>& request : running_)
    if (request->ended) drop_load(*request);
  running_.remove_if([](const std::unique_ptr<Request>& request) { return request->ended; });
}

// Pages for `tokens` tokens of a request, taken from younger requests if need be, so that the oldest always goes on.
// False: the request must wait.
bool Batcher::make_room(Request& request, int32_t tokens) {
  while (!request.sequence->extend(tokens).ok())
    if (!put_back_younger(request)) return false;
  return true;
}

// Puts the youngest back that has pages and is younger than `request`; false: there is none.
bool Batcher::put_back_younger(const Request& request) {
  Request* youngest = nullptr;
  for (const std::unique_ptr<Request>& other : running_)
    if (other->id > request.id && !other->ended && other->sequence->length() > 0 &&
        (youngest == nullptr || other->id > youngest->id))
      youngest = other.get();
  if (youngest != nullptr) put_back(*youngest);
  return youngest != nullptr;
}

// Leaves what was computed to the tree, from which it may go. The tokens and forms stay.
void Batcher::put_back(Request& request) {
  spdlog::info("request {} is put back: no KV memory is left (--kv-memory)", request.id);
  counters_.put_back++;
  drop_sweep_of(request);
  drop_load(request);
  remember(request);
  request.sequence->truncate(0);
  request.computed = 0;
  request.looked_up = false;
}

// Gives what is computed to the prefix tree and to the store, so that nobody has to compute it again.
void Batcher::remember(const Request& request) {
  if (!request.request.cache_prompt || request.computed == 0) return;
  auto tokens = std::span(request.tokens).first(static_cast<size_t>(request.computed));
  auto forms = std::span(request.forms).first(tokens.size());
  runtime_.prefixes().insert(request.request.cache_space, *request.sequence, tokens, forms);
  if (store_ != nullptr) store_->put(request.request.cache_space, *request.sequence, tokens, forms);
}

// Takes what the request begins with from the prefix tree, and has the store bring what it has beyond that. The last
// token is left out: its row gives the logits. False: the store is at it, or there is no room for what it has.
bool Batcher::look_up(Request& request) {
  if (request.looked_up) return request.load == nullptr;
  found_forms_.clear();
  std::span<const int32_t> wanted = std::span(request.tokens).first(request.tokens.size() - 1);
  if (request.request.cache_prompt) {
    runtime_.prefixes().match(request.request.cache_space, wanted, *request.sequence, found_forms_);
    if (store_ != nullptr && !begin_load(request)) return false;
  }
  request.looked_up = true;
  if (request.load == nullptr) take_over(request);
  return request.load == nullptr;
}

// False: there is no room now for what the store has.
bool Batcher::begin_load(Request& request) {
  std::span<const int32_t> wanted = std::span(request.tokens).first(request.tokens.size() - 1);
  while (true) {
    auto load = store_->load(request.request.cache_space, wanted, *request.sequence, found_forms_);
    if (load.ok()) {
      request.load_began_at = now_seconds();
      request.load = std::move(load).value();
      if (request.load != nullptr) request.load_forms = found_forms_;
      return true;
    }
    if (put_back_younger(request)) continue;
    request.sequence->truncate(0);
    return false;
  }
}

// What the store has brought is everyone's.
void Batcher::end_load(Request& request) {
  found_forms_ = std::move(request.load_forms);
  auto before = static_cast<int32_t>(found_forms_.size());
  int32_t found = store_->finish(std::move(request.load), *request.sequence, found_forms_);
  spdlog::info("request {}: {} tokens came from the KV store, {} in {:.3f} s", request.id, found - before,
               human_bytes(static_cast<uint64_t>(found - before) * runtime_.kv().layout().bytes_per_token()),
               now_seconds() - request.load_began_at);
  runtime_.prefixes().insert(request.request.cache_space, *request.sequence,
                             std::span(request.tokens).first(static_cast<size_t>(found)), found_forms_);
  take_over(request);
}

// The rows in found_forms_ are in place: they are the request's. One that was put back takes only rows in the forms
// that it knows.
void Batcher::take_over(Request& request) {
  int32_t found = static_cast<int32_t>(found_forms_.size());
  if (request.forms.empty()) {
    request.forms.assign(found_forms_.begin(), found_forms_.end());
    request.cached = found;
    request.expanded = request.prompt() - found >= kExpandedPromptTokens;
    counters_.prompt_tokens += static_cast<uint64_t>(request.prompt());
    counters_.cached_tokens += static_cast<uint64_t>(found);
  } else if (found > 0) {
    auto known = std::mismatch(found_forms_.begin(), found_forms_.end(), request.forms.begin(), request.forms.end());
    found = static_cast<int32_t>(known.first - found_forms_.begin());
    request.sequence->truncate(found);
  }
  request.computed = found;
}

void Batcher::drop_load(Request& request) {
  if (request.load != nullptr) store_->abandon(std::move(request.load));
}

// Whether an older request is about to compute more of what this one begins with than is known now.
bool Batcher::waits_for_another(const Request& request) const {
  constexpr int32_t kWorthWaiting = 32;  // tokens
  if (request.looked_up || !request.request.cache_prompt) return false;
  for (const std::unique_ptr<Request>& other : running_) {
    if (other->id >= request.id || other->ended || other->decoding() || !other->request.cache_prompt ||
        other->request.cache_space != request.request.cache_space)
      continue;
    auto [end, ignored] =
        std::mismatch(request.tokens.begin(), request.tokens.end(), other->tokens.begin(), other->tokens.end());
    if (end - request.tokens.begin() >= other->computed + kWorthWaiting) return true;
  }
  return false;
}

void Batcher::decode_step() {
  batch_.clear();
  rows_.clear();
  for (const std::unique_ptr<Request>& entry : running_) {
    Request& request = *entry;
    if (request.ended || !request.decoding() || static_cast<int32_t>(batch_.size()) == kDecodeRowsMax) continue;
    int32_t position = request.computed;
    if (!make_room(request, position + 1)) continue;
    batch_.push_back(&request);
    rows_.push_back({request.sequence.get(), position, request.tokens.back(), request.form(position), true});
  }
  // Making room may have put back one that was already chosen.
  for (size_t i = batch_.size(); i > 0; i--) {
    if (batch_[i - 1]->sequence->length() > rows_[i - 1].position) continue;
    batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(i - 1));
  }
  layers_since_step_ = 0;
  if (batch_.empty()) return;
  counters_.decode_steps++;
  counters_.decode_rows += batch_.size();
  // Those served move to the end, so that more than 16 take turns.
  for (Request* request : batch_) {
    auto at = std::find_if(running_.begin(), running_.end(), [&](const auto& entry) { return entry.get() == request; });
    running_.splice(running_.end(), running_, at);
  }
  step(batch_);
}

bool Batcher::anyone_decodes() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& entry) { return entry->decoding(); });
}

// One layer of the chunk that is being swept, or of the next prompt's next chunk.
void Batcher::prefill_layer() {
  if (swept_ == nullptr && !begin_chunk()) return;
  bool beside_others = anyone_decodes();
  runtime_.reader().set_sweep_bytes_in_flight_max(beside_others ? runtime_.catalog().largest_matrix_bytes()
                                                                : UINT64_MAX);
  Step& step = runtime_.step();
  bool more = step.sweep_layer();
  counters_.sweep_layers++;
  if (beside_others) counters_.layers_between_steps = std::max(counters_.layers_between_steps, ++layers_since_step_);
  if (!more) return end_chunk();
  if (now_seconds() - sweep_reported_at_ < kProgressSeconds) return;
  sweep_reported_at_ = now_seconds();
  int64_t rows = static_cast<int64_t>(sweep_rows_.size());
  int64_t done = rows * step.sweep_layers() / runtime_.shape().layers;
  if (swept_->generated() == 0)
    swept_->sink->on_progress(swept_->computed + static_cast<int32_t>(done), swept_->prompt());
}

// Prompts take turns, chunk by chunk, the one with the lowest rank first.
bool Batcher::begin_chunk() {
  double now = now_seconds();
  candidates_.clear();
  for (const std::unique_ptr<Request>& request : running_)
    if (!request->ended && !request->decoding() && !waits_for_another(*request)) candidates_.push_back(request.get());
  std::sort(candidates_.begin(), candidates_.end(), [&](const Request* a, const Request* b) {
    return std::pair(a->rank(now), a->id) < std::pair(b->rank(now), b->id);
  });
  auto next =
      std::find_if(candidates_.begin(), candidates_.end(), [&](Request* request) { return can_begin(*request); });
  if (next == candidates_.end()) return false;
  Request& request = **next;
  request.served_at = now;
  int32_t total = static_cast<int32_t>(request.tokens.size());
  int32_t end = std::min(total, request.computed + runtime_.plan().prefill_chunk);
  sweep_rows_.clear();
  for (int32_t p = request.computed; p < end; p++)
    sweep_rows_.push_back(
        {request.sequence.get(), p, request.tokens[static_cast<size_t>(p)], request.form(p), p + 1 == total});
  sweep_errors_.assign(sweep_rows_.size(), std::nullopt);
  runtime_.step().begin_sweep(sweep_rows_, sweep_errors_);
  swept_ = &request;
  sweep_reported_at_ = now_seconds();
  return true;
}

// Whether more of this request than its last token is to be computed, and there is room for its KV.
bool Batcher::can_begin(Request& request) {
  if (!look_up(request)) return false;
  return !request.decoding() && make_room(request, static_cast<int32_t>(request.tokens.size()));
}

void Batcher::end_chunk() {
  Request* request = swept_;
  swept_ = nullptr;
  request->sampled.reset();
  RowSink sink(sweep_rows_, {&request, 1});
  runtime_.step().end_sweep(sink);
  hand_out(sweep_rows_, sweep_errors_, {&request, 1});
  if (!request->ended) remember(*request);
  if (!request->ended && request->generated() == 0) request->sink->on_progress(request->computed, request->prompt());
}

void Batcher::drop_sweep_of(const Request& request) {
  if (swept_ != &request) return;
  runtime_.step().drop_sweep();
  swept_ = nullptr;
}

// Runs rows_, which belong to `requests`.
void Batcher::step(std::span<Request* const> requests) {
  row_errors_.assign(rows_.size(), std::nullopt);
  RowSink sink(rows_, requests);
  for (Request* request : requests) request->sampled.reset();
  runtime_.step().run(rows_, sink, row_errors_);
  hand_out(rows_, row_errors_, requests);
}

// Hands out what came of rows that belong to `requests`.
void Batcher::hand_out(std::span<const Row> rows, std::span<const std::optional<Error>> errors,
                       std::span<Request* const> requests) {
  for (Request* request : requests) {
    const Error* error = nullptr;
    int32_t computed = request->computed;
    for (size_t r = 0; r < rows.size(); r++) {
      if (rows[r].sequence != request->sequence.get()) continue;
      computed = rows[r].position + 1;
      if (errors[r] && error == nullptr) error = &*errors[r];
    }
    if (error != nullptr) {
      fail(*request, *error);
      continue;
    }
    for (int32_t p = static_cast<int32_t>(request->forms.size()); p < computed; p++)
      request->forms.push_back(static_cast<uint8_t>(request->form(p)));
    request->computed = computed;
    if (!request->sampled) continue;
    fork(*request);
    accept_token(*request, *request->sampled);
  }
}

// The prompt is computed: the other answers to it go on by themselves, each with the token it has drawn.
void Batcher::fork(Request& request) {
  for (std::unique_ptr<Request>& entry : request.others) {
    Request& other = *entry;
    for (size_t page = 0; page < request.sequence->pages().size(); page++)
      other.sequence->attach_next(request.sequence->pages()[page],
                                  std::min(request.computed, static_cast<int32_t>(page + 1) * kKvPageTokens));
    other.forms.assign(request.forms.begin(), request.forms.end());
    other.computed = request.computed;
    other.cached = request.cached;
    other.looked_up = true;
    running_.push_back(std::move(entry));
    accept_token(other, *other.sampled);
  }
  request.others.clear();
}

void Batcher::accept_token(Request& request, int32_t token) {
  if (request.generated() == 0) request.first_token_at = now_seconds();
  if (request.sampler->ends(token)) {
    request.tokens.push_back(token);
    finish(request, FinishReason::kStop);
    return;
  }
  request.tokens.push_back(token);
  const std::vector<int32_t>& printed = request.request.printed_control;
  bool special = std::find(printed.begin(), printed.end(), token) != printed.end();
  std::string text = request.detokenizer.add(tokenizer_.token_bytes(token, special));
  GeneratedToken generated{token, text.size(), std::exchange(request.logprobs, {})};
  // Stop strings count from min_tokens on: what comes before is neither looked at nor held back.
  if (request.generated() > request.request.sampling.min_tokens) text = request.stops.add(text);
  request.sink->on_text(text, generated);
  if (request.stops.stopped())
    finish(request, FinishReason::kStop);
  else if (request.generated() >= request.request.tokens_max ||
           static_cast<int32_t>(request.tokens.size()) >= context_tokens_)
    finish(request, FinishReason::kLength);
}

void Batcher::finish(Request& request, FinishReason reason) {
  request.detokenizer.finish();
  if (!request.stops.stopped()) {
    std::string held = request.stops.finish();
    if (!held.empty()) request.sink->on_text(held, {});
  }
  GenerationUsage usage;
  usage.prompt_tokens = request.prompt();
  usage.completion_tokens = request.generated();
  usage.cached_tokens = request.cached;
  usage.prefill_seconds = request.first_token_at - request.admitted_at;
  usage.decode_seconds = now_seconds() - request.first_token_at;
  remember(request);
  request.ended = true;
  request.sink->on_finish(reason, usage);
}

void Batcher::fail(Request& request, const Error& error) {
  spdlog::log(error.kind == ErrorKind::kClient ? spdlog::level::info : spdlog::level::err, "request {}: {}", request.id,
              error.to_string());
  output_invalid_ |= error.code == "model_output_invalid";
  if (error.code != "model_output_invalid") remember(request);  // what was computed before is as good as ever
  request.end_with(error);
}

}  // namespace llmd
