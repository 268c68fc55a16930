// What GET answers: pages about the server and its model. No file's path and nothing of anyone's prompt is in them.
//
// All but health, version and root ask for a model that has been loaded. http thread; they never fail.
#pragma once

#include <string>

#include "api/engine.h"
#include "api/http_message.h"
#include "api/http_options.h"

namespace llmd {

/// 200 while it serves, else 503 with the progress.
HttpReply health_page(const EngineStatus& status, bool draining);
HttpReply root_page(const Engine& engine, const HttpOptions& options);
HttpReply version_page(const Engine& engine, const HttpOptions& options);
HttpReply models_page(const Engine& engine, const HttpOptions& options);
/// One model by its id or an alias; 404 model_not_found.
HttpReply model_page(const Engine& engine, const HttpOptions& options, const std::string& id);
/// llama-server's shape: what holds where a request says nothing, the template, the special tokens.
HttpReply props_page(const Engine& engine, const HttpOptions& options);
/// How many answers are being generated and how many requests wait.
HttpReply slots_page(const Engine& engine, const HttpOptions& options);

/// Whether a client may call the model so: its id, an alias, or anything where the name is ignored.
bool serves_model(const Engine& engine, const HttpOptions& options, const std::string& name);

}  // namespace llmd
