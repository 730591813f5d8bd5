#!/bin/sh
# Builds the eBPF objects of the project from their C sources, and their hashes; with --check compares instead. Debian's
# clang 14 (clang-14, llvm-14) gives the same bytes everywhere; another compiler gives others, and is refused.
set -eu
cd "$(dirname "$0")/.."
clang-14 --version | grep -q ' version 14\.0\.6' || { echo 'error: this needs clang 14.0.6' >&2; exit 3; }
object=$(mktemp)
trap 'rm -f "$object"' EXIT
names='crates/probe/bpf/stages crates/xdp/bpf/filter lab/measuring/bpf/tap'
for name in $names; do
    (cd "${name%/*}" && clang-14 -O2 -g -Wall -Werror -target bpf -mcpu=v3 -fdebug-compilation-dir=. \
        -c "${name##*/}.bpf.c" -o "$object")
    llvm-strip-14 --strip-debug "$object"
    if [ "${1:-}" = --check ]; then
        cmp "$object" "$name.bpf.o" || { echo "error: $name.bpf.o is not what its source builds; run $0" >&2; exit 1; }
    else
        cp "$object" "$name.bpf.o"
    fi
done
[ "${1:-}" = --check ] || for name in $names; do
    sha256sum "$name.bpf.c" "$name.bpf.o"
done > xtask/bpf.sha256
