#!/usr/bin/python3
"""The rules catch what they are for, and leave alone what looks like it."""
import unittest

import rules


def lengths(text):
    return [n for _, n in rules.functions(text)]


class Layers(unittest.TestCase):
    def test_allows_what_lies_below(self):
        self.assertEqual(rules.check_layers("api/a.cc", '#include "model/step.h"\n#include <vector>\n'), [])
        self.assertEqual(rules.check_layers("model/kernels/q.cc", '#include "model/gguf/gguf.h"\n'), [])
        self.assertEqual(rules.check_layers("tests/io/a_test.cc", '#include "daemon/options.h"\n'), [])

    def test_catches_what_lies_above_or_beside(self):
        for path, name in (("io/a.cc", "model/step.h"), ("model/a.h", "api/engine.h"), ("kv/a.h", "model/step.h"),
                           ("model/gguf/a.cc", "model/kernels/kernels.h"), ("api/template/a.cc", "api/engine.h"),
                           ("api/a.cc", "daemon/options.h")):
            self.assertEqual([line for line, _ in rules.check_layers(path, f'\n#include "{name}"\n')], [2], path)

    def test_keeps_the_network_behind_two_files(self):
        text = "#include <boost/beast/http.hpp>\n#include <boost/asio.hpp>\n"
        self.assertEqual(rules.check_layers("api/listener.cc", text), [])
        self.assertEqual(len(rules.check_layers("api/sse.cc", text)), 2)
        self.assertEqual(len(rules.check_layers("daemon/serve.cc", text)), 2)

    def test_wants_paths_from_the_root(self):
        self.assertEqual(len(rules.check_layers("io/a.cc", '#include "ring.h"\n')), 1)


class Functions(unittest.TestCase):
    def test_measures_a_function_from_its_head_to_its_brace(self):
        self.assertEqual(lengths("int f() {\n  return 1;\n}\n"), [3])
        self.assertEqual(lengths("int\nf(int a,\n  int b) {\n  return 1;\n}\n"), [5])
        self.assertEqual(lengths("namespace a {\nnamespace {\nvoid f() {\n}\n}\n}\n"), [2])

    def test_counts_a_lambda_with_its_function(self):
        self.assertEqual(lengths("void f() {\n  auto g = [&](int x) {\n    return x;\n  };\n}\n"), [5])
        self.assertEqual(lengths("constexpr auto kF = [](int x) {\n  return x;\n};\nint g() {\n}\n"), [3, 2])

    def test_sees_methods_and_operators(self):
        text = "struct alignas(64) A : B {\n  int x = 3;\n  int y{4};\n  bool operator()(int) const {\n  }\n" \
               "  A& operator=(A a) {\n  }\n  enum class E { a, b };\n};\n"
        self.assertEqual(lengths(text), [2, 2])

    def test_joins_a_constructor_to_its_initializers(self):
        self.assertEqual(lengths("A::A(int x) : x_{x}, y_(1), z_{2} {\n  f();\n\n}\nvoid g() {\n}\n"), [4, 2])

    def test_takes_no_table_for_a_function(self):
        self.assertEqual(lengths("constexpr T kT[] = {\n{1, f(2)},\n{3},\n};\nconstexpr auto kU = make<T>({\n{1},\n});\n"),
                         [])

    def test_leaves_tables_inside_a_function_out(self):
        self.assertEqual(lengths("void f() {\n  T t[] = {\n    {1},\n    {2},\n  };\n  if (x) {\n  }\n}\n"), [5])

    def test_is_not_led_astray_by_literals(self):
        text = "#define A(x) \\\n  do { \\\n\nvoid f() {\n  g('{', \"}{{\", R\"x(}}\")x\");  // }}\n  /* { */ h(1'000'000);\n}\n" \
               "void g() {\n}\n"
        self.assertEqual(lengths(text), [4, 2])

    def test_catches_what_is_too_long(self):
        body = "  x();\n" * (rules.FUNCTION_LINES_MAX - 1)
        self.assertEqual(rules.check_functions("a.cc", "void f() {\n" + body + "}\n")[0][0], 1)
        self.assertEqual(rules.check_functions("a.cc", "void f() {\n" + body[7:] + "}\n"), [])


class Files(unittest.TestCase):
    def test_wants_an_opening_comment_in_headers_only(self):
        self.assertEqual(len(rules.check_opening("a.h", "#pragma once\n")), 1)
        self.assertEqual(rules.check_opening("a.h", "// What it is.\n#pragma once\n"), [])
        self.assertEqual(rules.check_opening("a.cc", "#include <a>\n"), [])

    def test_knows_which_headers_the_build_compiles_alone(self):
        self.assertTrue(rules.included_first("io/a.h", '// c\n#include "io/a.h"\n#include <vector>\n'))
        self.assertFalse(rules.included_first("io/a.h", '#include <vector>\n#include "io/a.h"\n'))
        self.assertFalse(rules.included_first("io/a.h", ""))

    def test_limits_the_length(self):
        self.assertEqual(rules.check_length("a.cc", "\n" * 1000), [])
        self.assertEqual(len(rules.check_length("a.cc", "\n" * 1001)), 1)

    def test_wants_a_number_at_every_reminder(self):
        self.assertEqual(len(rules.check_leftovers("a.cc", "// TO" + "DO: later\n")), 1)
        self.assertEqual(rules.check_leftovers("a.cc", "// TO" + "DO(#12): later\n"), [])

    def test_refuses_loops_on_an_awaited_condition(self):
        for loop in ("while (co_await f()) {\n}", "while (!co_await f()) {\n}", "do {\n} while ( ! (co_await f()));"):
            self.assertEqual([line for line, _ in rules.check_awaited_conditions("a.cc", "\n" + loop)],
                             [3 if loop[0] == "d" else 2])
        allowed = "while (true) {\n  bool more = co_await f();\n}\n// while (co_await f()) {}\n"
        self.assertEqual(rules.check_awaited_conditions("a.cc", allowed), [])


if __name__ == "__main__":
    unittest.main()
