#include "model/architecture.h"

#include "model/mla.h"

namespace llmd {

Result<std::unique_ptr<Architecture>> Architecture::create(const GgufModel& model, std::vector<std::string>& notes) {
  const std::string* name = model.get_string("general.architecture");
  if (name == nullptr)
    return operating_error("gguf_invalid", "the file has no general.architecture", model.shards()[0].path);
  if (*name == "deepseek2") return Mla::create(model, notes);
  return operating_error("model_unsupported", "architecture \"" + *name + "\" is not supported; llmd runs deepseek2",
                         model.shards()[0].path);
}

}  // namespace llmd
