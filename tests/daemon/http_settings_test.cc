// What the HTTP server is told of the settings: keys, addresses, names.
#include "daemon/http_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace llmd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class HttpSettings : public testing::Test {
 protected:
  HttpSettings() : folder_(testing::TempDir() + "llmd_http_settings_" + std::to_string(getpid())) {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::create_directories(folder_);
  }
  ~HttpSettings() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), 0600);
    return path;
  }
  static Result<Options> parse(std::vector<std::string_view> arguments) {
    arguments.insert(arguments.begin(), {"serve", "--model", "m"});
    return parse_options(arguments, [](std::string_view) { return std::nullopt; });
  }
  Result<HttpOptions> settings(const std::vector<std::string_view>& arguments) {
    const Result<Options> options = parse(arguments);
    if (!options) return options.error();
    return http_options(*options, [this](std::string_view name) -> std::optional<std::string> {
      if (name == "CREDENTIALS_DIRECTORY" && !credentials_.empty()) return credentials_;
      return std::nullopt;
    });
  }

  std::string folder_, credentials_;
};

TEST_F(HttpSettings, TakeKeysFromTheFileAndTheCredential) {
  const std::string keys = file("keys", "# mine\nkey-number-one\n");
  credentials_ = folder_;
  file("llmd-api-keys", "key-number-two\n");
  const auto http = settings({"--api-key-file", keys, "--listen", "0.0.0.0:80"});
  ASSERT_TRUE(http.ok()) << http.error().message;
  EXPECT_TRUE(http->keys.accept("key-number-one"));
  EXPECT_TRUE(http->keys.accept("key-number-two"));
  EXPECT_FALSE(http->keys.accept("# mine"));
  EXPECT_EQ(client_key(keys).value(), "key-number-one");
}

TEST_F(HttpSettings, RefuseAKeyFileThatIsNone_WithoutQuotingIt) {
  const std::string bad = file("bad", "hidden words\n");
  for (const std::string& path : {bad, folder_ + "/missing", file("empty", "\n")}) {
    const auto http = settings({"--api-key-file", path});
    ASSERT_FALSE(http.ok());
    EXPECT_EQ(http.error().code, "config_invalid");
    EXPECT_THAT(http.error().message, HasSubstr(path));
    EXPECT_EQ(http.error().message.find("hidden"), std::string::npos);
  }
}

TEST_F(HttpSettings, ServeOtherMachines_OnlyWithKeysOrWhenForced) {
  for (const char* listen : {"0.0.0.0:80", "192.168.0.1:80", "[::]:80", "127.0.0.1:80,[2001:db8::1]:80"}) {
    const auto http = settings({"--listen", listen});
    ASSERT_FALSE(http.ok()) << listen;
    EXPECT_THAT(http.error().message, HasSubstr("--api-key-file"));
    EXPECT_TRUE(settings({"--listen", listen, "--insecure-listen", "on"}).ok()) << listen;
    EXPECT_TRUE(settings({"--insecure-listen", "--listen", listen}).ok()) << listen;
  }
  for (const char* listen : {"127.0.0.1:80", "127.1.2.3:80", "[::1]:80", "localhost:80", "unix:/run/x.sock"}) {
    EXPECT_TRUE(settings({"--listen", listen}).ok()) << listen;
  }
}

TEST_F(HttpSettings, ComeFromTheCommandLine) {
  const auto http = settings({"--listen", "127.0.0.1:1, [::1]:2,unix:/run/x.sock", "--alias", "one,two , three",
                              "--any-model", "--strict-params", "on", "--slots", "--socket-mode", "600",
                              "--cors-origins", "https://a,https://b", "--allowed-hosts", "h"});
  ASSERT_TRUE(http.ok()) << http.error().message;
  EXPECT_THAT(http->listen, ElementsAre("127.0.0.1:1", "[::1]:2", "unix:/run/x.sock"));
  EXPECT_THAT(http->model_aliases, ElementsAre("two", "three"));
  EXPECT_TRUE(http->ignore_model_name && http->strict_params && http->slots_page);
  EXPECT_EQ(http->unix_mode, 0600u);
  EXPECT_THAT(http->cors_origins, ElementsAre("https://a", "https://b"));
  EXPECT_THAT(http->allowed_hosts, ElementsAre("h"));
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"--listen", ""},
                                                                  {"--listen", "127.0.0.1:1,,"},
                                                                  {"--alias", "a,,b"},
                                                                  {"--socket-mode", "999"},
                                                                  {"--socket-mode", "rw"},
                                                                  {"--any-model", "maybe"}}) {
    EXPECT_FALSE(settings({flag, value}).ok()) << flag << " " << value;
  }
}

}  // namespace
}  // namespace llmd
