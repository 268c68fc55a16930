#include "api/json_input.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

namespace llmd {
namespace {

using nlohmann::ordered_json;

// Builds the value from parser events. The library's own builder looks each key up in the object it joins, which is
// quadratic for an ordered object; this one appends, and removes duplicates once, when the object is complete.
class Builder {
 public:
  using number_integer_t = ordered_json::number_integer_t;
  using number_unsigned_t = ordered_json::number_unsigned_t;
  using number_float_t = ordered_json::number_float_t;
  using string_t = ordered_json::string_t;
  using binary_t = ordered_json::binary_t;

  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr) != nullptr; }
  bool boolean(bool value) { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) { return add(value) != nullptr; }
  bool string(string_t& value) { return add(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return open(ordered_json::object()); }
  bool start_array(size_t /*size*/) { return open(ordered_json::array()); }
  bool key(string_t& name) {
    key_ = std::move(name);
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool end_object() {
    drop_duplicates(open_.back()->get_ref<ordered_json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& error) {
    const std::string_view what = error.what();
    std::string reason = "it is not JSON";
    if (what.find("UTF-8") != what.npos) reason = "it is not valid UTF-8";
    if (what.find("surrogate") != what.npos) reason = "an escaped surrogate lacks its other half";
    if (what.find("number overflow") != what.npos) reason = "a number is too large";
    fail(reason + " at byte " + std::to_string(position));
    return false;
  }

  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  ordered_json take() { return std::move(root_); }

 private:
  ordered_json* add(ordered_json value) {
    if (++values_ > limits_.values_max) {
      fail("it holds more than " + std::to_string(limits_.values_max) + " values");
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    ordered_json& parent = *open_.back();
    if (parent.is_array()) {
      auto& items = parent.get_ref<ordered_json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    // Growing an ordered object copies its members (their keys are const), so the outer ones get room at once.
    auto& members = parent.get_ref<ordered_json::object_t&>();
    if (open_.size() == 1 && members.capacity() == 0) members.reserve(32);
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool open(ordered_json value) {
    if (open_.size() >= limits_.depth_max) {
      fail("it is nested deeper than " + std::to_string(limits_.depth_max) + " levels");
      return false;
    }
    ordered_json* place = add(std::move(value));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  static void drop_duplicates(ordered_json::object_t& object) {
    ordered_json::object_t::Container& members = object;
    if (members.size() < 2) return;
    std::unordered_set<std::string_view> seen;
    std::vector<bool> keep(members.size(), false);
    for (size_t i = members.size(); i-- > 0;) keep[i] = seen.insert(members[i].first).second;
    if (seen.size() == members.size()) return;
    ordered_json::object_t unique;
    unique.reserve(seen.size());
    for (size_t i = 0; i < members.size(); ++i) {
      if (keep[i]) unique.emplace_back(members[i].first, std::move(members[i].second));
    }
    object.swap(unique);
  }

  void fail(std::string reason) {
    if (failure_.empty()) failure_ = std::move(reason);
  }

  const JsonLimits limits_;
  ordered_json root_;
  std::vector<ordered_json*> open_;  // a parent's storage moves only while no child of it is open
  std::string key_, failure_;
  uint32_t values_ = 0;
};

}  // namespace

Result<ordered_json> parse_json(std::string_view text, const JsonLimits& limits) {
  // The library takes a zero byte for the end of the text, and would not look at what follows.
  const size_t zero = text.find('\0');
  if (zero != text.npos) {
    return client_error("invalid_json",
                        "The body cannot be read: it has a zero byte at byte " + std::to_string(zero + 1) + ".");
  }
  Builder builder(limits);
  const bool ok = ordered_json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok || builder.failed()) {
    return client_error("invalid_json",
                        "The body cannot be read: " + (builder.failed() ? builder.failure() : "it is not JSON") + ".");
  }
  return builder.take();
}

}  // namespace llmd
