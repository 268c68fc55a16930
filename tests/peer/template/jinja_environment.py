"""Python's Jinja2 set up as the publishers of chat templates do: see render()."""
import datetime
import functools
import json

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: its body."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def make_environment():
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
    environment.filters["tojson"] = to_json
    environment.filters["from_json"] = json.loads
    now = datetime.datetime(2026, 12, 1, 9, 5, 7)
    environment.globals["strftime_now"] = now.strftime
    environment.globals["raise_exception"] = raise_exception
    return environment


ENVIRONMENT = make_environment()
compiled = functools.lru_cache(maxsize=100)(ENVIRONMENT.from_string)


def render(source, variables):
    """{"ok": text}, or {"error": name of the exception, "message": its text}."""
    try:
        return {"ok": compiled(source).render(bos_token="<s>", eos_token="</s>", **variables)}
    except RecursionError:
        return {"error": "RecursionError", "message": ""}
    except Exception as error:  # whatever Python says is the answer
        return {"error": type(error).__name__, "message": str(error)}
