#!/bin/sh
# Builds stages.bpf.o and its hashes; with --check compares instead. Debian's clang 14 (clang-14, llvm-14) gives the
# same bytes everywhere; another compiler gives others, and is refused.
set -eu
cd "$(dirname "$0")"
clang-14 --version | grep -q ' version 14\.0\.6' || { echo 'error: this needs clang 14.0.6' >&2; exit 3; }
object=$(mktemp)
trap 'rm -f "$object"' EXIT
clang-14 -O2 -g -Wall -Werror -target bpf -mcpu=v3 -fdebug-compilation-dir=. -c stages.bpf.c -o "$object"
llvm-strip-14 --strip-debug "$object"
if [ "${1:-}" = --check ]; then
    cmp "$object" stages.bpf.o || { echo 'error: stages.bpf.o is not what its source builds; run build.sh' >&2; exit 1; }
else
    cp "$object" stages.bpf.o
    sha256sum stages.bpf.c stages.bpf.o > stages.sha256
fi
