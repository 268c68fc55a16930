"""The house rules as pure functions from text to problems. tidy.py applies them to the tree."""
import re

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 60

# Rooms in dependency order. A file may include its own room and those listed for it, nothing else of ours.
ROOMS = {
    "io": ["io"],
    "kv": ["kv", "io"],
    "model/gguf": ["model/gguf", "io"],
    "model/kernels": ["model/kernels", "model/gguf", "io"],
    "model/tokenizer": ["model/tokenizer", "model/gguf", "io"],
    "model": ["model", "model/gguf", "model/kernels", "model/tokenizer", "kv", "io"],
    "api/template": ["api/template", "model/gguf", "model/tokenizer", "io"],
    "api": ["api", "api/template", "model", "model/gguf", "model/kernels", "model/tokenizer", "kv", "io"],
    "daemon": ["daemon", "api", "api/template", "model", "model/gguf", "model/kernels", "model/tokenizer", "kv", "io"],
}
LAYERS = ("io", "kv", "model", "api", "daemon")
# Slow to compile, so they stay behind two files.
NETWORK_HEADERS = re.compile(r"boost/(asio|beast)[./]")
NETWORK_FILES = re.compile(r"api/(listener|http_session)\.(h|cc)$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    """The room of a path such as "model/kernels/q4.cc", or None outside the layers."""
    folder = path.rsplit("/", 1)[0] if "/" in path else ""
    while folder and folder not in ROOMS:
        folder = folder.rsplit("/", 1)[0] if "/" in folder else ""
    return folder or None


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def includes(text):
    """(line, name, is_quoted) of every include outside comments."""
    return [(line_of(text, m.start()), m.group(2), m.group(1) == '"') for m in INCLUDE.finditer(text)]


def included_first(header, text):
    """Whether a source opens with this header: then the build has shown that it compiles alone."""
    return [name for _, name, _ in includes(text)[:1]] == [header]


def check_layers(path, text):
    room = room_of(path)
    if room is None:
        return []
    problems = []
    for line, name, quoted in includes(text):
        if NETWORK_HEADERS.search(name) and not NETWORK_FILES.search(path):
            problems.append((line, f"includes {name}; only api/listener and api/http_session may"))
        if name.split("/")[0] not in LAYERS or not quoted:
            if quoted:
                problems.append((line, f'includes "{name}"; write the path from the root: "{room}/{name}"'))
            continue
        other = room_of(name)
        if other is not None and other not in ROOMS[room]:
            problems.append((line, f"includes {name}, but {room} may not depend on {other}"))
    return problems


def check_opening(path, text):
    if path.endswith(".h") and not text.startswith(("//", "/*")):
        return [(1, "a header opens with a comment: what it is, which thread may call it, what it promises")]
    return []


def check_length(path, text):
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        return [(lines, f"{lines} lines; a file has at most {FILE_LINES_MAX}")]
    return []


def check_leftovers(path, text):
    found = re.finditer(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", text)
    return [(line_of(text, m.start()), f"{m.group(1)} without a number; do it, or write it down elsewhere") for m in found]


AWAITED_CONDITION = re.compile(r"\bwhile\s*\(\s*!?\s*\(?\s*co_await\b")


def check_awaited_conditions(path, text):
    """g++ 12 miscompiles `while (co_await x) {}`: the coroutine jumps into nowhere at run time, without a warning."""
    return [(line_of(text, m.start()), "co_await in a loop's condition, which g++ 12 miscompiles; await into a variable "
             "inside the loop: while (true) { bool more = co_await ...; if (!more) break; }")
            for m in AWAITED_CONDITION.finditer(strip(text))]


LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'"""
    r"""|^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M)


def strip(text):
    """Comments, literals and preprocessor lines blanked; line ends kept."""
    return LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def classify(head):
    """What a '{' outside any function opens, judged by the text before it."""
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    head = re.sub(r"\boperator\s*(\(\s*\)|[^\w\s(]+)", "operator_", head)
    if re.search(r"\bnamespace\b", head) or re.search(r"\bextern\s*$", head):
        return "scope"
    if re.search(r"\b(class|struct|union|enum)\b[^()]*$", head) and not re.search(r"=\s*$", head):
        return "scope"
    parenthesis, equals = head.find("("), head.find("=")
    if equals >= 0 and (parenthesis < 0 or equals < parenthesis):
        return "function" if re.search(r"=\s*\[", head) else "initializer"
    return "function" if parenthesis >= 0 else "initializer"


def skip_block(text, begin):
    """The position after the '}' that closes the '{' at begin."""
    depth = 0
    for m in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if m.group(0) == "{" else -1
        if depth == 0:
            return m.end()
    return len(text)


def table_lines(body):
    """Lines of the tables (= { ... }) in a function: data, which may be long."""
    lines, position = 0, 0
    for m in re.finditer(r"=\s*\{", body):
        if m.start() >= position:
            position = skip_block(body, m.end() - 1)
            lines += body.count("\n", m.end(), position)
    return lines


def functions(text):
    """(first line, lines) of every function, lambda at namespace scope and TEST body. A nested lambda is part of its
    function; a table is not."""
    text = strip(text)
    found, head, position, continued = [], 0, 0, False
    token = re.compile(r"[{};]")
    while (m := token.search(text, position)) is not None:
        position = m.end()
        if m.group(0) != "{":
            head, continued = position, False
            continue
        kind = "function" if continued else classify(text[head:m.start()])
        if kind == "scope":
            head = position
            continue
        position = skip_block(text, m.start())
        if kind != "function":
            continue  # an initializer ends with its ';'
        rest = text[position:position + 200].lstrip()
        continued = rest[:1] in ("{", ",") or rest[:3] == "..."  # that was a member of a constructor's initializer list
        if continued:
            continue
        body = text[head:position]
        first = line_of(text, head + len(body) - len(body.lstrip()))
        found.append((first, line_of(text, position) - first + 1 - table_lines(body)))
        head = position
    return found


def check_functions(path, text):
    return [(line, f"a function of {lines} lines; at most {FUNCTION_LINES_MAX}") for line, lines in functions(text)
            if lines > FUNCTION_LINES_MAX]


TEXT_RULES = (check_layers, check_opening, check_length, check_leftovers, check_awaited_conditions, check_functions)
