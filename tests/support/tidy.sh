#!/bin/bash
# Runs clang-tidy on sources, as many at a time as there are processors:
# tests/support/tidy.sh BUILD_FOLDER FILE… (files that the build does not know are left out).
# clang's -Wconversion has sign conversions in it, which GCC's has not.
# Version 16 or newer: 14 cannot parse the C++20 of libstdc++ 12 (std::source_location).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
# Not head: it may end the writer by a signal, which pipefail takes for a failure.
tidy=$(command -v clang-tidy-16 clang-tidy-17 clang-tidy-18 clang-tidy | awk 'NR == 1')
files=()
for file in "$@"; do
    if grep -q "/$file\"" "$build/compile_commands.json"; then files+=("$file"); fi
done
echo "clang-tidy of ${#files[@]} files"
[ ${#files[@]} = 0 ] ||
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
        "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-sign-conversion 2> >(grep -v 'warnings\? generated' >&2)
