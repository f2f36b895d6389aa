#!/bin/sh
# build.sh OUT_DIR: writes OUT_DIR/expressions.clif, without its directives. Needs EVALEXPR_TO_CLIF,
# the built binary of evalexpr-to-clif/, and python3. evalexpr-jit compiles the values first, then
# the derivatives for x, y and z (each in a new module, so upgrade.py counts them in thousands);
# what they call is numbered in the order of the first mention.
set -eu
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: "${EVALEXPR_TO_CLIF:=$here/evalexpr-to-clif/target/debug/evalexpr-to-clif}"
"$EVALEXPR_TO_CLIF" 'x*exp(-(y*y)) + sin(x)*z' 'abs(x - y)/sqrt(z) + ln(x*x + 1.0) - x^3' \
    'cos(x*z)^2 + exp(x)/(1 + exp(x))' >"$tmp/log"
"$here/../upgrade.py" "$tmp/log" "$tmp/values" expressions=0 import:exp=1 import:sin=2 import:sqrt=3 import:log=4 import:cos=5
"$here/../upgrade.py" "$tmp/log" "$tmp/derivatives" expressions_dx=1000 import:exp=1 import:sin=2 import:cos=3 import:sqrt=4
{
    cat "$tmp/values"
    echo
    cat "$tmp/derivatives"
} >"$1/expressions.clif"
