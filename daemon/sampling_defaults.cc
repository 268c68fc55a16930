#include "daemon/sampling_defaults.h"

#include <limits>
#include <optional>

namespace llmd {
namespace {

constexpr std::string_view kPrefix = "general.sampling.";
constexpr double kInt32Max = std::numeric_limits<int32_t>::max();

class Recommended {
 public:
  Recommended(const GgufModel& gguf, std::vector<std::string>& warnings) : gguf_(gguf), warnings_(warnings) {}

  /// The file's number under general.sampling.`name`, when it has one within [low, high] and that is not 0 unless
  /// `zero` says so.
  std::optional<double> number(std::string_view name, double low, double high, bool zero) {
    const std::string key = std::string(kPrefix).append(name);
    const std::optional<double> value = gguf_.get_f64(key);
    if (!value) return std::nullopt;
    if (*value >= low && *value <= high && (zero || *value != 0)) return value;
    warnings_.push_back("the model file's " + key + " makes no sense and is left out");
    return std::nullopt;
  }

  void warn_if_there(std::string_view name) {
    const std::string key = std::string(kPrefix).append(name);
    const std::string* text = gguf_.get_string(key);
    const bool off = text != nullptr ? text->empty() : gguf_.get_f64(key).value_or(0) == 0;
    if (!off) warnings_.push_back("the model file's " + key + " is not supported and has no effect");
  }

 private:
  const GgufModel& gguf_;
  std::vector<std::string>& warnings_;
};

template <typename T>
void prefer(T& value, const std::optional<double>& setting, const std::optional<double>& recommended) {
  if (setting || recommended) value = static_cast<T>(setting ? *setting : *recommended);
}

}  // namespace

SamplingParams sampling_defaults(const Options& options, const GgufModel& gguf, std::vector<std::string>& warnings) {
  Recommended file(gguf, warnings);
  SamplingParams out;
  prefer(out.temperature, options.sampling_temperature, file.number("temp", 0, 2, true));
  prefer(out.top_k, options.sampling_top_k, file.number("top_k", -1, kInt32Max, true));
  prefer(out.top_p, options.sampling_top_p, file.number("top_p", 0, 1, false));
  prefer(out.min_p, options.sampling_min_p, file.number("min_p", 0, 1, true));
  prefer(out.typical_p, options.sampling_typical_p, {});
  prefer(out.repeat_penalty, options.sampling_repeat_penalty, file.number("penalty_repeat", 0, 10, false));
  prefer(out.repeat_last_n, options.sampling_repeat_last_n, file.number("penalty_last_n", -1, kInt32Max, true));
  prefer(out.presence_penalty, options.sampling_presence_penalty, {});
  prefer(out.frequency_penalty, options.sampling_frequency_penalty, {});
  for (std::string_view name : {"sequence", "xtc_probability", "mirostat"}) file.warn_if_there(name);
  return out;
}

}  // namespace llmd
