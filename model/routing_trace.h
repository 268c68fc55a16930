// RoutingTrace: which experts every layer of every step wanted, written by `llmd bench --trace`, replayed by
// `llmd bench cache`.
//
// The file, little-endian:
//
//   "llmdtrc1"                                            8 bytes
//   experts of a layer, used by a row, layers, classes    4 x u32
//   per size class:  slot bytes                           u64
//   per layer:       size class (-1: no experts), expert bytes     i64, u64
//   records, to the end of the file, in the order of the run:
//     step, layer, rows                                   3 x u32
//     ids of row 0, ids of row 1, ...                     rows x used x u16
//
// The sizes make a replay possible without the model. The writer buffers; its errors show in close(). One thread each.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "io/result.h"
#include "model/pool_layout.h"

namespace llmd {

struct RoutingTrace {
  struct Record {
    uint32_t step = 0;
    int32_t layer = 0;
    uint32_t rows = 0;
    size_t first_id = 0;  // in ids; rows * used of them
  };
  PoolShape shape;
  std::vector<Record> records;
  std::vector<uint16_t> ids;

  /// Errors: "file_open"; "trace_invalid" with the offset, for anything that no writer writes.
  static Result<RoutingTrace> load(const std::string& path);
};

class RoutingTraceWriter {
 public:
  /// Errors: "file_open".
  static Result<RoutingTraceWriter> create(const std::string& path, const PoolShape& shape);
  /// A MoeExecutor::TraceFn; the context is the writer.
  static void record(void* writer, int32_t layer, const int32_t* ids, int64_t count);
  /// Errors: "file_write".
  Status close();

 private:
  RoutingTraceWriter() = default;
  std::ofstream file_;
  std::string path_;
  uint32_t used_ = 0, step_ = 0;
  int32_t last_layer_ = -1;
};

}  // namespace llmd
