// Writes requests of every kind that the server knows into the folder given.
#include <filesystem>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  std::filesystem::create_directories(argv[1]);
  const std::string body = R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})";
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  const std::string post = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n";
  const std::string seeds[] = {
      "GET /health HTTP/1.1\r\nHost: h\r\n\r\n",
      "HEAD //v1//models/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: h\r\nOrigin: http://o\r\n\r\n",
      "GET http://h/v1/models/fake-model?x#y HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      post + "Content-Type: application/json\r\n" + length + body,
      post + "Expect: 100-continue\r\nAuthorization: Bearer k\r\nx-api-key: k\r\n" + length + body,
      post + "Transfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\n{\"a\":\r\n2\r\n1}\r\n0\r\nTrailer: 1\r\n\r\n",
      post + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
      post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      post + "Transfer-Encoding: xchunked\r\n\r\n{}",
      "POST /tokenize HTTP/1.1\r\nHost: h\r\nContent-Length: 15\r\n\r\n{\"content\":\"a\"}"
      "GET /props HTTP/1.1\r\nHost: h\r\n\r\nDELETE /slots HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET / HTTP/1.1\nHost: h\n folded\n\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  };
  int number = 0;
  for (const std::string& seed : seeds) {
    std::ofstream(std::string(argv[1]) + "/" + std::to_string(number++), std::ios::binary) << seed;
  }
  return 0;
}
