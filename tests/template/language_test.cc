// The template language, statement by statement and operator by operator. Expected outputs are Python's.
#include "tests/template/template_fixture.h"

namespace llmd {
namespace {

struct Case {
  const char* source;
  const char* expected;
};

void expect_renders(std::initializer_list<Case> cases, const std::string& variables = "{}") {
  for (const Case& c : cases) EXPECT_EQ(render(c.source, variables), c.expected) << c.source;
}

TEST(ChatTemplate, TrimsBlockLinesAndKeepsText) {
  expect_renders({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb\r\n", "a\nb"},
      {"x\n  {% if true %}\n  y\n  {% endif %}\nz", "x\n  y\nz"},
      {"  {% if true %}y{% endif %}\n z", "y z"},
      {"a  {% if true %}  b{% endif %}", "a    b"},
      {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
      {" \n {{- 1 -}} \n x", "1x"},
      {"  {{ 1 }}\n", "  1"},
      {"{{ 1 }}\nx", "1\nx"},
      {"  {%+ if true %}y{% endif %}", "  y"},
      {"{% if true +%}\ny{% endif %}", "\ny"},
      {"a\n  {# note #}\nb", "a\nb"},
      {"a {#- note -#} b", "ab"},
      {"{# {{ x }} {% if %} #}a", "a"},
      {"{% raw %}{{ x }}{% y %}{% endraw %}", "{{ x }}{% y %}"},
      {"{% raw %}\n a {% endraw %}\nb", "\n a b"},
      {"{%- raw -%}  a  {%- endraw -%}  b", "ab"},
      {"{ {a} }% #}", "{ {a} }% #}"},
      {"{{ {'a': {'b': 1}}['a']['b'] }}", "1"},
  });
}

TEST(ChatTemplate, RunsStatements) {
  expect_renders({
      {"{% if 0 %}a{% elif '' %}b{% elif 1 %}c{% else %}d{% endif %}", "c"},
      {"{% if 0 %}a{% else %}d{% endif %}", "d"},
      {"{% for x in [1, 2, 3] %}{{ x }},{% endfor %}", "1,2,3,"},
      {"{% for x in [] %}a{% else %}none{% endfor %}", "none"},
      {"{% for x in nothing %}a{% else %}none{% endfor %}", "none"},
      {"{% for x in [1, 2] %}{{ x }}{% break %}{% else %}none{% endfor %}", "1none"},
      {"{% for x in [1, 2] %}{% if x > 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}", "1"},
      {"{% for x in [1, 2] %}{{ x }}{% continue %}{% else %}none{% endfor %}", "12none"},
      {"{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}", "a1b2"},
      {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %}", "6"},
      {"{% for x in range(6) if x % 2 %}{{ x }}{{ loop.last }}{% endfor %}", "1False3False5True"},
      {"{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}{% endif %}{{ x }}"
       "{% endfor %}",
       "023"},
      {"{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
       "{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
       "1032True3b 2121False3ac 3210False3b "},
      {"{% for x in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{% endfor %}", "aba"},
      {"{% for x in [1, 2] %}{% for y in [1] %}{{ loop.length }}{{ loop.depth }}{% endfor %}{{ loop.length }}"
       "{% endfor %}",
       "122122"},
      {"{% set x = 1 %}{% for y in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}", "111"},
      {"{% set n = namespace(a=1, b='x') %}{% for y in [1, 2] %}{% set n.a = n.a + y %}{% endfor %}{{ n.a }}{{ n.b }}",
       "4x"},
      {"{% set a, b = 1, 2 %}{{ b }}{{ a }}", "21"},
      {"{% set x %}a{{ 1 }}{% set hidden = 1 %}{% endset %}[{{ x }}{{ hidden }}]", "[a1]"},
      {"{% set x | upper %}abc{% endset %}{{ x }}", "ABC"},
      {"{% filter upper | replace('B', '-') %}abc{% endfilter %}", "A-C"},
      {"{% macro f(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}|{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c=4) }}{{ f() "
       "}}",
       "12z|13z|124|2z|"},
      {"{% macro f(n) %}{% if n %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "321"},
      {"{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}", "2"},
      {"{% macro f() %} a {% endmacro %}[{{ f() | trim }}]", "[a]"},
      {"{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "12"},
      {"{% generation %}a{{ 1 }}{% endgeneration %}", "a1"},
      {"{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l }}", "[1, 2]2[1]"},
      {"{{ strftime_now('%Y-%m-%d %H:%M:%S %B %b %A') }}", "2026-12-01 09:05:07 December Dec Tuesday"},
      {"{{ bos_token }}{{ eos_token }}", "<s></s>"},
  });
}

TEST(ChatTemplate, PrintsAsPython) {
  expect_renders({
      {"{{ true }}{{ False }}{{ none }}{{ nothing }}", "TrueFalseNone"},
      {"{{ 1 }} {{ -7 }} {{ 1.0 }} {{ 0.1 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.5e300 }}",
       "1 -7 1.0 0.1 1e+16 1000000000000000.0 0.0001 1e-05 1.5e+300"},
      {"{{ [1, 'a', none, true, 1.5, (1,), {}] }}", "[1, 'a', None, True, 1.5, (1,), {}]"},
      {"{{ {'a': \"it's\", 1: 'q\"'} }}", "{'a': \"it's\", 1: 'q\"'}"},
      {"{{ ['\\n\\t\\\\é\\x01'] }}", "['\\n\\t\\\\é\\x01']"},
      {"{{ 1, 2 }}", "(1, 2)"},
      {"{{ 'a\\u00e9\\x41\\'\\\"\\101\\q' }}", "aéA'\"A\\q"},
      {"{{ 'a' 'b' }}", "ab"},
  });
}

TEST(ChatTemplate, EvaluatesOperators) {
  expect_renders({
      {"{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 "
       "}}",
       "3 3 -4 2 -2 3.5 1024 0.5"},
      {"{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 1.5 }} {{ true + 1 }}", "3.0 0.5 2.5 2"},
      {"{{ 'a' + 'b' * 3 }} {{ [1] + [2] }} {{ [0] * 2 }} {{ 'x' ~ 1 ~ none ~ nothing }}", "abbb [1, 2] [0, 0] x1None"},
      {"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 != '1' }}",
       "True False True True True True"},
      {"{{ 'b' in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 'z' not in 'abc' }} {{ 1 in nothing }}",
       "True True True True False"},
      {"{{ not 1 }} {{ not '' and 1 }} {{ 0 or 'x' }} {{ 1 and '' }}|{{ not 1 == 2 }}", "False 1 x |True"},
      {"{{ 'y' if 1 else 'n' }} {{ 'y' if 0 else 'n' }} [{{ 'y' if 0 }}] {{ 1 if 0 else 2 if 0 else 3 }}", "y n [] 3"},
      {"{{ 2 is even }}|{{ 'a' ~ 'b' | upper }}|{{ -1 | abs }}|{{ (1, 2) | length }}", "True|aB|1|2"},
  });
}

TEST(ChatTemplate, IndexesAndSlicesByCharacter) {
  expect_renders({
      {"{{ 'héllo'[1] }}{{ 'héllo'[-1] }}[{{ 'ab'[5] }}]", "éo[]"},
      {"{{ 'héllo'[1:3] }} {{ 'héllo'[:-1] }} {{ 'héllo'[::-1] }} {{ 'héllo'[::2] }} {{ 'abc'[5:] }}{{ 'abc'[-9:2] }}",
       "él héll olléh hlo ab"},
      {"{{ [1, 2, 3][1:] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][-2] }} {{ (1, 2, 3)[:2] }} {{ [1, 2, 3][2:0:-1] }}",
       "[2, 3] [3, 2, 1] 2 (1, 2) [3, 2]"},
      {"{{ [[1, 2]].0.1 }}{{ {'a': 1}.a }}{{ {'a': 1}['a'] }}[{{ {'a': 1}.b }}{{ none.b }}]", "211[]"},
      {"{{ {'items': 1}['items'] }}{{ {'items': 1}.items() }}", "1[('items', 1)]"},
      {"{{ {1: 'a', true: 'b', 1.0: 'c'} }}", "{1: 'c'}"},
  });
}

TEST(ChatTemplate, AppliesStringMethods) {
  expect_renders({
      {"[{{ ' a b '.strip() }}][{{ ' a '.lstrip() }}][{{ ' a '.rstrip() }}][{{ 'xxaxx'.strip('x') }}]"
       "[{{ 'a\\n\\n'.rstrip('\\n') }}]",
       "[a b][a ][ a][a][a]"},
      {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} "
       "{{ ' a b  c '.split(none, 1) }}",
       "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b,c'] ['a,b', 'c'] ['a', 'b  c ']"},
      {"{{ 'a</think>b'.split('</think>')[-1] }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}",
       "b True True"},
      {"{{ 'aXbX'.replace('X', '--') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }}",
       "a--b-- a-bX .a.b."},
      {"{{ 'aé'.upper() }} {{ 'AÉ'.lower() }} {{ 'hello wORLD'.title() }} {{ 'hello wORLD'.capitalize() }}",
       "AÉ aé Hello World Hello world"},
      {"{{ '{}-{}'.format(1, 'a') }} {{ '{1}{0}{{}}'.format('a', 'b') }} {{ '{x!r}'.format(x='q') }}", "1-a ba{} 'q'"},
      {"{{ '%s is %d (%5.2f) %%' % ('a', 3, 2.5) }} {{ '%s' % 'x' }} {{ '%-4s|%04d' % ('é', 7) }}",
       "a is 3 ( 2.50) % x é   |0007"},
      {"{{ 'a\\nb\\r\\nc\\n'.splitlines() }} {{ ','.join(['a', 'b']) }} {{ 'hé'.find('é') }} {{ 'aXbX'.count('X') }}",
       "['a', 'b', 'c'] a,b 1 2"},
      {"{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'aB'.isalpha() }} {{ 'AB'.isupper() }} {{ ' '.isspace() }}",
       "True False True True True"},
      {"{{ 'prefix.x'.removeprefix('prefix.') }} {{ 'x.json'.removesuffix('.json') }}", "x x"},
  });
}

TEST(ChatTemplate, AppliesContainerMethods) {
  expect_renders({
      {"{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 2) }}", "1None2"},
      {"{{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }}", "['a'] [1]"},
      {"{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{{ d }}{{ d.pop('a') }}{{ d }}{{ d.setdefault('c', 3) }}",
       "{'a': 1, 'b': 2}1{'b': 2}3"},
      {"{% set l = [1, 3] %}{% set _ = l.insert(1, 2) %}{% set _ = l.extend(l) %}{{ l }}{{ l.index(3) }}{{ l.count(1) "
       "}}",
       "[1, 2, 3, 1, 2, 3]22"},
  });
}

TEST(ChatTemplate, AppliesFilters) {
  expect_renders({
      {"{{ nothing | default('d') }} {{ '' | default('d') }}|{{ '' | default('d', true) }} {{ none | d('x') }}",
       "d |d None"},
      {"{{ [1, 2] | length }} {{ 'hé' | count }} {{ nothing | length }} [{{ ' a ' | trim }}] {{ 'xax' | trim('x') }}",
       "2 2 0 [a] a"},
      {"{{ 5 | string + 'a' }} {{ 'AB' | lower }} {{ 'ab' | upper }} {{ 'ab' | capitalize }} {{ 'a b' | title }}",
       "5a ab AB Ab A B"},
      {"{{ [1, 2] | join(', ') }} {{ [{'a': 1}, {'a': 2}] | join('-', attribute='a') }} {{ {'a': 1} | items | list }}",
       "1, 2 1-2 [('a', 1)]"},
      {"{{ {'b': 1, 'A': 2} | dictsort }} {{ {'a': 2, 'b': 1} | dictsort(by='value') }}",
       "[('A', 2), ('b', 1)] [('b', 1), ('a', 2)]"},
      {"{{ [3, 1, 2] | sort }} {{ ['b', 'A'] | sort }} {{ [1, 2] | sort(reverse=true) }} "
       "{{ [{'k': 2}, {'k': 1}] | sort(attribute='k') }}",
       "[1, 2, 3] ['A', 'b'] [2, 1] [{'k': 1}, {'k': 2}]"},
      {"{{ ['a', 'A', 'b'] | unique | list }} {{ [3, 1] | min }} {{ [3, 1] | max }} {{ [1, 2] | sum }}",
       "['a', 'b'] 1 3 3"},
      {"{{ [1, 2] | first }} {{ [1, 2] | last }} {{ [1, 2] | reverse | list }} {{ 'abc' | reverse }} {{ 'ab' | list }}",
       "1 2 [2, 1] cba ['a', 'b']"},
      {"{{ ['a', 'b'] | map('upper') | list }} {{ [{'x': {'y': 1}}, {}] | map(attribute='x.y', default=0) | list }}",
       "['A', 'B'] [1, 0]"},
      {"{{ [1, 2, 3] | select('odd') | list }} {{ [1, 2, 3] | reject('odd') | list }} {{ [0, 1] | select | list }}",
       "[1, 3] [2] [1]"},
      {"{{ [{'t': 'a'}, {'t': 'b'}, {}] | selectattr('t', 'equalto', 'a') | list }} "
       "{{ [{'t': 'a'}, {}] | rejectattr('t', 'defined') | list }} {{ [{'t': 0}, {'t': 1}] | selectattr('t') | list }}",
       "[{'t': 'a'}] [{}] [{'t': 1}]"},
      {"{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, first=true) }}", "a\n    b\n\n    c|  a\n  b"},
      {"{{ 'a\\r\\nb\\u2028c\\n\\r' | indent(1) }}|{{ 'a\\r' | indent }}|{{ '\\n\\x85' | indent(1, blank=true) }}",
       "a\n b\n c\n|a|\n \n "},
      {"{{ 'ab-cd (ef g|h <|x|>' | title }}|{{ 'a|b-c <|x|>'.title() }}", "Ab-Cd (Ef G|h <|x|>|A|B-C <|X|>"},
      {"{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ ' 4.5 ' | int }} {{ '2.5' | float }}",
       "12 0 7 3 4 2.5"},
      {"{{ -3 | abs }} {{ 2.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(method='ceil') }}", "3 2.0 2.57 3.0"},
      {"{{ '%s-%s' | format(1, 'a') }} {{ 'aXb' | replace('X', 'Y') }} {{ '<&>' | escape }} {{ '<' | safe }}",
       "1-a aYb &lt;&amp;&gt; <"},
      {"{{ '<' | safe + '<' }}{{ '<' + ('<' | safe) }}", "<&lt;&lt;<"},
      {"{{ ('{\"a\": [1, null, true, 1.5]}' | from_json).a }}", "[1, None, True, 1.5]"},
  });
}

TEST(ChatTemplate, WritesJsonAsPython) {
  expect_renders(
      {
          {"{{ v | tojson }}",
           "{\"s\": \"é<&>'\\\"\\\\\\n\\u0001/\", \"n\": [1, -2, 3.5, 1.0, 1e-07, 1e+16, true, null], "
           "\"e\": {}, \"l\": []}"},
          {"{{ v.s | tojson(ensure_ascii=true) }}", "\"\\u00e9<&>'\\\"\\\\\\n\\u0001/\""},
          {"{{ '😀' | tojson(ensure_ascii=True) }}", "\"\\ud83d\\ude00\""},
          {"{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }}",
           "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}"},
          {"{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}",
           "{\"a\":[1,2]} {\"a\": 2, \"b\": 1}"},
          {"{{ {1: 1, true: 2, none: 3, 1.5: 4} | tojson }} {{ (1, 2) | tojson }}",
           "{\"1\": 2, \"null\": 3, \"1.5\": 4} [1, 2]"},
      },
      R"({"v": {"s": "é<&>'\"\\\n\u0001/", "n": [1, -2, 3.5, 1.0, 1e-7, 1e16, true, null], "e": {}, "l": []}})");
}

TEST(ChatTemplate, AppliesTests) {
  expect_renders({
      {"{{ x is defined }} {{ x is not defined }} {{ x is undefined }} {{ none is none }} {{ 1 is not none }}",
       "False True True True True"},
      {"{{ 'a' is string }} {{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1 is integer }} "
       "{{ 1.5 is float }} {{ true is boolean }}",
       "True True True False True True True"},
      {"{{ {} is mapping }} {{ [] is mapping }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} "
       "{{ {} is sequence }} {{ (1,) is sequence }}",
       "True False True True False True True"},
      {"{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 "
       "}}",
       "True False True True True True"},
      {"{{ 1 is eq 1 }} {{ 1 is ne(1) }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 'a' is in ['a'] }} {{ 1 is sameas 1 }}",
       "True False True True True True"},
      {"{{ 'ab' is lower }} {{ 'AB' is upper }} {{ range is callable }} {{ y is callable }} {{ 'x' if y is defined "
       "else "
       "'z' }}",
       "True True True True z"},
  });
}

TEST(ChatTemplate, ReportsErrors) {
  const auto rejected = try_render("a\n{{ raise_exception('only ' ~ 1 ~ ' system message') }}");
  ASSERT_FALSE(rejected.ok());
  EXPECT_EQ(rejected.error().code, "template_rejected");
  EXPECT_EQ(rejected.error().kind, ErrorKind::kClient);
  EXPECT_EQ(rejected.error().message, "only 1 system message");

  const auto failed = try_render("a\n\n{{ 'a' + 1 }}");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, "template_failed");
  EXPECT_EQ(failed.error().kind, ErrorKind::kClient);
  EXPECT_NE(failed.error().message.find("line 3"), std::string::npos) << failed.error().message;

  const auto invalid = ChatTemplate::parse("a\n{% if %}");
  ASSERT_FALSE(invalid.ok());
  EXPECT_EQ(invalid.error().code, "template_invalid");
  EXPECT_EQ(invalid.error().kind, ErrorKind::kOperating);
  EXPECT_NE(invalid.error().message.find("line 2"), std::string::npos) << invalid.error().message;
}

TEST(ChatTemplate, FailsWherePythonFails) {
  for (const char* source : {"{{ x.y }}",
                             "{{ x['y'] }}",
                             "{{ x() }}",
                             "{{ x + 1 }}",
                             "{{ x < 1 }}",
                             "{{ 'a' + 1 }}",
                             "{{ [] + 'a' }}",
                             "{{ 1 // 0 }}",
                             "{{ 1 % 0 }}",
                             "{{ 1 / 0 }}",
                             "{{ 'a' < 1 }}",
                             "{% for x in 5 %}{% endfor %}",
                             "{% for x in none %}{% endfor %}",
                             "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
                             "{{ 1 in 'a' }}",
                             "{{ none | length }}",
                             "{{ x | tojson }}",
                             "{{ 'a' | nofilter }}",
                             "{{ 'a' is notest }}",
                             "{{ 'a'.nomethod() }}",
                             "{{ {[1]: 2} }}",
                             "{{ [].pop() }}",
                             "{{ 'a'.split('') }}",
                             "{% set d = {} %}{% set d.a = 1 %}",
                             "{{ [1][::0] }}",
                             "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
                             "{% macro f(a) %}{% endmacro %}{{ f(b=2) }}",
                             "{{ 5() }}",
                             "{{ range(0, 1, 0) }}",
                             "{{ '{' | from_json }}",
                             "{{ 9223372036854775807 + 1 }}",
                             "{{ 2 ** 64 }}"}) {
    const auto runs = try_render(source);
    ASSERT_FALSE(runs.ok()) << source << " gave " << join_runs(*runs);
    EXPECT_EQ(runs.error().code, "template_failed") << source;
  }
}

TEST(ChatTemplate, RefusesWhatIsNotTheLanguage) {
  for (const char* source : {"{{",
                             "{{ }}",
                             "{%",
                             "{% %}",
                             "{#",
                             "{{ a",
                             "{{ 'a }}",
                             "{{ a b }}",
                             "{{ (a }}",
                             "{{ a) }}",
                             "{{ [a} }}",
                             "{% if a %}",
                             "{% for x in y %}",
                             "{% endif %}",
                             "{% for x y %}{% endfor %}",
                             "{% set %}",
                             "{% break %}",
                             "{% macro f(a=1, b) %}{% endmacro %}",
                             "{% raw %}",
                             "{% include 'x' %}",
                             "{% import 'x' as y %}",
                             "{% extends 'x' %}",
                             "{% unknown %}",
                             "{{ a ? b }}",
                             "{{ '\\xZZ' }}",
                             "{{ 99999999999999999999 }}",
                             "{{ f(a=1, 2) }}",
                             "{{ a | }}",
                             "{{ a is }}",
                             "{{ {1} }}",
                             "{% if a %}{% endfor %}",
                             "{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}"}) {
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.error().code, "template_invalid") << source;
  }
}

}  // namespace
}  // namespace llmd
