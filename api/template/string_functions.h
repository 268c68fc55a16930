// String functions: what str methods and string filters share.
//
// All take and give TemplateString and carry provenance byte by byte; separators and replacements bring their own.
// Work and lengths are charged to the Runtime, which fails (Failure) past its limits. One thread per Runtime.
#pragma once

#include <string_view>
#include <vector>

#include "api/template/runtime.h"

namespace llmd::jinja {

enum class Side { kLeft, kRight, kBoth };

/// str.strip and kin. Null `characters`: white space.
TemplateString strip(Runtime& runtime, const TemplateString& text, Side side, const TemplateString* characters);
/// str.replace; `count` < 0: all.
TemplateString replace(Runtime& runtime, const TemplateString& text, std::string_view from, const TemplateString& to,
                       int64_t count);
/// str.split (rsplit from the right). Null `separator`: runs of white space. `count` < 0: no limit.
Value split(Runtime& runtime, const TemplateString& text, const TemplateString* separator, int64_t count,
            bool from_right);
Value split_lines(Runtime& runtime, const TemplateString& text, bool keep_ends);
/// Joins the str() of the items.
TemplateString join(Runtime& runtime, const List& items, const TemplateString& separator);

/// kTitle: a capital after whatever is no letter, as str.title(); kTitleWords: after blanks, hyphens and opening
/// brackets, as the filter.
enum class Case { kUpper, kLower, kCapitalize, kTitle, kTitleWords };
TemplateString change_case(Runtime& runtime, const TemplateString& text, Case how);

/// HTML's five special characters as entities, each with the trust of the character it stands for.
TemplateString escape_html(Runtime& runtime, const TemplateString& text);

/// The indent filter.
TemplateString indent(Runtime& runtime, const TemplateString& text, const TemplateString& prefix, bool first,
                      bool blank);

}  // namespace llmd::jinja
