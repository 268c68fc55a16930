#include "model/routing_trace.h"

#include <bit>
#include <cstring>
#include <iterator>

namespace llmd {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kMagic[] = {'l', 'l', 'm', 'd', 't', 'r', 'c', '1'};
constexpr uint32_t kExpertsMax = 4096, kLayersMax = 1024;

template <typename T>
void put(std::ofstream& file, T value) {
  file.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes values off the file's bytes; after the end everything is 0 and `ended` is set.
struct Cursor {
  const std::vector<char>& bytes;
  size_t at = 0;
  bool ended = false;

  template <typename T>
  T take() {
    T value{};
    if (bytes.size() - at < sizeof(T)) {
      ended = true;
      at = bytes.size();
      return value;
    }
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  bool done() const { return at == bytes.size(); }
};

bool take_shape(Cursor& cursor, PoolShape& shape) {
  uint32_t experts = cursor.take<uint32_t>(), used = cursor.take<uint32_t>(), layers = cursor.take<uint32_t>(),
           classes = cursor.take<uint32_t>();
  if (experts == 0 || experts > kExpertsMax || used == 0 || used > experts || layers == 0 || layers > kLayersMax ||
      classes == 0 || classes > layers)
    return false;
  shape.experts = static_cast<int32_t>(experts);
  shape.used = static_cast<int32_t>(used);
  for (uint32_t c = 0; c < classes; c++) {
    shape.classes.push_back({cursor.take<uint64_t>(), 0});
    if (shape.classes.back().slot_bytes == 0 || shape.classes.back().slot_bytes >> 40 != 0) return false;
  }
  for (uint32_t layer = 0; layer < layers; layer++) {
    int64_t size_class = cursor.take<int64_t>();
    uint64_t bytes = cursor.take<uint64_t>();
    if (size_class < -1 || size_class >= static_cast<int64_t>(classes)) return false;
    if (size_class >= 0) {
      PoolClass& c = shape.classes[static_cast<size_t>(size_class)];
      c.layers++;
      if (bytes > c.slot_bytes) return false;
    }
    shape.layers.push_back({static_cast<int32_t>(size_class), bytes});
  }
  return !cursor.ended;
}

bool take_record(Cursor& cursor, RoutingTrace& trace) {
  RoutingTrace::Record record;
  record.step = cursor.take<uint32_t>();
  uint32_t layer = cursor.take<uint32_t>();
  record.rows = cursor.take<uint32_t>();
  record.first_id = trace.ids.size();
  if (cursor.ended || layer >= trace.shape.layers.size() || trace.shape.layers[layer].size_class < 0) return false;
  record.layer = static_cast<int32_t>(layer);
  uint64_t count = uint64_t{record.rows} * static_cast<uint64_t>(trace.shape.used);
  if (count > (cursor.bytes.size() - cursor.at) / sizeof(uint16_t)) return false;
  for (uint64_t i = 0; i < count; i++) {
    trace.ids.push_back(cursor.take<uint16_t>());
    if (trace.ids.back() >= trace.shape.experts) return false;
  }
  trace.records.push_back(record);
  return true;
}

}  // namespace

Result<RoutingTrace> RoutingTrace::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return operating_error("file_open", "cannot read the routing trace", path);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  RoutingTrace trace;
  Cursor cursor{bytes};
  bool valid = bytes.size() >= sizeof(kMagic) && std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0;
  cursor.at = valid ? sizeof(kMagic) : 0;
  valid = valid && take_shape(cursor, trace.shape);
  while (valid && !cursor.done()) valid = take_record(cursor, trace);
  if (!valid)
    return operating_error("trace_invalid", "not a routing trace, or cut short; llmd bench decode --trace writes one",
                           path, cursor.at);
  return trace;
}

Result<RoutingTraceWriter> RoutingTraceWriter::create(const std::string& path, const PoolShape& shape) {
  RoutingTraceWriter writer;
  writer.path_ = path;
  writer.used_ = static_cast<uint32_t>(shape.used);
  writer.file_.open(path, std::ios::binary | std::ios::trunc);
  if (!writer.file_) return operating_error("file_open", "cannot write the routing trace", path);
  writer.file_.write(kMagic, sizeof(kMagic));
  put(writer.file_, static_cast<uint32_t>(shape.experts));
  put(writer.file_, static_cast<uint32_t>(shape.used));
  put(writer.file_, static_cast<uint32_t>(shape.layers.size()));
  put(writer.file_, static_cast<uint32_t>(shape.classes.size()));
  for (const PoolClass& c : shape.classes) put(writer.file_, c.slot_bytes);
  for (const PoolShape::Layer& layer : shape.layers) {
    put(writer.file_, int64_t{layer.size_class});
    put(writer.file_, layer.expert_bytes);
  }
  return writer;
}

void RoutingTraceWriter::record(void* context, int32_t layer, const int32_t* ids, int64_t count) {
  RoutingTraceWriter& writer = *static_cast<RoutingTraceWriter*>(context);
  if (layer <= writer.last_layer_) writer.step_++;
  writer.last_layer_ = layer;
  put(writer.file_, writer.step_);
  put(writer.file_, static_cast<uint32_t>(layer));
  put(writer.file_, static_cast<uint32_t>(count) / writer.used_);
  for (int64_t i = 0; i < count; i++) put(writer.file_, static_cast<uint16_t>(ids[i]));
}

Status RoutingTraceWriter::close() {
  file_.close();
  if (!file_) return operating_error("file_write", "cannot write the routing trace", path_);
  return {};
}

}  // namespace llmd
