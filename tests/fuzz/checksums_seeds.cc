// Seeds of checksums_fuzz: the right file, and the same cut short. Usage: checksums_seeds FOLDER
#include <filesystem>
#include <fstream>

#include "model/checksums.h"
#include "tests/fuzz/checksums_model.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  const llmd::GgufModel model = llmd::fuzz_model();
  llmd::ChecksumLayout layout(model);
  const std::vector<std::byte> bytes =
      llmd::ModelChecksums(layout, std::vector<uint32_t>(layout.count(), 0x12345678)).serialize();
  for (const size_t length : {bytes.size(), bytes.size() - 4, size_t{36}, size_t{8}}) {
    std::ofstream file(folder / std::to_string(length), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(length));
  }
  return 0;
}
