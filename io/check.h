// LLMD_CHECK: a condition that only a bug in llmd can break. Always on, in every build; prints one line and aborts.
//
// It is never reachable from input: what a client, a file, a disk or the kernel can cause is an Error (io/result.h).
// Any thread may use it. It allocates nothing.
#pragma once

namespace llmd {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace llmd

#define LLMD_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::llmd::check_failed(#condition, __FILE__, __LINE__))
