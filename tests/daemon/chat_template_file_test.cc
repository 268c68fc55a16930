// The file of --chat-template: what is taken, and what is refused before the model is read.
#include "daemon/chat_template_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace llmd {
namespace {

using ::testing::HasSubstr;

class ChatTemplateFile : public ::testing::Test {
 protected:
  ~ChatTemplateFile() override { std::filesystem::remove(path_); }
  Result<std::string> read(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return read_chat_template(path_);
  }
  void expect_refused(const std::string& content, const std::string& why) {
    const Result<std::string> source = read(content);
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.error().code, "chat_template_invalid");
    EXPECT_THAT(source.error().message, HasSubstr(path_));
    EXPECT_THAT(source.error().message, HasSubstr(why));
  }

  const std::string path_ = ::testing::TempDir() + "llmd_template_" + std::to_string(::getpid()) + ".jinja";
};

TEST_F(ChatTemplateFile, IsTakenByteForByte) {
  const std::string source = "{% for m in messages %}\r\n{{ m.content }}{% endfor %}\n\n";
  EXPECT_EQ(*read(source), source);
}

TEST_F(ChatTemplateFile, IsRefused_WhenItIsNotThereOrNoPlainFile) {
  EXPECT_THAT(read_chat_template("/nonexistent.jinja").error().message, HasSubstr("No such file"));
  for (const char* path : {"/", "/dev/zero", "/dev/null"}) {
    EXPECT_THAT(read_chat_template(path).error().message, HasSubstr("is not a plain file")) << path;
  }
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(read_chat_template(path_).error().message, HasSubstr("is not a plain file"));
}

TEST_F(ChatTemplateFile, IsRefused_WithTheLine_WhenItIsNoTemplate) {
  expect_refused("", "is empty");
  expect_refused("a\nb\n{% for x in %}", "line 3");
  expect_refused("{{ x", "line 1");
  expect_refused("{% include 'x' %}", "line 1");
  std::string nested;
  for (int i = 0; i < 100000; i++) nested += "(";
  expect_refused("{{ " + nested + " }}", "line 1");
}

TEST_F(ChatTemplateFile, IsRefused_WhenItIsHuge) {
  std::ofstream(path_).close();
  ASSERT_EQ(::truncate(path_.c_str(), off_t{1} << 40), 0);  // sparse
  EXPECT_THAT(read_chat_template(path_).error().message, HasSubstr("has more than 4194304 bytes"));
}

}  // namespace
}  // namespace llmd
