#!/bin/sh
# Builds the kit and its samples: sdk/build.sh [FOLDER]. Without a folder the modules of sdk/modules are replaced, with
# the hashes of their sources. Needs, of Debian: apt-get install rustc libstd-rust-dev-wasm32 clang lld
set -eu
cd "$(dirname "$0")"

find_rustc() {
    for each in ${RUSTC:-} /usr/bin/rustc rustc; do
        libs=$("$each" --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) || continue
        if [ -d "$libs" ]; then echo "$each"; return; fi
    done
    echo "no rustc with wasm32-unknown-unknown: apt-get install rustc libstd-rust-dev-wasm32" >&2
    return 1
}

target=${1:-modules}
mkdir -p "$target"
rustc=$(find_rustc)
clang=${CLANG:-clang}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rust() {
    "$rustc" --target wasm32-unknown-unknown --edition 2021 -C opt-level=3 -C panic=abort \
        -C embed-bitcode=no -C target-feature=+bulk-memory \
        --remap-path-prefix "$PWD=sdk" "$@"
}

rust --crate-type rlib --crate-name gauss_connector -o "$work/libgauss_connector.rlib" rust/src/lib.rs
for sample in numbers totals probe; do
    rust --crate-type cdylib --crate-name "$sample" -C strip=symbols \
        --extern gauss_connector="$work/libgauss_connector.rlib" -o "$target/$sample.wasm" "rust/samples/$sample.rs"
done

"$clang" --target=wasm32 -std=c11 -O2 -Wall -Wextra -Werror -nostdlib -ffreestanding -fno-builtin \
    -Wl,--no-entry -Wl,--export-dynamic -Wl,--strip-all -Ic -o "$target/counter.wasm" c/samples/counter.c c/gauss_connector.c
chmod 644 "$target"/*.wasm

if [ "$target" = modules ]; then
    find build.sh rust c -type f \( -name '*.rs' -o -name '*.[ch]' -o -name build.sh \) | LC_ALL=C sort \
        | xargs sha256sum > modules/sources.sha256
fi
