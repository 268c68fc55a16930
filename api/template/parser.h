// Parser: tokens to the tree of ast.h, by recursive descent with Jinja's precedence.
//
// Throws Failure with the line for what is not Jinja, for the parts of Jinja that reach outside the template (include,
// import, extends, ...), and for nesting deeper than `depth_max`. Called once per template, by one thread.
#pragma once

#include <string>

#include "api/template/ast.h"

namespace llmd::jinja {

std::unique_ptr<Program> parse_program(const std::string& source, int depth_max);

}  // namespace llmd::jinja
