#!/bin/sh
# build.sh [NAME…]: compiles the programs of src/ to O0/NAME.wasm, O2/NAME.wasm, O3-simd/NAME.wasm
# and, where listed, linked/NAME.wasm, and their adjoints by hand, src/by_hand/NAME.c, to
# by_hand/NAME.wasm. Without names, all of them.
#
# Debian 12: apt-get install clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32, and for C++
# libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libeigen3-dev (CLANG says which clang).
# rustc 1.95 with its wasm32 library: rustup target add wasm32-unknown-unknown.
set -eu
here=$(dirname "$(realpath "$0")")
: "${CLANG:=clang-19}" "${RUSTC:=rustc}"
wanted=" $* "
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

selected() { [ "$wanted" = "  " ] || case $wanted in *" $1 "*) true ;; *) false ;; esac; }

# Names of functions stay, for messages and because they say what a function of the C library is;
# debugging sections go. The stack comes first, so that an overflow traps instead of writing over
# data.
link="-Wl,--gc-sections -Wl,--strip-debug -Wl,--stack-first -Wl,-z,stack-size=32768"

# one NAME SOURCE FOLDER FLAG...
one() {
    name=$1 source=$2 folder=$3
    shift 3
    mkdir -p "$here/$folder"
    file=$here/src/$source.c
    [ -f "$file" ] || file=$here/src/$source.cpp
    "$CLANG" --target=wasm32-wasi -fno-math-errno -ffunction-sections -fdebug-prefix-map="$here"=. \
        -Wall -Wextra -Werror $link "$@" "$file" -o "$out/module.wasm"
    install -m 644 "$out/module.wasm" "$here/$folder/$name.wasm"
}

# c NAME SOURCE FLAG...: at three levels.
c() {
    name=$1 source=$2
    shift 2
    selected "$name" || return 0
    one "$name" "$source" O0 -O0 "$@"
    one "$name" "$source" O2 -O2 "$@"
    one "$name" "$source" O3-simd -O3 -msimd128 "$@"
}

# optimised NAME SOURCE FLAG...: at the two levels that keep in registers what they can.
optimised() {
    name=$1 source=$2
    selected "$name" || return 0
    shift 2
    one "$name" "$source" O2 -O2 "$@"
    one "$name" "$source" O3-simd -O3 -msimd128 "$@"
}

# cpp NAME FLAG...: C++, at two levels: without optimisation the library alone is 400 kB.
cpp() {
    name=$1
    shift
    selected "$name" || return 0
    set -- "$@" -std=c++20 -fno-exceptions -fno-rtti -lc++ -lc++abi
    one "$name" "$name" O2 -O2 "$@"
    one "$name" "$name" O3-simd -O3 -msimd128 "$@"
}

# linked NAME FLAG...: with the C library's mathematics in the module.
linked() {
    name=$1
    shift
    selected "$name" || return 0
    one "$name" "$name" linked -O2 -DLINKED_MATH "$@"
}

# by_hand NAME FLAG...: the adjoint of a program, at one level.
by_hand() {
    name=$1
    shift
    selected "$name" || return 0
    one "$name" "by_hand/$name" by_hand -O2 "$@"
}

rust() {
    selected "$1" || return 0
    for level in O0 O2 O3-simd; do
        mkdir -p "$here/$level"
        flags=-Copt-level=${level#O}
        [ "$level" != O3-simd ] || flags="-Ctarget-feature=+simd128 -Copt-level=3"
        # shellcheck disable=SC2086
        "$RUSTC" --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib $flags \
            -Cpanic=abort -Cstrip=debuginfo -Clink-arg=-zstack-size=32768 -Ccodegen-units=1 \
            --remap-path-prefix "$here"=. "$here/src/$1.rs" -o "$out/module.wasm"
        install -m 644 "$out/module.wasm" "$here/$level/$1.wasm"
    done
}

# Programs that need the C library are reactors of WASI, which have to be initialised
# (`_initialize`); most offer their heap.
libc="-mexec-model=reactor"
heap="$libc -Wl,--export=malloc -Wl,--export=free"
bare="-nostdlib -Wl,--no-entry"

# shellcheck disable=SC2086
{
    c loss loss $bare -Wl,--allow-undefined
    c gmm gmm $heap
    c ba ba $bare
    c lstm lstm $heap
    c hand hand $heap
    c fft fft $bare
    c fft32 fft $bare -DSINGLE
    c cg cg $heap
    c order order $heap
    c nbody nbody $bare
    # Without optimisation steps that run again leave other things in their frames.
    optimised swings swings $bare -Wl,--allow-undefined -I"$here/../../crates/brolga-wasm/include"
    optimised simulations simulations $bare -Wl,--allow-undefined -I"$here/../../crates/brolga-wasm/include"
    # Tasks that use C's stack, and those that do not.
    c forks forks $bare -Wl,--allow-undefined -I"$here/../../crates/brolga-wasm/include"
    c openmp openmp $bare -Wl,--allow-undefined -fopenmp
    c openmp_serial openmp $bare -Wl,--allow-undefined -Wno-unknown-pragmas
    c heat heat $heap
    c machine machine $libc
    c quadrature quadrature $bare
    c structs structs $heap
    c layers layers $heap
    c copies copies $heap
    c records records $heap
    c records_beside_singles records $heap -DSINGLES
    c unions unions $bare
    c chosen chosen $bare -mbulk-memory
    c paths paths $bare
    c scales scales $bare
    c parsed parsed $heap
    c resampled resampled $heap
    c slopes slopes $bare -Wl,--allow-undefined
    c phasors phasors $libc
    c norms norms $libc
    c waves waves $libc
    c precise precise $heap
    c bits bits $bare
    c rounded rounded $bare
    c digits digits $bare
    c sampled sampled $bare -mbulk-memory
    optimised rounding rounding $bare
    optimised rounding32 rounding $bare -DSINGLE
    c remainders remainders $bare -Wl,--allow-undefined
    optimised halves halves $bare
    c kernels kernels $bare
    cpp containers $libc -DLINKED_MATH
    cpp eigen $libc -DLINKED_MATH -DEIGEN_NO_IO -DNDEBUG -isystem /usr/include/eigen3
    # With vectors Eigen has exponentials of its own, by bits.
    rm -f "$here/O3-simd/eigen.wasm"
    cpp eigen_fixed $libc -DLINKED_MATH -DEIGEN_NO_IO -DNDEBUG -isystem /usr/include/eigen3
    linked gmm $heap
    linked lstm $heap
    linked quadrature $heap
    linked remainders $libc
    linked forks $libc -Wl,--allow-undefined -I"$here/../../crates/brolga-wasm/include"
    linked openmp $libc -Wl,--allow-undefined -fopenmp
    by_hand gmm $heap
    by_hand ba $bare
    by_hand lstm $heap
    by_hand fft $bare
    by_hand cg $heap
    by_hand nbody $heap
    by_hand heat $heap
    by_hand quadrature $bare
    by_hand layers $heap
    by_hand kernels $bare
}
for name in gp ode robust; do
    rust "$name"
done
