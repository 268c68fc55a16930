// Writes bodies that use every field into the folder given, each behind the byte that picks its endpoint.
#include <filesystem>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  std::filesystem::create_directories(argv[1]);
  const std::string seeds[] = {
      R"( {"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}],"model":"fake-model","stream":true,"stream_options":{"include_usage":true},"n":2})",
      R"( {"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}],"max_completion_tokens":5.0,"stop":["a","b"],"seed":-1})",
      R"( {"messages":[{"role":"developer","content":"\ud83d\ude00"}],"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"typical_p":1,"repeat_penalty":1.1,"presence_penalty":-2,"frequency_penalty":2,"logit_bias":{"97":-100},"logprobs":true,"top_logprobs":20})",
      R"( {"messages":[{"role":"user","content":"<|end|>"}],"chat_template_kwargs":{"extra":[1,{"a":null}]},"enable_thinking":false,"reasoning_effort":"high","response_format":{"type":"text"},"tools":[],"tool_choice":"none","min_tokens":1,"stop_token_ids":[97],"cache_salt":"s","priority":-3,"deadline_seconds":10})",
      R"(!{"prompt":"abc","max_tokens":7,"logprobs":5,"parse_special":true,"best_of":1,"suffix":"","echo":false})",
      R"(!{"prompt":[[97,98,257]],"logit_bias":[["ab",false],[3,1.5]],"ignore_eos":true})",
      R"("{"content":"a<|end|>\u00e9","add_special":true,"parse_special":false,"with_pieces":true})",
      R"(#{"tokens":[1,97,257,195]})",
      R"($ [[[[[[[[[]]]]]]]]])",
      R"(  {"a":1e999,"a":-0,"b":"\ud83d","c":"\u0000"})",
  };
  int number = 0;
  for (const std::string& seed : seeds) {
    std::ofstream(std::string(argv[1]) + "/" + std::to_string(number++), std::ios::binary) << seed;
  }
  return 0;
}
