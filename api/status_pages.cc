#include "api/status_pages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/api_error.h"

namespace llmd {
namespace {

using nlohmann::ordered_json;
using Phase = EngineStatus::Phase;

HttpReply json_reply(const ordered_json& body, int status = 200) {
  HttpReply reply;
  reply.status = status;
  reply.body = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  return reply;
}

ordered_json model_json(const Engine& engine, const std::string& id) {
  const EngineInfo& info = engine.info();
  return {{"id", id},
          {"object", "model"},
          {"created", info.created_unix},
          {"owned_by", "llmd"},
          {"meta", {{"n_ctx", info.context_tokens}, {"n_vocab", engine.tokenizer().vocab_size()}}}};
}

ordered_json sampling_json(const SamplingParams& sampling) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"typical_p", sampling.typical_p},
          {"repeat_penalty", sampling.repeat_penalty},
          {"repeat_last_n", sampling.repeat_last_n},
          {"presence_penalty", sampling.presence_penalty},
          {"frequency_penalty", sampling.frequency_penalty}};
}

}  // namespace

HttpReply health_page(const EngineStatus& status, bool draining) {
  const bool stopping = draining || status.phase == Phase::kDraining;
  std::string name = status.degraded ? "degraded" : "ok";
  if (status.phase == Phase::kLoading) name = "loading";
  if (status.phase == Phase::kFailed) name = "failed";
  if (stopping) name = "draining";
  const bool up = name == "ok" || name == "degraded";
  HttpReply reply = json_reply({{"status", name},
                                {"reason", status.degraded_reason},
                                {"phase", status.phase_detail},
                                {"progress", up || stopping ? 1.0 : std::clamp(status.progress, 0.0, 1.0)},
                                {"read_path", status.read_path},
                                {"read_path_reason", status.read_path_reason},
                                {"requests_running", status.requests_running},
                                {"requests_waiting", status.requests_waiting}},
                               up ? 200 : 503);
  if (!up) reply.headers.emplace_back("Retry-After", "5");
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

HttpReply root_page(const Engine&, const HttpOptions&) {
  return json_reply({{"object", "server"},
                     {"name", "llmd"},
                     {"endpoints",
                      {"/health", "/version", "/props", "/v1/models", "/v1/chat/completions", "/v1/completions",
                       "/tokenize", "/detokenize", "/apply-template"}}});
}

HttpReply version_page(const Engine&, const HttpOptions& options) {
  return json_reply({{"name", "llmd"}, {"version", options.version}});
}

HttpReply models_page(const Engine& engine, const HttpOptions& options) {
  ordered_json list = ordered_json::array({model_json(engine, engine.info().model_id)});
  for (const std::string& alias : options.model_aliases) list.push_back(model_json(engine, alias));
  return json_reply({{"object", "list"}, {"data", std::move(list)}});
}

HttpReply model_page(const Engine& engine, const HttpOptions& options, const std::string& id) {
  if (!id.empty() && serves_model(engine, options, id)) return json_reply(model_json(engine, id));
  return error_reply(client_error("model_not_found", "There is no model \"" + id + "\" here.", "model"));
}

HttpReply props_page(const Engine& engine, const HttpOptions& options) {
  const EngineInfo& info = engine.info();
  return json_reply(
      {{"default_generation_settings", {{"n_ctx", info.context_tokens}, {"params", sampling_json(info.sampling)}}},
       {"model_alias", info.model_id},
       {"chat_template", info.chat_template},
       {"bos_token", engine.tokenizer().bos_text()},
       {"eos_token", engine.tokenizer().eos_text()},
       {"modalities", {{"vision", false}, {"audio", false}}},
       {"build_info", "llmd " + options.version}});
}

HttpReply slots_page(const Engine& engine, const HttpOptions&) {
  const EngineStatus status = engine.status();
  ordered_json slots = ordered_json::array();
  for (int32_t id = 0; id < status.requests_running; ++id) {
    slots.push_back({{"id", id}, {"n_ctx", engine.info().context_tokens}, {"is_processing", true}});
  }
  HttpReply reply = json_reply(slots);
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

bool serves_model(const Engine& engine, const HttpOptions& options, const std::string& name) {
  if (name.empty() || options.ignore_model_name || name == engine.info().model_id) return true;
  const auto& aliases = options.model_aliases;
  return std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

}  // namespace llmd
