// libFuzzer target for the file of checksums of one small model. The last four bytes are made right in a second try, so
// that what lies behind the file's own checksum is reached too. Whatever it says, it is that model's or a typed error.
#include <cstring>
#include <vector>

#include "io/crc32c.h"
#include "model/checksums.h"
#include "tests/fuzz/checksums_model.h"

namespace llmd {
namespace {

void run(std::span<const std::byte> bytes) {
  static const GgufModel model = fuzz_model();
  Result<ModelChecksums> parsed = ModelChecksums::parse("fuzz", bytes, model);
  if (!parsed.ok()) {
    LLMD_CHECK(parsed.error().code == "checksums_invalid" && parsed.error().kind == ErrorKind::kOperating);
    LLMD_CHECK(!parsed.error().message.empty() && parsed.error().message.size() < 1000);
    return;
  }
  std::vector<std::byte> again = parsed->serialize();
  LLMD_CHECK(again.size() == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
}

}  // namespace
}  // namespace llmd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  llmd::run(bytes);
  if (size < 4) return 0;
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  uint32_t crc = llmd::crc32c(bytes.first(size - 4));
  std::memcpy(sealed.data() + size - 4, &crc, 4);
  llmd::run(sealed);
  return 0;
}
