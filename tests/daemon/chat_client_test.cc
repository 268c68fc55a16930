#include "daemon/chat_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseUrl, TakesHostPortAndPath) {
  const struct {
    const char *url, *host, *port, *path;
  } cases[] = {
      {"http://127.0.0.1:8080", "127.0.0.1", "8080", ""},
      {"http://host", "host", "80", ""},
      {"http://host:1/v1/", "host", "1", "/v1"},
      {"http://[::1]:9/x", "::1", "9", "/x"},
      {"http://[::1]", "::1", "80", ""},
  };
  for (const auto& item : cases) {
    const auto address = parse_url(item.url);
    ASSERT_TRUE(address.ok()) << item.url;
    EXPECT_EQ(address->host, item.host);
    EXPECT_EQ(address->port, item.port);
    EXPECT_EQ(address->path, item.path);
  }
}

TEST(ParseUrl, RefusesEverythingElse) {
  for (const char* url : {"", "host:80", "https://host", "http://", "http://:80", "http://h:0", "http://h:99999",
                          "http://h:x", "http://h o", "http://h/\r\nX: y"}) {
    EXPECT_FALSE(parse_url(url).ok()) << url;
  }
}

/// Feeds `text` in pieces of `step` bytes; the body, or "error".
std::string read_response(const std::string& text, size_t step, int* status = nullptr) {
  HttpResponseReader reader;
  std::string body;
  for (size_t i = 0; i < text.size(); i += step) {
    if (!reader.feed(std::string_view(text).substr(i, step), body).ok()) return "error";
  }
  if (!reader.end().ok()) return "error";
  if (status != nullptr) *status = reader.status();
  return body;
}

TEST(HttpResponseReader, ReadsEveryFraming_HoweverItIsCut) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const std::pair<std::string, const char*> cases[] = {
      {ok + "Content-Length: 5\r\n\r\nhello", "hello"},
      {ok + "content-length:0\r\n\r\n", ""},
      {ok + "Connection: close\r\n\r\nhello", "hello"},
      {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n", "hello"},
      {"HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 5\r\n\r\nhello", "hello"},
      {ok + "Transfer-Encoding: chunked\r\n\r\n", "error"},
      {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "error"},
      {ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhel", "error"},
      {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nhel\r\n", "error"},
      {ok + "Content-Length: 6\r\n\r\nhello", "error"},
      {ok + "Content-Length: -1\r\n\r\nhello", "error"},
      {"SSH-2.0-OpenSSH\r\n\r\n", "error"},
      {ok, "error"},
      {"", "error"},
      {ok + std::string(70000, 'x'), "error"},
  };
  for (const auto& [text, body] : cases) {
    for (const size_t step : {1ul, 2ul, 3ul, 7ul, 100000ul}) {
      EXPECT_EQ(read_response(text, step), body) << text.substr(0, 100) << " in steps of " << step;
    }
  }
}

TEST(HttpResponseReader, KeepsTheStatus) {
  int status = 0;
  EXPECT_EQ(read_response("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", 1, &status), "{}");
  EXPECT_EQ(status, 503);
}

TEST(EventStreamReader, GivesTheDataOfEachEvent_HoweverItIsCut) {
  const std::string text =
      ": ping\n\ndata: {\"a\":1}\n\nevent: x\ndata: one\r\ndata:two\r\n\r\ndata:\n\ndata: [DONE]\n\ndata: cut";
  for (size_t step = 1; step < text.size(); ++step) {
    EventStreamReader reader;
    std::vector<std::string> events;
    for (size_t i = 0; i < text.size(); i += step) {
      ASSERT_TRUE(reader.feed(std::string_view(text).substr(i, step), events).ok());
    }
    EXPECT_THAT(events, ElementsAre("{\"a\":1}", "one\ntwo", "", "[DONE]"));
  }
}

TEST(EventStreamReader, RefusesAnEndlessEvent) {
  EventStreamReader reader;
  std::vector<std::string> events;
  const std::string line = "data: " + std::string(1000, 'x') + "\n";
  bool ok = true;
  for (int i = 0; i < 2000 && ok; ++i) ok = reader.feed(line, events).ok();
  EXPECT_FALSE(ok);
}

TEST(ChatDelta, FindsTextReasoningAndTheEnd) {
  const auto delta =
      parse_chat_delta(R"({"choices":[{"delta":{"content":"hi","reasoning_content":"hm"},"finish_reason":null}]})");
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->text, "hi");
  EXPECT_EQ(delta->reasoning, "hm");
  EXPECT_EQ(delta->finish_reason, "");
  EXPECT_EQ(parse_chat_delta(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})")->finish_reason, "stop");
}

TEST(ChatDelta, SurvivesWhatIsNotOne) {
  for (const char* data : {"{}", R"({"choices":[]})", R"({"choices":7})", R"({"choices":[7]})",
                           R"({"choices":[{"delta":null}]})", R"({"choices":[{"delta":{"content":7}}]})"}) {
    const auto delta = parse_chat_delta(data);
    ASSERT_TRUE(delta.ok()) << data;
    EXPECT_EQ(delta->text, "");
  }
  for (const char* data : {"", "nonsense", "[1]", "\xff"}) EXPECT_FALSE(parse_chat_delta(data).ok()) << data;
  EXPECT_EQ(parse_chat_delta(R"({"error":{"code":"model_read_error","message":"disk"}})").error().message, "disk");
  EXPECT_EQ(parse_chat_delta(R"({"error":7})").error().message, "the server reported an error");
}

TEST(ErrorText, PrefersTheServersOwnWords) {
  EXPECT_EQ(error_text(429, R"({"error":{"message":"the queue is full"}})"), "the queue is full (HTTP status 429)");
  EXPECT_THAT(error_text(502, "<html>"), HasSubstr("HTTP status 502"));
}

TEST(Printable, KeepsTheTerminalSafe) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\tö\x7f"), "a[2Jb\n\tö");
}

}  // namespace
}  // namespace llmd
