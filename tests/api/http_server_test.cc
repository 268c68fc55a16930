#include <string>
#include <vector>

#include "server_fixture.h"

namespace llmd::test {
namespace {

class HttpServerTest : public ServerTest {};

TEST_F(HttpServerTest, AnswersHealth_WhenReadyDegradedLoadingFailedOrDraining) {
  start();
  struct Row {
    EngineStatus::Phase phase;
    bool degraded;
    int status;
    const char* name;
  };
  using Phase = EngineStatus::Phase;
  for (const Row& row : {Row{Phase::kReady, false, 200, "ok"}, Row{Phase::kReady, true, 200, "degraded"},
                         Row{Phase::kLoading, false, 503, "loading"}, Row{Phase::kFailed, false, 503, "failed"},
                         Row{Phase::kDraining, false, 503, "draining"}}) {
    EngineStatus status;
    status.phase = row.phase;
    status.degraded = row.degraded;
    status.phase_detail = "reading core weights";
    status.progress = 0.25;
    engine_.set_status(status);
    const Response response = exchange(get("/health"));
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(parse(response.body)["status"], row.name);
    EXPECT_EQ(response.headers.count("retry-after"), row.status == 503 ? 1u : 0u);
    if (row.phase == Phase::kLoading) {
      EXPECT_EQ(parse(response.body)["progress"], 0.25);
      EXPECT_EQ(parse(response.body)["phase"], "reading core weights");
    }
  }
}

TEST_F(HttpServerTest, Answers503WithRetryAfter_WhenModelLoads) {
  EngineStatus status;
  status.phase_detail = "reading core weights";
  engine_.set_status(status);
  start();
  for (const std::string& request : {post(chat()), post(chat(R"("stream":true)")), get("/v1/models")}) {
    const Response response = exchange(request);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(error_code(response), "model_loading");
    EXPECT_EQ(response.headers.count("retry-after"), 1u);
  }
}

TEST_F(HttpServerTest, FindsPaths_WithAndWithoutPrefixSlashesAndQuery) {
  options_.model_aliases = {"org/alias"};
  start();
  for (const char* path : {"/models", "/v1/models", "/v1/models/", "//v1//models", "/v1/v1/models", "/v1/models?x=1",
                           "http://localhost/v1/models", "/v1/models/fake-model", "/models/fake%2Dmodel",
                           "/v1/models/org/alias", "/v1/models/org%2Falias", "/v1", "/", "/health/", "/v1/health"}) {
    EXPECT_EQ(exchange(get(path)).status, 200) << path;
  }
  for (const char* path : {"/nothing", "/v1/models2", "/v1/completion", "/v1/models/other", "/healthy"}) {
    const Response response = exchange(get(path));
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_TRUE(parse(response.body)["error"]["message"].is_string()) << path;
  }
  const nlohmann::json list = parse(exchange(get("/v1/models")).body);
  EXPECT_EQ(list["object"], "list");
  EXPECT_EQ(list["data"][0]["id"], "fake-model");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["created"], 1700000000);
  EXPECT_EQ(list["data"][1]["id"], "org/alias");
}

TEST_F(HttpServerTest, Answers405WithAllow_WhenMethodIsNotForThePath) {
  start();
  for (const char* method : {"GET", "PUT", "DELETE", "PATCH", "HEAD", "BREW"}) {
    const Response response = exchange(get("/v1/chat/completions", method), std::string(method) == "HEAD");
    EXPECT_EQ(response.status, 405) << method;
    EXPECT_EQ(response.headers.at("allow"), "POST, OPTIONS") << method;
  }
  EXPECT_EQ(exchange(post("{}", "/v1/models")).headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(exchange(get("/v1/chat/completions", "OPTIONS")).status, 204);
  EXPECT_EQ(exchange(get("*", "OPTIONS")).status, 204);
}

TEST_F(HttpServerTest, SendsNoBody_WhenMethodIsHead) {
  start();
  RawClient client(port());
  client.send(get("/health", "HEAD") + get("/v1/models"));
  const Response head = client.read_response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  const Response next = client.read_response();
  EXPECT_EQ(next.status, 200);
  EXPECT_EQ(parse(next.body)["object"], "list");
}

TEST_F(HttpServerTest, RefusesAndCloses_WhenRequestIsMalformed) {
  start();
  struct Row {
    std::string request;
    int status;
  };
  const std::string line = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n";
  const std::vector<Row> rows = {
      {line + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {line + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 400},
      {line + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400},
      {line + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
      {line + "Content-Length: 2, 2\r\nContent-Length: 2\r\n\r\n{}", 400},
      {line + "Content-Length: -1\r\n\r\n", 400},
      {line + "Content-Length: 99999999999999999999999\r\n\r\n", 400},
      {line + "Content-Length: 99999999999\r\n\r\n", 413},
      {line + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {line + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {line + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {line + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n", 400},
      {line + "Expect: a-miracle\r\nContent-Length: 2\r\n\r\n{}", 417},
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400},
      {"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", 400},
      {"GET /health HTTP/1.1\nHost: a\n\n", 400},
      {"GET /health\r\n\r\n", 400},
      {"nonsense\r\n\r\n", 400},
      {std::string("GET /he\0alth HTTP/1.1\r\nHost: localhost\r\n\r\n", 34), 400},
      {"GET /" + std::string(5000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414},
      {"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(70'000, 'a') + "\r\n\r\n", 431},
      {"POST /v1/chat/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
  };
  for (const Row& row : rows) {
    RawClient client(port());
    client.send(row.request);
    const Response response = client.read_response();
    const std::string name = row.request.substr(0, 120);
    EXPECT_EQ(response.status, row.status) << name;
    EXPECT_TRUE(parse(response.body).contains("error")) << name;
    EXPECT_EQ(client.read_to_end(), "") << name;
    EXPECT_TRUE(client.closed()) << name;
  }
  EXPECT_EQ(engine_.submitted(), 0u);
  EXPECT_TRUE(wait_connections(0));
  EXPECT_EQ(exchange(get("/health")).status, 200);
}

TEST_F(HttpServerTest, Answers413_WhenBodyIsTooLarge) {
  options_.body_bytes_max = 1000;
  start();
  RawClient announced(port());
  announced.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(error_code(announced.read_response()), "request_too_large");

  RawClient chunked(port());
  chunked.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 6; ++i) chunked.send("c8\r\n" + std::string(200, ' ') + "\r\n");
  EXPECT_EQ(chunked.read_response().status, 413);

  // The whole of a refused body arrives before the client reads: the reply must not be lost to a reset.
  RawClient eager(port());
  eager.send(post(std::string(200'000, 'x')));
  EXPECT_EQ(eager.read_response().status, 413);
}

TEST_F(HttpServerTest, RefusesABody_WhenTooManyBytesAreBeingReceived) {
  options_.body_bytes_total_max = 1500;
  start();
  RawClient first(port());
  first.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_TRUE(first.read_until("100 Continue"));
  // The first body is accounted once its first byte is waited for; a reply to another request orders the two.
  EXPECT_EQ(exchange(get("/health")).status, 200);
  const Response second = exchange(post(std::string(1000, ' ')));
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(error_code(second), "server_busy");
  first.close();
  EXPECT_TRUE(wait_connections(0));
  EXPECT_EQ(exchange(post(std::string(1000, ' '))).status, 400);
}

TEST_F(HttpServerTest, AnswersBeforeTheBody_WhenClientExpectsContinue) {
  engine_.answer({"Hello"});
  options_.body_bytes_max = 1000;
  start();
  RawClient client(port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(chat().size()) + "\r\n\r\n");
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send(chat());
  EXPECT_EQ(client.read_response().status, 200);

  RawClient large(port());
  large.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n");
  const std::string answer = large.read_to_end();
  EXPECT_EQ(answer.find("HTTP/1.1 413"), 0u) << answer;

  RawClient lost(port());
  lost.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 500\r\n\r\n");
  EXPECT_EQ(lost.read_to_end().find("HTTP/1.1 404"), 0u);
}

TEST_F(HttpServerTest, KeepsConnection_AfterErrorsAndPipelinedRequests) {
  engine_.answer({"Hello"});
  start();
  RawClient client(port());
  client.send(post("{") + get("/nowhere") + post(chat()) + post(chat(R"("stream":true)")) + get("/health"));
  EXPECT_EQ(client.read_response().status, 400);
  EXPECT_EQ(client.read_response().status, 404);
  EXPECT_EQ(parse(client.read_response().body)["choices"][0]["message"]["content"], "Hello");
  const Response stream = client.read_response();
  EXPECT_TRUE(stream.complete);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(parse(client.read_response().body)["status"], "ok");
  EXPECT_EQ(server_->stats().connections_total, 1u);
}

TEST_F(HttpServerTest, ReadsBody_WhenItComesByteByByteOrInChunks) {
  engine_.answer({"Hello"});
  start();
  RawClient slow(port());
  for (const char c : post(chat())) ASSERT_TRUE(slow.send(std::string(1, c)));
  EXPECT_EQ(slow.read_response().status, 200);

  std::string request =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\ntransfer-encoding: Chunked\r\nTrailer: X-T\r\n\r\n";
  for (const char c : chat()) request += std::string("1;ext=1\r\n") + c + "\r\n";
  request += "0\r\nX-T: 1\r\n\r\n";
  RawClient chunked(port());
  for (const char c : request) ASSERT_TRUE(chunked.send(std::string(1, c)));
  EXPECT_EQ(chunked.read_response().status, 200);
}

TEST_F(HttpServerTest, Closes_WhenHttp10OrAskedTo) {
  engine_.answer({"Hello"});
  start();
  RawClient old(port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  const std::string answer = old.read_to_end();
  EXPECT_EQ(answer.find("HTTP/1.0 200"), 0u) << answer;
  EXPECT_TRUE(old.closed());

  RawClient kept(port());
  kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.read_response().headers["connection"], "keep-alive");
  kept.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(kept.read_response().headers["connection"], "close");
  EXPECT_EQ(kept.read_to_end(), "");
  EXPECT_TRUE(kept.closed());

  RawClient stream(port());
  const std::string body = chat(R"("stream":true)");
  stream.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  const Response response = stream.read_response();
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0u);
  EXPECT_TRUE(response.body.ends_with("data: [DONE]\n\n")) << response.body;
}

TEST_F(HttpServerTest, ClosesSlowClients_WhenHeaderBodyOrNextRequestIsLate) {
  options_.header_timeout = options_.body_grace = options_.keep_alive_idle = std::chrono::milliseconds(100);
  start();
  RawClient header(port());
  header.send("GET /health HTT");
  EXPECT_EQ(header.read_response().status, 408);
  RawClient body(port());
  body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.read_response().status, 408);
  RawClient idle(port());
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(wait_connections(0));
}

TEST_F(HttpServerTest, MakesRoom_WhenConnectionsAreAtTheLimit) {
  options_.connections_max = 2;
  start();
  RawClient idle(port()), busy(port());
  idle.send(get("/health"));
  EXPECT_EQ(idle.read_response().status, 200);
  busy.send(post(chat()));
  ASSERT_TRUE(engine_.wait_submitted(1));
  EXPECT_EQ(exchange(get("/health")).status, 200);  // the idle one made room
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.closed());
  engine_.finish(1);
  EXPECT_EQ(busy.read_response().status, 200);
}

TEST_F(HttpServerTest, ListensOnUnixSocket_WhenAsked) {
  const std::string path = testing::TempDir() + "/llmd-" + std::to_string(getpid()) + ".sock";
  options_.listen = {"unix:" + path};
  start();
  EXPECT_EQ(port(), 0);
  EXPECT_EQ(access(path.c_str(), R_OK), 0);
  server_->stop();
  EXPECT_NE(access(path.c_str(), R_OK), 0);
}

TEST_F(HttpServerTest, SaysWhy_WhenAddressCannotBeUsed) {
  start();
  for (const std::string& listen :
       {std::string("nonsense"), std::string("127.0.0.1:99999"), std::string("127.0.0.1:x"), std::string(":80"),
        std::string("unix:"), std::string("not.an.address:1"), "127.0.0.1:" + std::to_string(port())}) {
    HttpOptions options = options_;
    options.listen = {listen};
    const auto server = HttpServer::start(options, engine_);
    ASSERT_FALSE(server.ok()) << listen;
    EXPECT_EQ(server.error().code, "listen_failed");
    EXPECT_NE(server.error().message.find(listen), std::string::npos);
  }
}

}  // namespace
}  // namespace llmd::test
