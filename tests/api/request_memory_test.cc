// What a request costs before it is admitted: at most a MiB for 10 KiB, whatever is in it. Every operator new of this
// thread is counted while one is prepared.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>

#include "api/chat_service.h"
#include "fake_engine.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

thread_local bool counting = false;
thread_local int64_t held_bytes = 0, most_bytes = 0;

__attribute__((noinline)) void* count_in(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  if (counting) most_bytes = std::max(most_bytes, held_bytes += static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}

__attribute__((noinline)) void count_out(void* memory) {
  if (counting && memory != nullptr) held_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) {
  return count_in(std::malloc(bytes));
}
void operator delete(void* memory) noexcept {
  count_out(memory);
}
void operator delete(void* memory, size_t) noexcept {
  count_out(memory);
}

namespace llmd::test {
namespace {

constexpr size_t kBodyBytes = 10 << 10;
constexpr int64_t kMost = 1 << 20;

class RequestMemoryTest : public testing::Test {
 protected:
  RequestMemoryTest() {
    engine_.mutable_info().context_tokens = 1 << 20;
    engine_.mutable_info().chat_template =
        "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] }}{% if m.tool_calls %}"
        "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments }}{% endfor %}{% endif %}{% endfor %}";
  }
  /// The most that was held at once.
  int64_t cost(Work work, std::string body) {
    ChatService service(engine_, options_);
    service.prepare(Work::kChat, R"({"messages":[{"role":"user","content":"a"}]})");  // the template is parsed once
    held_bytes = most_bytes = 0;
    counting = true;
    {
      const PrepareOutcome outcome = service.prepare(work, std::move(body));
      counting = false;
    }
    return most_bytes;
  }
  /// `head`, then `item` until kBodyBytes are full, separated by commas, then `tail`.
  static std::string filled(const std::string& head, const std::string& item, const std::string& tail) {
    std::string body = head + item;
    while (body.size() + item.size() + 1 + tail.size() <= kBodyBytes) body += "," + item;
    return body + tail;
  }

  FakeEngine engine_;
  HttpOptions options_;
};

TEST_F(RequestMemoryTest, IsAtMostAMiB_ForTenKiBOfAnything) {
  const std::string chat = R"({"messages":[{"role":"user","content":"a"}],)";
  const std::string user = R"({"role":"user","content":)";
  const std::pair<const char*, std::string> bodies[] = {
      {"one long text", filled(R"({"messages":[)" + user + "\"", std::string(4000, 'a'), "\"}]}")},
      {"empty arrays", filled("[", "[]", "]")},
      {"empty objects", filled("[", "{}", "]")},
      {"numbers", filled("[", "1", "]")},
      {"short texts", filled("[", "\"\"", "]")},
      {"members of one object", filled(chat + "\"a\":{", R"("b":0)", "}}")},
      {"unknown fields", filled(chat + "\"metadata\":[", "[]", "]}")},
      {"messages", filled(R"({"messages":[)", user + "\"\"}", "]}")},
      {"parts", filled(R"({"messages":[)" + user + "[", R"({"type":"text","text":""})", "]}]}")},
      {"tool calls",
       filled(R"({"messages":[{"role":"assistant","tool_calls":[)", R"({"function":{"name":""}})", "]}]}")},
      {"template kwargs", filled(chat + R"("chat_template_kwargs":{"a":[)", "[]", "]}}")},
      {"biases", filled(chat + "\"logit_bias\":[", "[1,1]", "]}")},
      {"bias texts", filled(chat + "\"logit_bias\":[", R"(["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",1])", "]}")},
      {"stop ids", filled(chat + "\"stop_token_ids\":[", "1", "]}")},
  };
  for (const auto& [name, body] : bodies) {
    ASSERT_GT(body.size(), kBodyBytes / 2) << name;
    const int64_t bytes = cost(Work::kChat, body);
    EXPECT_LE(bytes, kMost) << name;
    RecordProperty(name, std::to_string(bytes));
  }
  EXPECT_LE(cost(Work::kCompletion, filled(R"({"prompt":[)", "1", "]}")), kMost);
  EXPECT_LE(cost(Work::kCompletion, filled(R"({"prompt":")", std::string(4000, 'a'), "\"}")), kMost);
  EXPECT_LE(cost(Work::kTokenize, filled(R"({"with_pieces":true,"content":")", std::string(4000, 'a'), "\"}")), kMost);
  EXPECT_LE(cost(Work::kDetokenize, filled(R"({"tokens":[)", "1", "]}")), kMost);
}

}  // namespace
}  // namespace llmd::test

#endif
