#!/bin/sh
# run.sh - the comparison with other actor systems; see run.py --help.
#
# Installs the packaged peers where they are missing, then builds and runs
# both sides. troupe-bench itself must be built: `make bench-peers` does.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/tools/deps.sh" bench
exec python3 "$root/bench/peers/run.py" "$@"
