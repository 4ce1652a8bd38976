# tree.sh - sourced by tests of the scripts in tools/ that check the tree.
#
# A script runs twice: on the tree, where it must find nothing, and on small
# trees with one mistake each, where it must find that.
# shellcheck shell=sh
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tree_passes SCRIPT ARGUMENT...
tree_passes() {
    script=$1
    shift
    "$TR_SOURCE_DIR/tools/$script" "$@" || exit $?
}

# reports STATUS SCRIPT ARGUMENT...: runs it and keeps what it prints.
reports() {
    wanted=$1
    script=$2
    shift 2
    status=0
    "$TR_SOURCE_DIR/tools/$script" "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$wanted" ] || {
        echo "$script $*: status $status, not $wanted"
        cat "$work/out"
        exit 1
    }
}

# says TEXT: the last report has it.
says() {
    grep -qF -- "$1" "$work/out" || {
        echo "wanted: $1"
        cat "$work/out"
        exit 1
    }
}

# silent TEXT: the last report does not have it.
silent() {
    if grep -F -- "$1" "$work/out"; then
        echo "not wanted: $1"
        exit 1
    fi
}
