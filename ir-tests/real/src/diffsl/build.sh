#!/bin/sh
# build.sh OUT_DIR: writes OUT_DIR/{predator,heat}.clif, without their directives. Needs
# DIFFSL_TO_CLIF, the built binary of diffsl-to-clif/, and python3. The function numbers follow the
# order in which DiffSL 0.12.5 declares functions.
set -eu
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: "${DIFFSL_TO_CLIF:=$here/diffsl-to-clif/target/debug/diffsl-to-clif}"
for model in predator heat; do
    "$DIFFSL_TO_CLIF" "$here/$model.ds" >"$tmp/$model.log"
done
"$here/../upgrade.py" "$tmp/predator.log" "$1/predator.clif" set_u0=0 rhs=4 calc_out=7 rhs_grad=16 \
    import:sin=3 import:log=6 import:sin_tangent=15
cat "$here/tangents.clif" >>"$1/predator.clif"
"$here/../upgrade.py" "$tmp/heat.log" "$1/heat.clif" set_u0=0 rhs=4 import:exp=3
