#include "model/core_weights.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "model/checksum_scan.h"
#include "model/kernels/kernels.h"

namespace llmd {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kGapMax = 64 << 10;      // file bytes between two tensors that are cheaper read than skipped
constexpr uint64_t kPieceBytes = 4u << 20;  // one Read of a run: the grain of progress and of depth slices

bool same_dims(const std::vector<uint64_t>& wanted, const GgufTensor& tensor) {
  for (size_t i = 0; i < 4; i++) {
    uint64_t want = i < wanted.size() ? wanted[i] : 1;
    if (want != 0 && want != tensor.dims[i]) return false;
  }
  return true;
}

std::string describe_dims(const std::vector<uint64_t>& dims) {
  std::string text;
  for (uint64_t dim : dims) text += (text.empty() ? "" : ", ") + (dim ? std::to_string(dim) : std::string("any"));
  return "[" + text + "]";
}

}  // namespace

std::string describe(const GgufTensor& tensor) {
  std::vector<uint64_t> dims(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims);
  return describe_dims(dims) + " " + std::string(tensor_type_name(tensor.type));
}

Status check_computable(const GgufTensor& tensor, const GgufModel& model) {
  if (tensor.type_id < 64 && kernels().matmul[tensor.type_id] != nullptr) return {};
  return operating_error("type_unsupported",
                         "tensor " + tensor.name + " is stored as " + std::string(tensor_type_name(tensor.type)) +
                             ", which llmd cannot compute with; use a file quantised to another type",
                         model.shards()[tensor.shard].path, tensor.file_offset);
}

Result<CoreWeights> CoreWeights::locate(const GgufModel& model, const std::vector<TensorUse>& uses) {
  CoreWeights core;
  std::vector<const GgufTensor*> found;
  for (const TensorUse& use : uses) {
    const GgufTensor* tensor = model.find_tensor(use.name);
    if (tensor == nullptr) {
      if (!use.required) continue;
      return operating_error("gguf_invalid", "the model has no tensor " + use.name + ", which its architecture needs",
                             model.shards()[0].path);
    }
    if (!use.dims.empty() && !same_dims(use.dims, *tensor)) {
      return operating_error(
          "gguf_invalid",
          "tensor " + tensor->name + " is " + describe(*tensor) + ", expected " + describe_dims(use.dims),
          model.shards()[tensor->shard].path, tensor->file_offset);
    }
    if (use.f32 && tensor->type != TensorType::kF32) {
      return operating_error("type_unsupported",
                             "tensor " + tensor->name + " is " + describe(*tensor) + ", expected F32",
                             model.shards()[tensor->shard].path, tensor->file_offset);
    }
    LLMD_RETURN_IF_ERROR(check_computable(*tensor, model));
    found.push_back(tensor);
  }
  std::sort(found.begin(), found.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return std::pair(a->shard, a->file_offset) < std::pair(b->shard, b->file_offset);
  });
  for (const GgufTensor* tensor : found) {
    uint64_t begin = tensor->file_offset / kBlock * kBlock;
    uint64_t end = (tensor->file_offset + tensor->bytes + kBlock - 1) / kBlock * kBlock;
    if (core.runs_.empty() || core.runs_.back().shard != tensor->shard || begin > core.runs_.back().file_end + kGapMax)
      core.runs_.push_back({tensor->shard, begin, end, 0});
    core.runs_.back().file_end = std::max(core.runs_.back().file_end, end);
    core.tensors_[tensor->name] = {tensor, core.runs_.size() - 1, nullptr};
  }
  for (Run& run : core.runs_) {
    run.memory_offset = core.bytes_;
    core.bytes_ += run.file_end - run.file_begin;
  }
  return core;
}

Status CoreWeights::load(std::span<const DirectFile> files, Reader& reader, std::span<std::byte> memory,
                         const ModelChecksums* checksums, const std::function<void(uint64_t, uint64_t)>& progress) {
  LLMD_CHECK(memory.size() >= bytes_);
  std::vector<std::unique_ptr<Read>> reads;
  for (const Run& run : runs_) {
    const DirectFile& file = files[run.shard];
    for (uint64_t begin = run.file_begin; begin < run.file_end; begin += kPieceBytes) {
      uint64_t end = std::min(run.file_end, begin + kPieceBytes);
      auto read = std::make_unique<Read>();
      read->file = &file;
      read->offset = begin;
      read->length = end - begin;
      read->needed_end = std::min(end, file.bytes());
      read->buffer = memory.data() + run.memory_offset + (begin - run.file_begin);
      reads.push_back(std::move(read));
    }
  }
  std::optional<ChecksumCursor> cursor;
  Status matches;
  if (checksums)
    cursor.emplace(checksums->layout(), [&](const ChecksumRange& range, uint32_t slice, uint32_t crc) {
      bool mine = range.tensor != nullptr && tensors_.count(range.tensor->name) != 0;
      if (mine && matches.ok() && crc != checksums->value(range, slice)) matches = checksums->mismatch(range, slice);
    });
  std::vector<Read*> list;
  for (const auto& read : reads) list.push_back(read.get());
  uint64_t done = 0;
  auto take = [&](const Read& read) -> Status {
    if (cursor)
      cursor->add(static_cast<uint32_t>(read.file - files.data()), read.offset,
                  {read.buffer, read.needed_end - read.offset});
    done += read.length;
    if (progress) progress(done, bytes_);
    return std::move(matches);
  };
  LLMD_ASSIGN_OR_RETURN(drive_speed_, read_finding_depth(reader, list, take));
  for (auto& [name, located] : tensors_) {
    const Run& run = runs_[located.run];
    located.data = memory.data() + run.memory_offset + (located.tensor->file_offset - run.file_begin);
  }
  return {};
}

Matrix CoreWeights::matrix(std::string_view name) const {
  auto found = tensors_.find(std::string(name));
  if (found == tensors_.end()) return {};
  const GgufTensor& tensor = *found->second.tensor;
  return {found->second.data, tensor.type, static_cast<int64_t>(tensor.dims[0]),
          static_cast<int64_t>(tensor.dims[1] * tensor.dims[2] * tensor.dims[3]),
          tensor_row_bytes(tensor.type, tensor.dims[0])};
}

const float* CoreWeights::vector(std::string_view name) const {
  auto found = tensors_.find(std::string(name));
  if (found == tensors_.end() || found->second.tensor->type != TensorType::kF32) return nullptr;
  return reinterpret_cast<const float*>(found->second.data);
}

}  // namespace llmd
