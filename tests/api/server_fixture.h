// ServerTest: a server on a free port with a fake engine behind it, with limits small enough to reach in a test.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "api/listener.h"
#include "fake_engine.h"
#include "raw_client.h"

namespace llmd::test {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    spdlog::set_level(spdlog::level::off);
    options_.listen = {"127.0.0.1:0"};
    options_.linger_timeout = std::chrono::milliseconds(500);
  }

  void start() {
    auto server = HttpServer::start(options_, engine_);
    ASSERT_TRUE(server.ok()) << server.error().to_string();
    server_ = std::move(server).value();
  }
  uint16_t port() const { return server_->port(); }

  static std::string get(const std::string& path, const std::string& method = "GET") {
    return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  static std::string post(const std::string& body, const std::string& path = "/v1/chat/completions") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  /// {"messages":[...one user message...]} and `more` members.
  static std::string chat(const std::string& more = "") {
    return R"({"messages":[{"role":"user","content":"Hi"}])" + (more.empty() ? "" : "," + more) + "}";
  }
  Response exchange(const std::string& request, bool head = false) {
    RawClient client(port());
    EXPECT_TRUE(client.send(request));
    return client.read_response(head);
  }
  static nlohmann::json parse(const std::string& body) { return nlohmann::json::parse(body, nullptr, false); }
  static std::string error_code(const Response& response) {
    const nlohmann::json body = parse(response.body);
    if (!body.is_object() || !body.contains("error")) return "no error object";
    return body["error"]["code"].get<std::string>();
  }
  /// The connection count falls to `count` before patience ends.
  bool wait_connections(uint32_t count) {
    for (int i = 0; i < 2000; ++i) {
      if (server_->stats().connections_open == count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  FakeEngine engine_;
  HttpOptions options_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace llmd::test
