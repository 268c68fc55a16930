// The version of the program; a test keeps it equal to the one in CMakeLists.txt. A constant: any thread may read it.
#pragma once

#include <string_view>

namespace llmd {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace llmd
