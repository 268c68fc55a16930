// `llmd serve --check-config`: are the files and folders that the settings name there and usable by this user?
//
// Looks at metadata only, opens nothing for writing, and starts no thread. Called from main. Errors: "config_invalid"
// with a message that names the setting, the path and the cure.
#pragma once

#include "daemon/options.h"
#include "io/result.h"

namespace llmd {

Status check_paths(const Options& options);

}  // namespace llmd
