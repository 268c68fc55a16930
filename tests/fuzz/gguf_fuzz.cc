// libFuzzer target for the GGUF reader. An input is one to four files in a row, each as a u32 length and its bytes (the
// last one may be cut short), read and joined as the shards of one model; then every getter is called on what came out.
//
// Besides what the sanitizers see, it checks what the reader promises of a model that it accepts, and that errors are
// of the kind that it promises.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "model/gguf/gguf_reader.h"

namespace llmd {
namespace {

constexpr size_t kFilesMax = 4;

std::vector<std::span<const std::byte>> files_of(std::span<const std::byte> input) {
  std::vector<std::span<const std::byte>> files;
  while (input.size() > 4 && files.size() < kFilesMax) {
    uint32_t length = 0;
    std::memcpy(&length, input.data(), 4);
    input = input.subspan(4);
    size_t taken = std::min<size_t>(length, input.size());
    files.push_back(input.first(taken));
    input = input.subspan(taken);
  }
  return files;
}

void check_error(const Error& error) {
  LLMD_CHECK(error.code == "gguf_invalid" && error.kind == ErrorKind::kOperating && !error.message.empty());
  LLMD_CHECK(error.message.size() < 1000);
}

void check_tensors(const GgufModel& model) {
  for (const GgufTensor& tensor : model.tensors()) {
    const GgufShard& shard = model.shards()[tensor.shard];
    LLMD_CHECK(tensor.bytes > 0 && tensor.file_offset >= shard.data_start);
    LLMD_CHECK(tensor.file_offset <= shard.file_bytes && tensor.bytes <= shard.file_bytes - tensor.file_offset);
    LLMD_CHECK(tensor.bytes ==
               tensor_row_bytes(tensor.type, tensor.dims[0]) * tensor.dims[1] * tensor.dims[2] * tensor.dims[3]);
    LLMD_CHECK(model.find_tensor(tensor.name) == &tensor);
  }
}

void call_getters(GgufModel& model) {
  for (const auto& [key, value] : model.metadata()) {
    LLMD_CHECK(model.find(key) == &value);
    (void)model.get_u64(key);
    (void)model.get_f64(key);
    (void)model.get_bool(key);
    (void)model.get_string(key);
    const GgufArray* array = model.get_array(key);
    for (size_t layer : {size_t{0}, array ? array->size() : 1, SIZE_MAX}) (void)model.get_u64_at(key, layer);
  }
  // Text from the file as an override: any text is either taken or a client error.
  std::vector<std::string> texts;
  for (const auto& [key, value] : model.metadata()) {
    if (const auto* text = std::get_if<std::string>(&value.value)) texts.push_back(key + "=" + *text);
  }
  for (const std::string& text : texts) {
    Status status = model.override_kv(text);
    LLMD_CHECK(status.ok() || status.error().code == "invalid_override");
  }
}

void run(std::span<const std::byte> input) {
  std::vector<GgufHeader> headers;
  uint64_t budget = GgufReader::kDecodedBytesMax;
  for (std::span<const std::byte> bytes : files_of(input)) {
    std::unique_ptr<GgufSource> source = gguf_memory_source("fuzz", bytes);
    Result<GgufHeader> header = GgufReader::read_file(*source, budget);
    if (!header.ok()) return check_error(header.error());
    Result<uint32_t> count = GgufReader::shard_count(*header);
    if (!count.ok()) return check_error(count.error());
    headers.push_back(std::move(*header));
  }
  if (headers.empty()) return;
  Result<GgufModel> model = GgufReader::join(std::move(headers));
  if (!model.ok()) return check_error(model.error());
  check_tensors(*model);
  call_getters(*model);
}

}  // namespace
}  // namespace llmd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  llmd::run(std::as_bytes(std::span(data, size)));
  return 0;
}
