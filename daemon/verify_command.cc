// `llmd verify`: checks every byte of a model against its file of checksums, or with --write makes that file.
//
// Reads past the page cache, as fast as the drive gives, and within a fixed memory. Each mismatch is a line on stdout;
// the exit status is 1 when there is one, or when anything could not be read.
#include <chrono>
#include <cstdio>

#include "daemon/commands.h"
#include "daemon/log.h"
#include "daemon/model_loader.h"
#include "daemon/progress.h"
#include "model/checksum_scan.h"
#include "model/checksums.h"

namespace llmd {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print_line(const Error& error) {
  std::printf("%s\n", escape_controls(error.to_string()).c_str());
}

/// What a scan came to, in words: "1296 checksums, 11.4 GiB in 12.3 s (0.93 GiB/s)".
std::string amount(uint64_t checksums, uint64_t bytes, double seconds) {
  char took[64];
  std::snprintf(took, sizeof took, " in %.1f s (%.2f GiB/s)", seconds,
                static_cast<double>(bytes) / 1073741824 / std::max(seconds, 1e-9));
  return std::to_string(checksums) + " checksums, " + human_bytes(bytes) + took;
}

class Verification {
 public:
  Verification(const GgufModel& model, const Options& options)
      : model_(&model),
        layout_(model),
        path_(options.checksums_file.empty() ? ModelChecksums::default_path(model) : options.checksums_file) {
    for (const GgufShard& shard : model.shards()) bytes_ += shard.file_bytes;
    reader_options_.path = reader_path(options.read_path);
  }

  Status open() {
    for (const GgufShard& shard : model_->shards()) {
      LLMD_ASSIGN_OR_RETURN(DirectFile file, DirectFile::open(shard.path));
      if (file.bytes() != shard.file_bytes)
        return operating_error("model_truncated", "the file changed size while it was opened", shard.path);
      files_.push_back(std::move(file));
    }
    LLMD_ASSIGN_OR_RETURN(reader_, Reader::create(reader_options_));
    return {};
  }

  Result<int> write() {
    std::vector<uint32_t> values(layout_.count());
    std::optional<Error> failed;
    scan("checksumming", {[&](const ChecksumRange& range, uint32_t slice, uint32_t crc) {
                            values[range.first + slice] = crc;
                            found_++;
                          },
                          [&](const Error& error) {
                            if (!failed) failed = error;
                          },
                          {}});
    if (failed) return *failed;
    LLMD_CHECK(found_ == layout_.count());
    LLMD_RETURN_IF_ERROR(ModelChecksums(std::move(layout_), std::move(values)).write(path_));
    std::printf("%s: written; %s\n", escape_controls(path_).c_str(), amount(found_, bytes_, seconds_).c_str());
    return 0;
  }

  Result<int> check() {
    LLMD_ASSIGN_OR_RETURN(const ModelChecksums checksums, ModelChecksums::read(path_, *model_));
    uint64_t bad = 0, unreadable = 0;
    scan("verifying", {[&](const ChecksumRange& range, uint32_t slice, uint32_t crc) {
                         found_++;
                         if (crc == checksums.value(range, slice)) return;
                         bad++;
                         print_line(checksums.mismatch(range, slice));
                       },
                       [&](const Error& error) {
                         unreadable++;
                         print_line(error);
                       },
                       {}});
    std::string what = amount(found_, bytes_, seconds_);
    if (bad == 0 && unreadable == 0) {
      std::printf("%s: all in order; %s\n", escape_controls(model_->shards()[0].path).c_str(), what.c_str());
      return 0;
    }
    std::string counts = std::to_string(bad) + " do not match";
    if (found_ < layout_.count()) counts += ", " + std::to_string(layout_.count() - found_) + " more could not be read";
    return operating_error("model_checksum_mismatch", counts + " (" + what + "); fetch the model again");
  }

 private:
  void scan(const char* label, ModelScan events) {
    Progress progress(label, bytes_, Progress::Unit::kBytes);
    events.progress = [&](uint64_t done) { progress.update(done); };
    seconds_ = now_seconds();
    scan_model(layout_, files_, *reader_, events);
    seconds_ = now_seconds() - seconds_;
  }

  const GgufModel* model_;
  ChecksumLayout layout_;
  std::string path_;
  ReaderOptions reader_options_;
  std::vector<DirectFile> files_;
  std::unique_ptr<Reader> reader_;
  uint64_t bytes_ = 0, found_ = 0;
  double seconds_ = 0;
};

Result<int> verify(const Options& options) {
  LLMD_ASSIGN_OR_RETURN(const GgufModel model, GgufModel::open(options.model));
  Verification verification(model, options);
  LLMD_RETURN_IF_ERROR(verification.open());
  return options.write_checksums ? verification.write() : verification.check();
}

}  // namespace

int run_verify(const Options& options) {
  Result<int> status = verify(options);
  return status.ok() ? *status : report(status.error());
}

}  // namespace llmd
