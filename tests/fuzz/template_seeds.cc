// Seeds of template_fuzz: small templates that together use the whole language. Usage: template_seeds FOLDER
#include <filesystem>
#include <fstream>
#include <string>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  const std::string variables =
      R"({"messages": [{"role": "user", "content": "hé <|x|>"}, {"role": "tool", "content": ["a", 1, 2.5, null]}], "n": 3})";
  const char* templates[] = {
      "{%- for m in messages if m.role is string -%}{{ loop.index0 }}<|{{ m['role'] }}|>{{ m.content | trim }}{%- "
      "endfor %}",
      "{% macro f(a, b=2) %}{{ a }}{{ b }}{% if a %}{{ f(a - 1) }}{% endif %}{% endmacro %}{{ f(n, b='x') }}",
      "{% set ns = namespace(x='') %}{% for i in range(n) %}{% set ns.x = ns.x + 'a' ~ i %}{% endfor %}{{ ns.x[::-1] "
      "}}",
      "{{ messages | tojson(indent=2) }}{{ messages | map(attribute='role') | join(', ') }}{{ messages | "
      "selectattr('role', 'eq', 'user') | list }}",
      "{% set x | upper %}a{{ n ** 2 // 3 % 4 }}{% endset %}{% filter indent(2) %}{{ x.split('A') }}{% endfilter %}",
      "{{ '{} {x}'.format(n, x=messages) }}{{ '%s %5.2f' % (n, 1.5) }}{{ {'a': [1, (2,)]}.items() | list | sort }}",
      "{% raw %}{{ x }}{% endraw %}{# c #}{% set a, (b, c) = 1, (2, 3) %}{{ a if b > c else d }}{{ "
      "raise_exception('no') }}",
      "{% for k, v in messages[0] | dictsort %}{% if loop.last %}{% break %}{% else %}{{ k.replace('o', v) }}{% endif "
      "%}{% endfor %}",
  };
  int number = 0;
  for (const char* source : templates) {
    std::ofstream file(folder / std::to_string(number++), std::ios::binary);
    file << source << '\0' << variables;
  }
  return 0;
}
