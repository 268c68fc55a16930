// Setters of the option table for values that are more than a number, a word or a size.
//
// As SetOption and GetOption (daemon/option_table.h): one value, checked and stored. Any thread. Errors: "usage".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/options.h"
#include "io/result.h"

namespace llmd {

/// The parts of "a,b,c" without blanks around them; an empty part is an error.
Result<std::vector<std::string>> parse_list(std::string_view name, std::string_view text);
std::string join_list(const std::vector<std::string>& list);

/// HOST:PORT, [IPV6]:PORT or unix:PATH; several, separated by commas.
Status set_listen(Options& options, std::string_view name, std::string_view text);
std::string get_listen(const Options& options);

/// The mode of a socket file, in octal: "0660".
Status set_socket_mode(Options& options, std::string_view name, std::string_view text);
std::string get_socket_mode(const Options& options);

/// KEY=VALUE
Status add_override(Options& options, std::string_view name, std::string_view text);
/// Token ids: "1,2,3".
Status set_tokens(Options& options, std::string_view name, std::string_view text);

}  // namespace llmd
