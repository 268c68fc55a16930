#include "io/depth_sweep.h"

#include <algorithm>
#include <array>

namespace llmd {
namespace {

// 64 MiB, the reader's own default, is left out: no drive needs it, and a slice would have to be as long.
constexpr std::array<uint64_t, 5> kDepths = {2u << 20, 4u << 20, 8u << 20, 16u << 20, 32u << 20};
constexpr uint64_t kSliceBytes = 32u << 20;
constexpr size_t kRoundsMin = 2, kRoundsMax = 5;
constexpr double kGoodShare = 0.95;
// The I/O thread may wait some milliseconds for a processor that computes; the drive must not run dry meanwhile.
constexpr double kCushionSeconds = 0.004;
constexpr size_t kWindow = 256;  // reads handed to the reader at once

/// Walks the list once, in slices.
class ListReader {
 public:
  ListReader(Reader& reader, std::span<Read* const> reads, const std::function<Status(const Read&)>& take)
      : reader_(reader), reads_(reads), take_(take) {}

  /// Reads on until `bytes` more are in or the list ends, and waits for them. Returns how many came.
  uint64_t read_slice(uint64_t bytes) {
    uint64_t submitted_bytes = 0, finished_bytes = 0;
    size_t submitted = next_;
    while (true) {
      while (submitted < reads_.size() && submitted_bytes < bytes && submitted < next_ + kWindow && status_.ok()) {
        submitted_bytes += reads_[submitted]->length;
        reader_.submit(reads_.subspan(submitted++, 1));
      }
      if (next_ == submitted) return finished_bytes;
      Read& read = *reads_[next_++];
      wait_for(read);
      if (read.state.load() == ReadState::kFailed && status_.ok()) status_ = read_error(read);
      finished_bytes += read.length;
      if (status_.ok()) status_ = take_(read);
    }
  }
  bool at_end() const { return next_ == reads_.size() || !status_.ok(); }
  Status take_status() { return std::move(status_); }

 private:
  Reader& reader_;
  std::span<Read* const> reads_;
  const std::function<Status(const Read&)>& take_;
  size_t next_ = 0;
  Status status_;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double seconds_between(uint64_t begin_ns, uint64_t end_ns) {
  return std::max(1e-9, static_cast<double>(end_ns - begin_ns) * 1e-9);
}

}  // namespace

const DepthSample& shallowest_good_depth(std::span<const DepthSample> samples) {
  LLMD_CHECK(!samples.empty());
  double best = 0;
  for (const DepthSample& sample : samples) best = std::max(best, sample.bytes_per_second);
  auto good = [&](const DepthSample& sample) {
    double cushion = std::min(best * kCushionSeconds, static_cast<double>(samples.back().bytes_in_flight));
    return sample.bytes_per_second >= kGoodShare * best && static_cast<double>(sample.bytes_in_flight) >= cushion;
  };
  auto found = std::find_if(samples.begin(), samples.end(), good);
  return found == samples.end() ? samples.back() : *found;
}

Result<DriveSpeed> read_finding_depth(Reader& reader, std::span<Read* const> reads,
                                      const std::function<Status(const Read&)>& take) {
  DriveSpeed speed;
  for (const Read* read : reads) speed.bytes += read->length;
  ListReader list(reader, reads, take);
  const uint64_t before = reader.bytes_in_flight_max(), begin = reader.now_ns();
  size_t rounds = static_cast<size_t>(speed.bytes / (kSliceBytes * kDepths.size()));
  rounds = rounds < kRoundsMin ? 0 : std::min(rounds, kRoundsMax);
  std::array<std::vector<double>, kDepths.size()> rates;
  for (size_t round = 0; round < rounds && !list.at_end(); ++round) {
    for (size_t d = 0; d < kDepths.size() && !list.at_end(); ++d) {
      reader.set_bytes_in_flight_max(kDepths[d]);
      uint64_t slice_begin = reader.now_ns();
      uint64_t bytes = list.read_slice(kSliceBytes);
      rates[d].push_back(static_cast<double>(bytes) / seconds_between(slice_begin, reader.now_ns()));
    }
  }
  reader.set_bytes_in_flight_max(before);
  if (rounds > 0 && std::all_of(rates.begin(), rates.end(), [](const auto& r) { return !r.empty(); })) {
    for (size_t d = 0; d < kDepths.size(); ++d) speed.samples.push_back({kDepths[d], median(rates[d])});
    const DepthSample& good = shallowest_good_depth(speed.samples);
    reader.set_bytes_in_flight_max(good.bytes_in_flight);
    speed.bytes_per_second = good.bytes_per_second;
  }
  list.read_slice(UINT64_MAX);
  LLMD_RETURN_IF_ERROR(list.take_status());
  speed.seconds = seconds_between(begin, reader.now_ns());
  speed.bytes_in_flight = reader.bytes_in_flight_max();
  if (speed.samples.empty()) speed.bytes_per_second = static_cast<double>(speed.bytes) / speed.seconds;
  return speed;
}

}  // namespace llmd
