#include "io/check.h"

#include <cstdio>
#include <cstdlib>

namespace llmd {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "llmd: bug: %s:%d: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace llmd
