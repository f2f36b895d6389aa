#!/bin/sh
# build.sh OUT_DIR: compiles the programs of this folder to wasm32 and writes OUT_DIR/*.clif,
# without their directives. Needs clang and wasm-ld 14, rustc 1.63 with the wasm32 library (Debian
# 12: clang lld rustc libstd-rust-dev-wasm32), python3, RUSTC_WASM if that is not `rustc`, and
# WASM_TO_CLIF, the built binary of wasm-to-clif/.
set -eu
here=$(dirname "$(realpath "$0")")
out=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: "${WASM_TO_CLIF:=$here/wasm-to-clif/target/debug/wasm-to-clif}"

# clif NAME OPT MODULE EXPORT...: OUT_DIR/NAME.clif
clif() {
    name=$1 opt=$2 module=$3
    shift 3
    "$WASM_TO_CLIF" "$tmp/$module.wasm" "$tmp/$name" "$opt"
    python3 "$here/join.py" "$tmp/$module.wasm" "$tmp/$name" "$out/$name.clif" "$@"
}
# c MODULE SOURCE FLAGS...
c() {
    module=$1 source=$2
    shift 2
    clang --target=wasm32 -ffreestanding -fno-math-errno -fvisibility=hidden "$@" -c "$here/$source.c" -o "$tmp/$module.o"
    wasm-ld --no-entry --export-dynamic --allow-undefined -z stack-size=8192 "$tmp/$module.o" -o "$tmp/$module.wasm"
}

c gmm gmm -O2
clif gmm.opt speed gmm gmm
clif gmm.raw none gmm gmm
c matvec matvec -O2
clif matvec.opt speed matvec matvec normal_matvec
clif matvec.raw none matvec matvec normal_matvec
c matvec_simd matvec -O2 -msimd128 -ffast-math
clif matvec_simd.opt speed matvec_simd matvec
c rk4 rk4 -O2
clif rk4.opt speed rk4 rk4_step rk4_energy
clif rk4.raw none rk4 rk4_step rk4_energy
c structs structs -O2
clif structs.opt speed structs reverse_copy drift collide
clif structs.raw none structs reverse_copy drift collide
c structs_bulk structs -O2 -mbulk-memory
clif structs_bulk.opt speed structs_bulk collide
c eval eval -O2
clif eval.opt speed eval eval
clif eval.raw none eval eval
c kepler kepler -O2
clif kepler.opt speed kepler kepler orbit
c kepler_o0 kepler -O0
clif kepler_o0.raw none kepler_o0 kepler orbit
c integrate integrate -O2
clif integrate.opt speed integrate integrate
clif integrate.raw none integrate integrate
c points points -O2
clif points.opt speed points reverse_rotate spread lengths
clif points.raw none points reverse_rotate spread lengths

# RUSTC_BOOTSTRAP: `sqrtf64` without the standard library is an unstable intrinsic.
RUSTC_BOOTSTRAP=1 ${RUSTC_WASM:-rustc} --target wasm32-unknown-unknown --crate-type cdylib -O -C panic=abort -C linker=wasm-ld \
    -C link-arg=-zstack-size=8192 "$here/nbody.rs" -o "$tmp/nbody.wasm"
clif nbody.opt speed nbody energy advance swap_energy
clif nbody.raw none nbody energy advance swap_energy
