#include "daemon/drive_bench.h"

#include <algorithm>

namespace llmd {
namespace {

constexpr uint64_t kBlock = ExpertCatalog::kBlock;
constexpr uint64_t kBufferBytesMax = 128u << 20;
constexpr size_t kReadsMax = 512;
constexpr uint64_t kDenseSliceBytes = 1u << 20;  // where a model has no experts

double seconds_since(const Reader& reader, uint64_t begin_ns) {
  return static_cast<double>(reader.now_ns() - begin_ns) * 1e-9;
}

}  // namespace

double percentile(std::vector<double>& samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  auto index = static_cast<size_t>(share * static_cast<double>(samples.size() - 1) + 0.5);
  return samples[std::min(index, samples.size() - 1)];
}

Result<std::unique_ptr<DriveBench>> DriveBench::open(const GgufModel& model, const ExpertCatalog& catalog,
                                                     ReaderOptions::Path path) {
  std::unique_ptr<DriveBench> made(new DriveBench);
  DriveBench& bench = *made;
  for (const GgufShard& shard : model.shards()) {
    LLMD_ASSIGN_OR_RETURN(DirectFile file, DirectFile::open(shard.path));
    bench.files_.push_back(std::move(file));
  }
  ReaderOptions options;
  options.path = path;
  LLMD_ASSIGN_OR_RETURN(bench.reader_, Reader::create(options));
  for (int32_t l = 0; l < catalog.layers(); l++) {
    const ExpertLayer& layer = catalog.layer(l);
    for (int32_t t = 0; t < layer.tensors_count; t++) {
      const ExpertTensor& tensor = layer.tensors[t];
      bench.ranges_.push_back(
          {tensor.shard, tensor.file_offset, tensor.expert_bytes, static_cast<uint64_t>(catalog.experts_per_layer())});
      bench.tensors_per_expert_ = static_cast<size_t>(layer.tensors_count);
    }
  }
  if (bench.ranges_.empty()) {
    for (uint32_t shard = 0; shard < bench.files_.size(); shard++) {
      uint64_t stride = std::min(kDenseSliceBytes, bench.files_[shard].bytes());
      bench.ranges_.push_back({shard, 0, stride, bench.files_[shard].bytes() / std::max<uint64_t>(stride, 1)});
    }
  }
  for (const Range& range : bench.ranges_) bench.matrix_bytes_max_ = std::max(bench.matrix_bytes_max_, range.stride);
  return made;
}

uint64_t DriveBench::random() {
  random_state_ = random_state_ * 6364136223846793005u + 1442695040888963407u;
  return random_state_ >> 33;
}

void DriveBench::aim_at(Read& read, const Range& range, uint64_t index, std::byte* buffer) {
  uint64_t begin = range.begin + index * range.stride, end = begin + range.stride;
  read.file = &files_[range.shard];
  read.offset = begin / kBlock * kBlock;
  read.length = (end + kBlock - 1) / kBlock * kBlock - read.offset;
  read.needed_end = end;
  read.buffer = buffer;
  read.gate = &gate_;
}

void DriveBench::aim(Read& read, uint64_t slice_bytes, std::byte* buffer) {
  const Range& range = ranges_[random() % ranges_.size()];
  if (slice_bytes == 0) return aim_at(read, range, random() % range.count, buffer);
  // The whole blocks of the range. A tensor without one is read as it is.
  uint64_t begin = (range.begin + kBlock - 1) / kBlock * kBlock;
  uint64_t end = (range.begin + range.stride * range.count) / kBlock * kBlock;
  if (end <= begin) return aim_at(read, range, 0, buffer);
  uint64_t slice = std::min(slice_bytes, end - begin);
  uint64_t places = (end - begin - slice) / kBlock + 1;
  // Two draws: one has 31 bits only.
  aim_at(read, {range.shard, begin + ((random() << 20) ^ random()) % places * kBlock, slice, 1}, 0, buffer);
}

Status DriveBench::prepare(uint64_t slice_bytes, size_t count) {
  uint64_t room = (std::max(slice_bytes, slice_bytes == 0 ? matrix_bytes_max_ : 0) / kBlock + 2) * kBlock;
  count = std::clamp<size_t>(count, 2, std::max<size_t>(2, std::min<size_t>(kReadsMax, kBufferBytesMax / room)));
  if (arena_ == nullptr || arena_->bytes() < room * count) {
    LLMD_ASSIGN_OR_RETURN(Arena arena, Arena::reserve(room * count));
    LLMD_RETURN_IF_ERROR(arena.populate(0, room * count, 1));
    arena_ = std::make_unique<Arena>(std::move(arena));
  }
  reads_.clear();
  buffers_.clear();
  for (size_t i = 0; i < count; i++) {
    reads_.push_back(std::make_unique<Read>());
    buffers_.push_back(arena_->base() + i * room);
  }
  return {};
}

Result<DriveRun> DriveBench::random_reads(uint64_t slice_bytes, uint64_t bytes_in_flight, double seconds) {
  uint64_t typical = slice_bytes == 0 ? matrix_bytes_max_ : slice_bytes;
  // Twice what may be in flight, so that the reader never lacks the next one.
  LLMD_RETURN_IF_ERROR(prepare(slice_bytes, 2 * (bytes_in_flight / std::max<uint64_t>(typical, 1) + 1)));
  reader_->set_bytes_in_flight_max(bytes_in_flight);
  DriveRun run;
  run.bytes_in_flight = bytes_in_flight;
  auto submit = [&](size_t i) {
    aim(*reads_[i], slice_bytes, buffers_[i]);
    Read* read = reads_[i].get();
    reader_->submit({&read, 1});
    submitted_++;
  };
  uint64_t begin = reader_->now_ns(), cpu_begin = reader_->cpu_ns();
  size_t in_flight = reads_.size();
  Status status;
  for (size_t i = 0; i < reads_.size(); i++) submit(i);
  for (size_t i = 0; in_flight > 0; i = (i + 1) % reads_.size()) {
    if (reads_[i]->file == nullptr) continue;  // retired
    wait_for(*reads_[i]);
    if (reads_[i]->state.load() == ReadState::kFailed && status.ok()) status = read_error(*reads_[i]);
    run.reads++;
    run.bytes += reads_[i]->length;
    if (status.ok() && seconds_since(*reader_, begin) < seconds) {
      submit(i);
    } else {
      reads_[i]->file = nullptr;
      in_flight--;
    }
  }
  run.seconds = seconds_since(*reader_, begin);
  run.io_thread_share = static_cast<double>(reader_->cpu_ns() - cpu_begin) * 1e-9 / run.seconds;
  run.slice_bytes = run.bytes / std::max<uint64_t>(run.reads, 1);
  for (uint32_t seen = gate_.completed; seen != submitted_;) seen = wait_for_any(gate_, seen);
  LLMD_RETURN_IF_ERROR(std::move(status));
  return run;
}

Result<double> DriveBench::lone_expert_seconds(double seconds) {
  LLMD_RETURN_IF_ERROR(prepare(0, tensors_per_expert_));
  std::vector<double> samples;
  uint64_t begin = reader_->now_ns();
  size_t tensors = std::min(tensors_per_expert_, reads_.size());
  while (samples.empty() || seconds_since(*reader_, begin) < seconds) {
    size_t layer = random() % (ranges_.size() / tensors);
    uint64_t expert = random() % ranges_[layer * tensors].count;
    std::vector<Read*> list;
    for (size_t t = 0; t < tensors; t++) {
      aim_at(*reads_[t], ranges_[layer * tensors + t], expert % ranges_[layer * tensors + t].count, buffers_[t]);
      list.push_back(reads_[t].get());
    }
    uint64_t asked = reader_->now_ns();
    reader_->submit(list);
    submitted_ += static_cast<uint32_t>(list.size());
    for (uint32_t seen = gate_.completed; seen != submitted_;) seen = wait_for_any(gate_, seen);
    samples.push_back(seconds_since(*reader_, asked));
    for (Read* read : list)
      if (read->state.load() == ReadState::kFailed) return read_error(*read);
  }
  return percentile(samples, 0.5);
}

Result<HandOff> DriveBench::hand_off(Waiter waiter, double seconds) {
  constexpr uint64_t kBytesInFlight = 8u << 20;
  LLMD_RETURN_IF_ERROR(prepare(0, kBytesInFlight / std::max<uint64_t>(matrix_bytes_max_, 1) + 2));
  reader_->set_bytes_in_flight_max(kBytesInFlight);
  std::vector<double> samples;
  Status status;
  auto submit = [&](size_t i) {
    aim(*reads_[i], 0, buffers_[i]);
    Read* read = reads_[i].get();
    reader_->submit({&read, 1});
    submitted_++;
  };
  uint32_t seen = gate_.completed;
  uint64_t begin = reader_->now_ns();
  for (size_t i = 0; i < reads_.size(); i++) submit(i);
  while (seen != submitted_) {
    if (waiter == Waiter::kSleeping) {
      wait_for_any(gate_, seen);
    } else {
      while (gate_.completed.load(std::memory_order_acquire) == seen) {
      }
    }
    for (size_t i = 0; i < reads_.size(); i++) {
      Read& read = *reads_[i];
      // A read whose state is set may not be counted yet: the next round takes it.
      if (seen == gate_.completed.load(std::memory_order_acquire)) break;
      if (read.file == nullptr || !read.finished()) continue;
      samples.push_back(static_cast<double>(reader_->now_ns() - read.finished_ns) * 1e-3);
      if (read.state.load() == ReadState::kFailed && status.ok()) status = read_error(read);
      seen++;
      if (status.ok() && seconds_since(*reader_, begin) < seconds)
        submit(i);
      else
        read.file = nullptr;
    }
  }
  LLMD_RETURN_IF_ERROR(std::move(status));
  HandOff result;
  result.samples = samples.size();
  result.p50 = percentile(samples, 0.5);
  result.p90 = percentile(samples, 0.9);
  result.p99 = percentile(samples, 0.99);
  result.max = samples.empty() ? 0 : samples.back();
  return result;
}

}  // namespace llmd
