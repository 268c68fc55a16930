#include "api/template/formatting.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "api/template/printing.h"
#include "api/template/text.h"

namespace llmd::jinja {
namespace {

constexpr int kWidthMax = 1000;

/// The argument a replacement field names; an empty name takes the next one.
const Value& field_argument(const Args& args, const std::string& name, size_t* automatic) {
  size_t index = 0;
  if (name.empty()) {
    index = (*automatic)++;
  } else {
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) {
      for (const auto& [key, value] : args.named) {
        if (key == name) return value;
      }
      fail("format() has no argument '" + name + "'");
    }
  }
  if (index >= args.positional.size()) fail("format() has too few arguments");
  return args.positional[index];
}

/// One conversion of a % format: %[flags][width][.precision]type
struct Conversion {
  std::string flags;
  int width = 0, precision = -1;
  char type = 0;
};

int read_number(const std::string& text, size_t* pos) {
  int number = 0;
  while (*pos < text.size() && text[*pos] >= '0' && text[*pos] <= '9') {
    number = number * 10 + (text[(*pos)++] - '0');
    if (number > kWidthMax) fail("a format width over " + std::to_string(kWidthMax));
  }
  return number;
}

/// Parses after the '%' at *pos - 1; leaves *pos past the type.
Conversion read_conversion(const std::string& text, size_t* pos) {
  Conversion conversion;
  while (*pos < text.size() && std::string_view("-+ 0#").find(text[*pos]) != std::string_view::npos) {
    if (conversion.flags.size() > 8) fail("a format with too many flags");
    conversion.flags.push_back(text[(*pos)++]);
  }
  conversion.width = read_number(text, pos);
  if (*pos < text.size() && text[*pos] == '.') {
    ++*pos;
    conversion.precision = read_number(text, pos);
  }
  if (*pos >= text.size()) fail("an incomplete format");
  conversion.type = text[(*pos)++];
  return conversion;
}

std::string number_text(const Conversion& conversion, const Value& value) {
  if (!value.is_number()) fail("a number is required by the format, not a " + std::string(type_name(value)));
  std::array<char, 2 * kWidthMax + 400> buffer;
  std::string pattern = "%" + conversion.flags + "*.*";
  int size = 0;
  const char type = conversion.type;
  if (type == 'd' || type == 'i' || type == 'x' || type == 'X') {
    const double number = value.as_double();
    if (value.is(Kind::kFloat) && !(number > -9.2e18 && number < 9.2e18)) fail("a number too large for the format");
    const long long integer = value.is(Kind::kFloat) ? static_cast<long long>(number) : value.as_int();
    pattern += std::string("ll") + (type == 'i' ? 'd' : type);
    size =
        std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), conversion.width, conversion.precision, integer);
  } else {
    pattern += type;
    size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), conversion.width, conversion.precision,
                         value.as_double());
  }
  if (size < 0 || static_cast<size_t>(size) >= buffer.size()) fail("a number too large for the format");
  return std::string(buffer.data(), static_cast<size_t>(size));
}

void append_padded(Runtime& runtime, const Conversion& conversion, const Value& value, TemplateString* out) {
  TemplateString text;
  if (conversion.type == 's') {
    append_text(runtime, value, &text);
  } else {
    append_repr(runtime, value, &text);
  }
  const auto width = static_cast<size_t>(conversion.width);
  const size_t characters = utf8_count(text.text());
  const std::string padding(characters < width ? width - characters : 0, ' ');
  const bool left = conversion.flags.find('-') != std::string::npos;
  if (!left) out->append(padding, true);
  out->append(text);
  if (left) out->append(padding, true);
}

}  // namespace

Value format(Runtime& runtime, const TemplateString& pattern, const Args& args) {
  const std::string& text = pattern.text();
  TemplateString out;
  size_t automatic = 0, plain = 0, pos = 0;
  while ((pos = text.find_first_of("{}", pos)) != std::string::npos) {
    out.append(pattern, plain, pos - plain);
    if (pos + 1 < text.size() && text[pos + 1] == text[pos]) {
      out.append(pattern, pos, 1);
      plain = pos += 2;
      continue;
    }
    const size_t end = text.find('}', pos);
    if (text[pos] == '}' || end == std::string::npos) fail("format() has an unpaired brace");
    std::string field = text.substr(pos + 1, end - pos - 1);
    bool repr = false;
    if (const size_t bang = field.find('!'); bang != std::string::npos) {
      repr = field.substr(bang) == "!r";
      if (!repr && field.substr(bang) != "!s") fail("an unsupported conversion in format()");
      field.resize(bang);
    }
    if (field.find_first_of(":.[{") != std::string::npos) fail("an unsupported field in format(): {" + field + "}");
    const Value& value = field_argument(args, field, &automatic);
    if (repr) {
      append_repr(runtime, value, &out);
    } else {
      append_text(runtime, value, &out);
    }
    runtime.check_length(out.size());
    plain = pos = end + 1;
  }
  out.append(pattern, plain, std::string::npos);
  return runtime.string(std::move(out));
}

Value percent_format(Runtime& runtime, const TemplateString& pattern, const Value& arguments) {
  const std::string& text = pattern.text();
  TemplateString out;
  const bool many = arguments.is(Kind::kTuple);
  size_t next = 0, plain = 0, pos = 0;
  while ((pos = text.find('%', pos)) != std::string::npos) {
    out.append(pattern, plain, pos - plain);
    const size_t percent = pos++;
    const Conversion conversion = read_conversion(text, &pos);
    plain = pos;
    if (conversion.type == '%') {
      out.append(pattern, percent, 1);
      continue;
    }
    if (next >= (many ? arguments.list().items.size() : 1)) fail("too few arguments for the format");
    const Value& value = many ? arguments.list().items[next] : arguments;
    ++next;
    if (conversion.type == 's' || conversion.type == 'r') {
      append_padded(runtime, conversion, value, &out);
    } else if (std::string_view("dixXfFeEgG").find(conversion.type) != std::string_view::npos) {
      out.append(number_text(conversion, value), value.trusted());
    } else {
      fail(std::string("an unsupported format %") + conversion.type);
    }
    runtime.step_bytes(out.size() / 16);
    runtime.check_length(out.size());
  }
  out.append(pattern, plain, std::string::npos);
  if (many ? next < arguments.list().items.size() : next == 0 && !arguments.is_dict()) {
    fail("too many arguments for the format");
  }
  return runtime.string(std::move(out));
}

}  // namespace llmd::jinja
