#!/bin/bash
# Installs what is missing of the named groups of tools/packages.txt. Quick and silent when nothing is.
# Usage: tools/ensure_packages.sh GROUP...
set -euo pipefail
list="$(dirname "$0")/packages.txt"

missing=()
while read -r group package command; do
  case " $* " in *" $group "*) ;; *) continue ;; esac
  if [ -n "$command" ] && command -v "$command" >/dev/null; then continue; fi
  missing+=("$package")
done < <(grep -v '^#' "$list")
if [ ${#missing[@]} -gt 0 ]; then
  mapfile -t installed < <(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${missing[@]}" 2>/dev/null |
    sed -n 's/^ii //p')
  wanted=()
  for package in "${missing[@]}"; do
    case " ${installed[*]} " in *" $package "*) ;; *) wanted+=("$package") ;; esac
  done
  missing=("${wanted[@]}")
fi
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

echo "Installing from Debian: ${missing[*]}"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "sudo is missing; as root, run: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -q
"${sudo[@]}" apt-get install -q -y --no-install-recommends "${missing[@]}"
