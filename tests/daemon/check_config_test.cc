#include "daemon/check_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmd {
namespace {

using ::testing::HasSubstr;

TEST(CheckConfig, AcceptsPathsThatAreThere) {
  Options options;
  options.model = LLMD_SOURCE_DIR "/CMakeLists.txt";
  options.chat_template_file = LLMD_SOURCE_DIR "/README.md";
  EXPECT_TRUE(check_paths(options).ok());
}

TEST(CheckConfig, NamesTheSettingAndThePath) {
  Options options;
  options.model = "/nonexistent.gguf";
  EXPECT_THAT(check_paths(options).error().message,
              HasSubstr("model: /nonexistent.gguf cannot be used: No such file or directory"));
  options.model = "/";
  EXPECT_THAT(check_paths(options).error().message, HasSubstr("model: / is a folder"));
  options.model = LLMD_SOURCE_DIR "/CMakeLists.txt";
  options.chat_template_file = "/nonexistent.jinja";
  EXPECT_THAT(check_paths(options).error().message, HasSubstr("chat_template: /nonexistent.jinja cannot be used"));
  EXPECT_EQ(exit_status(check_paths(options).error()), 78);
  options.chat_template_file = "/";
  EXPECT_THAT(check_paths(options).error().message, HasSubstr("chat_template: / is not a plain file"));
}

}  // namespace
}  // namespace llmd
