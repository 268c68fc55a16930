// read_finding_depth(): reads a list of pieces that are needed anyway and learns from them how the drive likes to be
// read.
//
// Slices of the list are read with different numbers of bytes in flight, in turns, so that a drive that changes its
// mind meanwhile does so for all of them. Each depth is judged by the median of its slices; the reader then goes on
// with the shallowest that comes within 95 % of the best, because what is with the drive can no longer be overtaken by
// something more urgent. Lists too short to tell leave the reader as it is. What is read never depends on any of this.
//
// One thread calls it, with no other reads in the reader. A read that fails, or whose taker says so, ends it with that
// error, after every read in flight has come back; the reader stays usable.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "io/reader.h"

namespace llmd {

struct DepthSample {
  uint64_t bytes_in_flight = 0;
  double bytes_per_second = 0;  // median over its slices
};

/// What a sweep found.
struct DriveSpeed {
  uint64_t bytes = 0;  // read in all
  double seconds = 0;
  std::vector<DepthSample> samples;  // by rising depth; empty: too few bytes to tell
  uint64_t bytes_in_flight = 0;      // that the reader has been left with
  double bytes_per_second = 0;       // at that depth; without samples that of the whole list
};

/// The shallowest depth within 95 % of the best. Samples by rising depth, at least one.
const DepthSample& shallowest_good_depth(std::span<const DepthSample> samples);

/// `take` gets every read in the order of the list as soon as it is in; an error of its own ends the reading. The clock
/// that rates go by is the reader's.
Result<DriveSpeed> read_finding_depth(Reader& reader, std::span<Read* const> reads,
                                      const std::function<Status(const Read&)>& take);

}  // namespace llmd
