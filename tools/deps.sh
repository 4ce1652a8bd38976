#!/bin/sh
# deps.sh - installs the Debian packages that are missing, and nothing else.
#
# usage: tools/deps.sh [build] [install] [postgres] [test] [lint] [coverage] [all]
#
# This is the one list of what the project needs. It asks dpkg first and
# returns at once, without network, when all is there. It works on Debian 12
# and 13 and needs root or sudo only when something is missing.
#
# Packages that hold a server are installed without leaving it running: no
# start now (a policy file that is taken away again), no empty database, no
# start at boot.
set -eu

build="build-essential cmake ninja-build pkgconf libsqlite3-dev libpq-dev
    libcmocka-dev"
install="python3"
test="clang libclang-rt-dev python3 spin postgresql groff-base mandoc ccache
    lld"
lint="clang-format-19 clang-tidy-19 iwyu"
coverage="lcov"
bench="libcaf-dev erlang-base erlang-dev golang-go cargo rustc librust-tokio-dev
    python3 postgresql libcjson-dev"

# The other architecture is built by cross compiler and run by qemu.
case $(uname -m) in
x86_64) test="$test qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
esac

# Server units that some of these packages enable.
services="postgresql.service epmd.service epmd.socket"

wanted=
for group in "${@:-build}"; do
    case $group in
    build) wanted="$wanted $build" ;;
    install) wanted="$wanted $build $install" ;;
    postgres) wanted="$wanted $build postgresql" ;;
    test) wanted="$wanted $build $test" ;;
    lint) wanted="$wanted $lint" ;;
    coverage) wanted="$wanted $build $test $coverage" ;;
    bench) wanted="$wanted $build $bench" ;;
    all) wanted="$wanted $build $test $lint $coverage $bench" ;;
    *)
        echo "deps.sh: no such group: $group" >&2
        sed -n 's/^# usage: /usage: /p' "$0" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "deps.sh: not a Debian system; install the equivalents of:$wanted" >&2
    exit 0
fi

# dpkg-query fails if it does not know one of the names; such a package is
# missing like any other.
# shellcheck disable=SC2086
installed=$(dpkg-query -W -f='${Package}=${db:Status-Status}\n' $wanted \
    2>/dev/null) || :
missing=
for package in $wanted; do
    case "
$installed
" in
    *"
$package=installed
"*) ;;
    *) case " $missing " in
        *" $package "*) ;;
        *) missing="$missing $package" ;;
        esac ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1; then
    sudo=sudo
else
    echo "deps.sh: as root, run: apt-get install$missing" >&2
    exit 1
fi

# Listed before the installation, so that only new units are disabled.
enabled() {
    find /etc/systemd/system /etc/rc[2-5].d -name '*' -type l 2>/dev/null |
        sed 's|.*/||' | sort -u
}

policy=/usr/sbin/policy-rc.d
cluster_conf=/etc/postgresql-common/createcluster.conf
made_policy=
saved_conf=
restore() {
    if [ -n "$made_policy" ]; then
        $sudo rm -f "$policy"
        made_policy=
    fi
    if [ -n "$saved_conf" ]; then
        $sudo cp "$saved_conf" "$cluster_conf"
        rm -f "$saved_conf"
        saved_conf=
    fi
}
trap restore EXIT
trap 'exit 1' HUP INT TERM

get() {
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get \
        -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 -qq -y "$@"
}

echo "deps.sh: installing$missing" >&2
before=$(enabled)
if [ ! -e "$policy" ]; then
    made_policy=1
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
fi
get update >&2
case " $missing " in
*" postgresql "*)
    # Its tests make databases of their own: the package need not make one.
    get install --no-install-recommends postgresql-common >&2
    if [ -f "$cluster_conf" ]; then
        saved_conf=$(mktemp)
        cat "$cluster_conf" >"$saved_conf"
        echo 'create_main_cluster = false' |
            $sudo tee -a "$cluster_conf" >/dev/null
    fi
    ;;
esac
# shellcheck disable=SC2086
get install --no-install-recommends $missing >&2

after=$(enabled)
for unit in $services; do
    name=${unit%.*}
    links=$(printf '%s\n' "$after" | grep -E "^($unit|S[0-9]+$name)\$" || :)
    [ -n "$links" ] || continue
    old=$(printf '%s\n' "$before" | grep -E "^($unit|S[0-9]+$name)\$" || :)
    [ -z "$old" ] || continue
    if command -v systemctl >/dev/null 2>&1; then
        $sudo systemctl disable "$unit" >/dev/null 2>&1 || :
    fi
    if command -v update-rc.d >/dev/null 2>&1; then
        $sudo update-rc.d "$name" disable >/dev/null 2>&1 || :
    fi
done
