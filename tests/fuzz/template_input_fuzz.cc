// Fuzzes what a client gives to a chat template: the first byte picks a template, the rest makes the conversation
// (always well-formed: shapes by the bytes, texts from them).
//
// A render ends with runs or a typed error. The templates are lower-case ASCII without "q" and "w"; every text of the
// client has a "Q" in it and bytes beyond ASCII. So a trusted run never shows either.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/template/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTemplates[] = {
    "{%- for m in messages %}{{ '<|' + m.role + '|>' + (m.content if m.content is string else m.content | tojson) | "
    "trim }}"
    "{%- if loop.last and add_generation_prompt %}<|assistant|>{% endif %}{%- endfor %}",
    "{%- for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{% for k, v in "
    "c.function.arguments.items() "
    "%}<{{ k }}>{{ v | tojson(indent=2) if v is mapping else v | string }}{% endfor %}{% endfor %}{% else %}{{ "
    "m.content.split('</t>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}",
    "{% set ns = namespace(s='', n=0) %}{% for m in messages if m.role is defined %}{% set ns.s = ns.s ~ "
    "m.content[::-1] ~ "
    "'|' %}{% set ns.n = ns.n + (m.content | length) %}{% endfor %}{{ ns.s.replace('|', '<|end|>') }}{{ ns.s | "
    "indent(2) }}",
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages | selectattr('role', 'equalto', 'user') | list | "
    "tojson }}{{ tools | tojson(indent=4) | indent(8) if tools else '' }}{{ messages | string }}",
    "{%- macro show(x, depth=0) -%}{% if x is mapping %}{% for k in x | sort %}{{ k | title }}: {{ show(x[k], depth + "
    "1) "
    "}}{% endfor %}{% elif x is iterable and x is not string %}{% for i in x %}- {{ show(i, depth + 1) }}{% endfor "
    "%}{% "
    "else %}{{ x | string | upper | lower }}{% endif %}{%- endmacro %}{{ show(messages) }}{{ show(tools) }}",
    "{% for m in messages %}{{ '%s: %s' % (m.role, m.content) }}{{ '{}{}'.format(m.content, m.name) }}{{ m.content | "
    "replace(m.role, '<|x|>') }}{{ m.content.strip(m.role) ~ m.content.splitlines() | join('<|nl|>') }}{% endfor %}",
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  bool empty() const { return rest_.empty(); }
  /// Client text: what stands in the input up to a zero byte, between marks; ASCII letters of it are lost.
  std::string text() {
    static constexpr std::string_view kSigns = "<|>/_ \n{}%'\"\\.-:Q";
    std::string out = "Q";
    for (uint8_t next = byte(); next != 0 && out.size() < 64; next = byte()) {
      if (next < 0x80) {
        out += kSigns[next % kSigns.size()];
      } else {
        out += static_cast<char>(next);  // often no UTF-8
      }
    }
    return out + "\u00E9";
  }
  Json value(int depth = 0) {
    const uint8_t kind = byte() % 8;
    Json out;
    if (kind < 2 && depth < 6) {
      out = kind == 0 ? Json::array() : Json::object();
      for (int i = byte() % 5; i > 0; i--) {
        if (kind == 0) out.push_back(value(depth + 1));
        if (kind == 1) out[text()] = value(depth + 1);
      }
      return out;
    }
    if (kind == 2) return byte() % 2 == 0;
    if (kind == 3) return static_cast<int64_t>(byte()) << (byte() % 56);
    if (kind == 4) return byte() / 7.0;
    if (kind == 5) return nullptr;
    return text();
  }

 private:
  std::string_view rest_;
};

Json conversation(Input& input) {
  Json messages = Json::array();
  while (!input.empty() && messages.size() < 20) {
    Json message = Json::object();
    const uint8_t kind = input.byte();
    message["role"] = (kind & 1) != 0 ? input.text() : "Q";
    message["content"] = (kind & 6) == 6 ? input.value() : Json(input.text());
    if ((kind & 8) != 0) message["name"] = input.text();
    if ((kind & 48) == 48) {
      const Json arguments = {{input.text(), input.value()}};
      message["tool_calls"] = Json::array({{{"function", {{"name", input.text()}, {"arguments", arguments}}}}});
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t which = input.byte() % std::size(kTemplates);
  llmd::TemplateLimits limits;
  limits.steps_max = 200'000;
  limits.output_bytes_max = size_t{1} << 20;
  limits.memory_bytes_max = size_t{16} << 20;
  const auto parsed = llmd::ChatTemplate::parse(kTemplates[which], limits);
  if (!parsed.ok()) std::abort();
  llmd::TemplateInput variables;
  if (input.byte() % 2 == 0) variables.variables["tools"] = input.value();
  variables.variables["messages"] = conversation(input);
  variables.variables["add_generation_prompt"] = true;
  const auto runs = parsed.value()->render(variables);
  if (!runs.ok()) {
    if (runs.error().code != "template_failed") std::abort();
    return 0;
  }
  for (const llmd::TextRun& run : *runs) {
    if (!run.trusted) continue;
    for (const char c : run.text) {
      if (c == 'Q' || c == 'q' || static_cast<unsigned char>(c) >= 0x80) std::abort();
    }
  }
  return 0;
}
