// reader_stress [ROUNDS] [SEED]: rounds of reads over the lying disk, each with a fresh seed, until one goes wrong.
//
// Every round must end with the right bytes or a typed error for every read. A wrong round prints its seed; give the
// seed with ROUNDS 1 to see it again. Exit code 0 = all rounds right.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "fault_stress.h"

int main(int argc, char** argv) {
  uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
  std::printf("first seed %" PRIu64 "\n", seed);
  uint64_t done = 0, failed = 0;
  for (uint64_t round = 0; round < rounds; ++round, ++seed) {
    llmd::StressResult result = llmd::run_fault_stress(llmd::dying_disk(seed), 150);
    done += result.done;
    failed += result.failed;
    if (result.wrong == 0 && result.untyped == 0) continue;
    std::printf("seed %" PRIu64 ": %" PRIu64 " reads with wrong bytes, %" PRIu64 " with an untyped error\n", seed,
                result.wrong, result.untyped);
    return 1;
  }
  std::printf("%" PRIu64 " reads right, %" PRIu64 " with a typed error, none wrong\n", done, failed);
  return 0;
}
