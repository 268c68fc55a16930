// Who may use the server: keys, names of the host, pages of other origins; and several addresses at once.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <fstream>
#include <vector>

#include "server_fixture.h"

namespace llmd::test {
namespace {

class AccessTest : public ServerTest {
 protected:
  static constexpr const char* kKey = "sk-0123456789abcdef";
  void with_key() { options_.keys = ApiKeys::parse(std::string("# users\n\nother-key-1\n") + kKey + " \r\n").value(); }
  /// GET or POST with these header lines.
  Response ask(const std::string& lines, const std::string& path = "/v1/models", const std::string& method = "GET") {
    return exchange(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n");
  }
};

TEST(ApiKeys, RefuseAFile_ThatHoldsNoKeyOrWhatIsNone) {
  for (const char* text : {"", "# none\n\n", "short\n", "with a space inside\n", "k\xC3\xA9yk\xC3\xA9yk\xC3\xA9y\n"}) {
    EXPECT_FALSE(ApiKeys::parse(text).ok()) << text;
  }
  const auto bad = ApiKeys::parse("good-key-number-1\nsecret word in a line\n");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("line 2"), std::string::npos);
  EXPECT_EQ(bad.error().message.find("secret"), std::string::npos);
}

TEST(ApiKeys, AcceptOnlyWhatIsListed) {
  const ApiKeys keys = ApiKeys::parse("abcdefgh\nijklmnop").value();
  EXPECT_TRUE(keys.accept("abcdefgh"));
  EXPECT_TRUE(keys.accept("ijklmnop"));
  for (const char* token : {"", "abcdefg", "abcdefghi", "ABCDEFGH", "abcdefgh\n"}) EXPECT_FALSE(keys.accept(token));
  EXPECT_FALSE(ApiKeys().accept(""));
}

TEST_F(AccessTest, NeedsAKey_ForAllButHealthAndOptions) {
  with_key();
  start();
  engine_.answer({"x"});
  for (const char* path : {"/v1/models", "/v1/models/fake-model", "/props", "/version", "/v1", "/", "/nothing",
                           "/v1/chat/completions", "/tokenize", "/slots", "/v1/embeddings"}) {
    const Response response = ask("", path);
    EXPECT_EQ(response.status, 401) << path;
    EXPECT_EQ(response.headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(error_code(response), "invalid_api_key");
    EXPECT_EQ(parse(response.body)["error"]["type"], "authentication_error");
  }
  EXPECT_EQ(ask("", "/health").status, 200);
  EXPECT_EQ(ask("", "/v1/chat/completions", "OPTIONS").status, 204);
}

TEST_F(AccessTest, TakesTheKey_AsBearerInAnyCaseOrXApiKey) {
  with_key();
  start();
  const std::string key = kKey;
  for (const std::string& line :
       {"Authorization: Bearer " + key, "authorization: bearer " + key, "Authorization: BEARER  " + key,
        "x-api-key: " + key, std::string("X-Api-Key: other-key-1")}) {
    EXPECT_EQ(ask(line + "\r\n").status, 200) << line;
  }
  for (const std::string& line :
       {"Authorization: " + key, "Authorization: Basic " + key, std::string("Authorization: Bearer"),
        "Authorization: Bearer x" + key, "x-api-key: " + key.substr(1), std::string("Authorization: Bearer # users")}) {
    EXPECT_EQ(ask(line + "\r\n").status, 401) << line;
  }
}

TEST_F(AccessTest, SharesWhatWasComputed_OnlyWithTheSameKey) {
  with_key();
  engine_.answer({"x"});
  start();
  const std::string body = chat();
  std::vector<uint64_t> spaces;
  for (const std::string& line : {std::string("Authorization: Bearer ") + kKey, std::string("x-api-key: ") + kKey,
                                  std::string("x-api-key: other-key-1")}) {
    const std::string request = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + line +
                                "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(exchange(request).status, 200) << line;
    spaces.push_back(engine_.request(engine_.submitted()).cache_space);
  }
  EXPECT_EQ(spaces[0], spaces[1]);
  EXPECT_NE(spaces[0], spaces[2]);
  EXPECT_NE(spaces[0], 0u);
}

TEST_F(AccessTest, RefusesBeforeTheBody_WhenTheKeyIsWrong) {
  with_key();
  start();
  RawClient client(port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{");
  EXPECT_EQ(client.read_response().status, 401);
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(engine_.submitted(), 0u);
}

TEST_F(AccessTest, RefusesOtherNamesOfALoopbackAddress_UnlessAllowed) {
  options_.allowed_hosts = {"Llm.Example.com"};
  start();
  const auto status = [&](const std::string& host) {
    return exchange("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* host : {"localhost", "localhost:8080", "127.0.0.1", "127.8.9.1:1", "[::1]:8080", "LOCALHOST.",
                           "a.localhost", "llm.example.com:443"}) {
    EXPECT_EQ(status(host), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"}) {
    EXPECT_EQ(status(host), 403) << host;
  }
  EXPECT_EQ(exchange("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
}

TEST_F(AccessTest, SaysNothingOfOrigins_UnlessTheyAreListed) {
  options_.cors_origins = {"https://chat.example"};
  start();
  const Response listed = ask("Origin: https://chat.example\r\n");
  EXPECT_EQ(listed.status, 200);
  EXPECT_EQ(listed.headers.at("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(listed.headers.at("vary"), "Origin");
  EXPECT_EQ(listed.headers.count("access-control-allow-credentials"), 0u);
  const Response preflight =
      ask("Origin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\n", "/v1/chat/completions", "OPTIONS");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_NE(preflight.headers.at("access-control-allow-headers").find("Authorization"), std::string::npos);
  const Response other = ask("Origin: https://evil.example\r\n");
  EXPECT_EQ(other.headers.count("access-control-allow-origin"), 0u);
}

// What a browser sends for a page without asking first.
TEST_F(AccessTest, RefusesFormPosts_OfPagesOfOtherOrigins) {
  start();
  engine_.answer({"x"});
  const auto status = [&](const std::string& lines) {
    const std::string body = chat();
    return exchange("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + lines +
                    "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body)
        .status;
  };
  EXPECT_EQ(status("Origin: https://evil.example\r\n"), 403);
  EXPECT_EQ(status("Origin: null\r\nContent-Type: application/x-www-form-urlencoded\r\n"), 403);
  EXPECT_EQ(status("Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(status("Origin: https://evil.example\r\nContent-Type: application/json\r\n"), 200);
  EXPECT_EQ(status(""), 200);
}

TEST_F(AccessTest, ListensOnSeveralAddresses) {
  const std::string path = testing::TempDir() + "llmd_access_" + std::to_string(getpid()) + ".sock";
  options_.listen = {"127.0.0.1:0", "[::1]:0", "unix:" + path};
  options_.unix_mode = 0600;
  start();
  const std::vector<std::string> addresses = server_->addresses();
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_EQ(addresses[0], "127.0.0.1:" + std::to_string(port()));
  EXPECT_TRUE(addresses[1].starts_with("[::1]:"));
  EXPECT_EQ(exchange(get("/health")).status, 200);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  // Any name will do on a socket file: no browser gets there.
  const std::string request = "GET /health HTTP/1.1\r\nHost: anything\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  char head[16] = {};
  EXPECT_GT(recv(fd, head, sizeof head - 1, 0), 12);
  EXPECT_EQ(std::string(head, 12), "HTTP/1.1 200");
  close(fd);
  server_->stop();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(AccessTest, KeepsAThousandIdleConnections_AndServesOneMore) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2200) GTEST_SKIP() << "SKIPPED: only " << limit.rlim_cur << " files may be open";
  start();
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<RawClient>(port()));
    ASSERT_TRUE(idle.back()->connected()) << i;
  }
  EXPECT_TRUE(wait_connections(1000));
  EXPECT_EQ(exchange(get("/health")).status, 200);
  for (size_t i : {size_t{0}, size_t{999}}) {
    idle[i]->send(get("/health"));
    EXPECT_EQ(idle[i]->read_response().status, 200);
  }
  idle.clear();
  EXPECT_TRUE(wait_connections(0));
}

TEST_F(AccessTest, PausesAccepting_WhenThereAreNoMoreDescriptors) {
  start();
  RawClient waiting(port());  // known before there are none
  waiting.send(get("/health"));
  EXPECT_EQ(waiting.read_response().status, 200);
  std::vector<int> taken;
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  RawClient late(port(), 0, false);  // its socket is made, but not connected
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) taken.push_back(fd);
  ASSERT_FALSE(taken.empty());
  EXPECT_TRUE(late.connect_to(port()));  // by the kernel: the server cannot take it
  late.send(get("/health"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const int fd : taken) close(fd);
  EXPECT_EQ(late.read_response().status, 200);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace llmd::test
