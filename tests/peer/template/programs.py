"""Random small templates that use the language of chat templates: expressions by type, statements around them.

Types agree most of the time, so that most programs run; what fails must fail in both engines."""

VARIABLES = {
    "s": "Hello <|x|> wörld", "t": "  a,b,,c\n", "e": "", "n": 7, "z": 0, "f": 2.5, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "w": ["b", "A", "c", "A"], "d": {"k": "v", "a": 1, "ü": None}, "m": [{"role": "user", "content": "hé"},
    {"role": "tool", "content": ["x", 1, None]}, {"role": "user", "content": "", "n": {"deep": [1.0, True]}}],
}


class Programs:
    def __init__(self, random):
        self.random, self.names, self.macros, self.loops = random, 0, [], 0

    def pick(self, *options):
        return self.random.choice(options)

    def literal(self):
        return self.pick("'a'", "\"b'c\"", "'x\\ny'", "''", "'é<b>'", "' pad '", "'A-b_c'", "'\\\\'", "'1'", "'%s'", "'tRuE'")

    def string(self, depth):
        if depth <= 0:
            return self.pick("s", "t", "e", self.literal(), "m[0].role", "d['k']", "d.k", "w[0]")
        s, i, l = (lambda: self.string(depth - 1)), (lambda: self.integer(depth - 1)), (lambda: self.list(depth - 1))
        return self.pick(
            lambda: f"({s()} + {s()})", lambda: f"({s()} ~ {self.any(depth - 1)})", lambda: f"({s()} | {self.pick('upper', 'lower', 'trim', 'title', 'capitalize', 'string', 'reverse')})",
            lambda: f"({s()}).{self.pick('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize')}()", lambda: f"({s()}).{self.pick('strip', 'lstrip', 'rstrip')}({self.literal()})",
            lambda: f"({s()}).replace({self.literal()}, {s()})", lambda: f"({s()} | replace({self.literal()}, {self.literal()}))",
            lambda: f"({s()})[{self.pick(':', '1:', ':-1', '::-1', '1:4', '-3:', '::2')}]", lambda: f"({l()} | join({self.literal()}))", lambda: f"({s()} | default({self.literal()}, true))",
            lambda: f"({s()} if {self.boolean(depth - 1)} else {s()})", lambda: f"({self.any(depth - 1)} | tojson)", lambda: f"({self.any(depth - 1)} | string)",
            lambda: f"({s()} | indent({self.pick('2', '4, true', '1, first=true', '2, blank=true')}))", lambda: f"('{{}}-{{}}'.format({s()}, {i()}))", lambda: f"('%s|%s' % ({s()}, {i()}))",
            lambda: f"({self.any(depth - 1)} | tojson(indent={self.pick(1, 2, 4)}))", lambda: f"({s()} * {self.pick('2', 'z')})", lambda: f"({s()} | first | default('none'))",
            lambda: f"({s()}).removeprefix({self.literal()})", lambda: f"({s()} or {s()})", lambda: f"({s()} | truncate({self.pick(5, 9)}, true, '', 0))" if False else s())()

    def integer(self, depth):
        if depth <= 0:
            return self.pick("n", "z", "1", "2", "-3", "10", "l[0]", "d.a")
        i = lambda: self.integer(depth - 1)
        return self.pick(lambda: f"({i()} {self.pick('+', '-', '*')} {i()})", lambda: f"({i()} {self.pick('//', '%')} {self.pick(3, -2, 5)})", lambda: f"({self.list(depth - 1)} | length)",
                         lambda: f"({self.string(depth - 1)} | length)", lambda: f"(-{i()})", lambda: f"({self.string(depth - 1)} | int)", lambda: f"({i()} | abs)",
                         lambda: f"({self.string(depth - 1)} | int({i()}))", lambda: f"({i()} if {self.boolean(depth - 1)} else {i()})", lambda: f"({self.string(depth - 1)}).count({self.literal()})",
                         lambda: f"({self.string(depth - 1)}).find({self.literal()})", lambda: f"(l | {self.pick('sum', 'max', 'min', 'first', 'last')})")()

    def number(self, depth):
        return self.pick(lambda: self.integer(depth), lambda: f"({self.integer(depth)} / {self.pick(2, 4, 3)})", lambda: "f", lambda: f"({self.integer(depth)} + f)",
                         lambda: f"({self.integer(depth)} | float)", lambda: f"(f | round({self.pick('', '1')}))", lambda: "2 ** 3")()

    def boolean(self, depth):
        if depth <= 0:
            return self.pick("yes", "no", "true", "false", "nil", "z", "s", "missing", "l", "e")
        a, b = self.boolean(depth - 1), self.boolean(depth - 1)
        s, i = self.string(depth - 1), self.integer(depth - 1)
        return self.pick(f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"({s} == {self.string(depth - 1)})", f"({i} {self.pick('<', '>', '<=', '>=', '==', '!=')} {self.integer(depth - 1)})",
                         f"({self.literal()} in {s})", f"({self.literal()} not in {s})", f"({i} in {self.list(depth - 1)})", f"({self.any(depth - 1)} is {self.test()})",
                         f"({self.any(depth - 1)} is not {self.test()})", f"({s}).{self.pick('startswith', 'endswith')}({self.literal()})", f"('k' in d)", f"({i} < {self.integer(depth - 1)} < 9)",
                         f"({s}).{self.pick('isdigit', 'isalpha', 'isupper', 'islower')}()" if False else f"({s} is defined)")

    def test(self):
        return self.pick("defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable")

    def list(self, depth):
        if depth <= 0:
            return self.pick("l", "w", "[]", "[1, 'a']", "(1, 2)", "(range(4) | list)", "m", "d", "[nil, true]")
        l = lambda: self.list(depth - 1)
        return self.pick(lambda: f"({l()} | list)", lambda: f"({self.string(depth - 1)}).split({self.pick('', ',', 1) and self.literal_separator()})", lambda: f"[{self.any(depth - 1)}, {self.any(depth - 1)}]",
                         lambda: f"(({l()}) | list)[{self.pick('1:', ':-1', '::-1', ':2')}]", lambda: f"(w | {self.pick('sort', 'sort(reverse=true)', 'unique', 'sort(case_sensitive=true)')} | list)",
                         lambda: f"(m | {self.pick('selectattr', 'rejectattr')}('role', 'equalto', 'user') | list)", lambda: "(m | map(attribute='role') | list)",
                         lambda: f"(w | map('{self.pick('upper', 'lower', 'trim', 'length')}') | list)", lambda: f"(l | {self.pick('select', 'reject')}('{self.pick('odd', 'even', 'defined')}') | list)",
                         lambda: f"(({l()} | list) + ({l()} | list))", lambda: f"d.{self.pick('items', 'keys', 'values')}() | list", lambda: "(d | dictsort)" if False else "(d | items | list)",
                         lambda: f"(range({self.pick(3, '1, 5', '5, 0, -2', 'n')}) | list)", lambda: f"({self.string(depth - 1)} | list)", lambda: f"({self.string(depth - 1)}).splitlines()")()

    def literal_separator(self):
        return self.pick("','", "' '", "'a'", "'<|'", "',', 1", "")

    def any(self, depth):
        return self.pick(self.string, self.integer, self.number, self.boolean, self.list, lambda _: self.pick("d", "nil", "m[2].n", "m[1].content", "{'a': 1, 'b': [s, none]}", "d.get('k')",
                         "d.get('x', 'y')", "m[-1]", "(1,)", "()", "{}", "1.0", "1e16", "1e-5", "0.1 + 0.2"))(depth)

    def tag(self, inside):
        return "{%" + self.pick("", "", "-", "+") + " " + inside + " " + self.pick("", "", "-") + "%}"

    def output(self, depth):
        return "{{" + self.pick("", "", "-") + " " + self.any(depth) + " " + self.pick("", "", "-") + "}}"

    def text(self):
        return self.pick("text", " ", "\n", "  \n  ", "<|im_start|>", "\t", "a\n", "\n\n", "é", "{", "}", "%}", "#}")

    def block(self, depth, count=3):
        return "".join(self.statement(depth) for _ in range(1 + self.random.randrange(count)))

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def for_loop(self, depth):
        name = self.name()
        head = self.pick(f"for {name} in {self.list(2)}", f"for {name} in {self.list(1)} if {name}", "for k, v in d.items()", f"for {name} in {self.string(1)}")
        self.loops += 1
        inside = self.text() + "{{ " + self.pick("loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.previtem is defined", "loop.cycle('a', 'b')") + " }}"
        body = self.block(depth - 1, 2) + self.pick("", self.tag("break"), self.tag("if loop.index > 1") + self.tag("continue") + self.tag("endif"))
        self.loops -= 1
        shown = "" if name not in head else "{{ " + name + " }}"
        return self.tag(head) + inside + shown + body + self.pick("", self.tag("else") + self.text()) + self.tag("endfor")

    def statement(self, depth):
        if depth <= 0:
            return self.pick(self.text(), self.output(2), self.output(3))
        name = self.name()
        return self.pick(
            lambda: self.output(3), lambda: self.text(), lambda: self.for_loop(depth),
            lambda: self.tag(f"if {self.boolean(2)}") + self.block(depth - 1) + self.pick("", self.tag(f"elif {self.boolean(1)}") + self.block(depth - 1)) + self.pick("", self.tag("else") + self.text()) + self.tag("endif"),
            lambda: self.tag(f"set {name} = {self.any(3)}") + "{{ " + name + " }}", lambda: self.tag(f"set {name}") + self.block(depth - 1) + self.tag("endset") + "[{{ " + name + " }}]",
            lambda: self.tag(f"set {name} = namespace(x={self.any(1)})") + self.tag("for i in range(3)") + self.tag(f"set {name}.x = {name}.x ~ {self.string(1)}") + self.tag("endfor") + "{{ " + name + ".x }}",
            lambda: self.tag(f"macro {name}(a, b={self.any(1)})") + "{{ a }}/{{ b }}" + self.tag("endmacro") + "{{ " + name + f"({self.any(1)}{self.pick('', ', ' + self.any(1), ', b=' + self.any(1))})" + " }}",
            lambda: self.tag(f"filter {self.pick('upper', 'trim', 'indent(2)')}") + self.text() + self.output(1) + self.tag("endfilter"), lambda: "{#" + self.pick("", "-") + " note " + self.pick("", "-") + "#}",
            lambda: self.tag("raw") + "{{ x }}" + self.tag("endraw"), lambda: self.tag(f"set {name}, {name}b = {self.any(1)}, {self.any(1)}") + "{{ " + name + "b }}")()

    def program(self):
        return self.block(2, 5)
