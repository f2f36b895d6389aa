#!/bin/sh
# build.sh OUT_DIR: writes OUT_DIR/numeric.clif, without its directives. Needs PYTHON_TO_CLIF, the
# built binary of python-to-clif/, and python3. The JIT makes a module per function, so upgrade.py
# counts them in thousands.
set -eu
here=$(dirname "$(realpath "$0")")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: "${PYTHON_TO_CLIF:=$here/python-to-clif/target/debug/python-to-clif}"
"$PYTHON_TO_CLIF" "$here/numeric.py" >"$tmp/log"
"$here/../upgrade.py" "$tmp/log" "$1/numeric.clif" horner=0 cube_root=1000 factorial=2000 huber=3000 compound=4000 python_orbit=5000
