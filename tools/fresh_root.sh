#!/bin/sh
# fresh_root.sh - does the project work on a machine that has nothing?
#
# usage: tools/fresh_root.sh [-k] [-s SUITE] [-d FOLDER] [COMMAND]...
#
#   -k         keep the root; otherwise it is removed at the end
#   -s SUITE   of Debian; default bookworm
#   -d FOLDER  where the root is made; default /var/tmp/troupe-fresh-PID
#   COMMAND    run in the clone, one after the other; each even if an earlier
#              one failed. Default: 'make run' 'make test'
#
# Makes the smallest Debian root that can run make, with /proc mounted, puts a
# clone of the last commit into it, and runs the commands there as root. What
# they need they must install by themselves. Packages come from where this
# machine gets its own: apt's configuration, the proxy variables and the name
# resolution are taken over as they are; nothing of that is in this script.
#
# Needs root, debootstrap and git. The logs stay in build/fresh-root. The exit
# status is 0 only if every command ended with 0.
set -eu

keep=
suite=bookworm
folder=/var/tmp/troupe-fresh-$$
while getopts ks:d: option; do
    case $option in
    k) keep=1 ;;
    s) suite=$OPTARG ;;
    d) folder=$OPTARG ;;
    *)
        sed -n 's/^# usage: /usage: /p' "$0" >&2
        exit 2
        ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- 'make run' 'make test'

die() {
    echo "fresh_root.sh: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || die "debootstrap and chroot need root"
for tool in debootstrap git chroot mount; do
    command -v "$tool" >/dev/null || die "no $tool; apt-get install it"
done
[ ! -e "$folder" ] || die "$folder is there already"
source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
if [ -n "$(git -C "$source" status --porcelain)" ]; then
    echo "fresh_root.sh: what is not committed is not in the clone" >&2
fi
commit=$(git -C "$source" log -1 --format='%h %s')
logs=$source/build/fresh-root
root=$folder/root
mkdir -p "$logs" "$root"

# Nothing may stay mounted under a folder that is about to be removed.
clean() {
    for place in dev/pts dev/shm proc; do
        if mountpoint -q "$root/$place"; then
            umount "$root/$place" || umount -l "$root/$place"
        fi
    done
    if [ -n "$keep" ]; then
        echo "kept: $root"
    else
        rm -rf --one-file-system "$folder"
    fi
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Where this machine gets the suite from; debootstrap knows a default.
mirror=
if command -v apt-get >/dev/null; then
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' \
        'Created-By: Packages' 2>/dev/null |
        sed -n "s/^$suite //p" | head -n 1)
fi

begin=$(date +%s)
echo "== debootstrap $suite"
# shellcheck disable=SC2086
debootstrap --variant=minbase --include=make,ca-certificates "$suite" \
    "$root" $mirror >"$logs/debootstrap.log" 2>&1 || {
    tail -n 20 "$logs/debootstrap.log"
    die "debootstrap failed: $logs/debootstrap.log"
}
seconds_root=$(($(date +%s) - begin))

# The host's sources fit only the host's own release.
host_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
if [ "$host_suite" = "$suite" ] && [ -d /etc/apt ]; then
    rm -rf "$root/etc/apt"
    cp -a /etc/apt "$root/etc/apt"
    cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
fi
for file in /etc/resolv.conf /etc/hosts; do
    [ ! -f "$file" ] || cat "$file" >"$root$file"
done

mount -t proc proc "$root/proc"
mkdir -p "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" ||
    echo "no devpts: programs see no terminal"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"

git clone --quiet --no-local "$source" "$root/srv/troupe"

# An environment with nothing of this machine but its way to the network.
inside() {
    env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} \
        ${no_proxy:+no_proxy="$no_proxy"} \
        chroot "$root" sh -c "cd /srv/troupe && $1" </dev/null
}

packages() {
    chroot "$root" dpkg-query -W | wc -l
}

summary=
failed=0
number=0
for command in "$@"; do
    number=$((number + 1))
    log=$logs/$number.log
    echo "== $command"
    before=$(packages)
    begin=$(date +%s)
    status=0
    inside "$command" >"$log" 2>&1 || status=$?
    seconds=$(($(date +%s) - begin))
    tail -n 12 "$log" | sed 's/^/   /'
    [ "$status" = 0 ] || failed=1
    summary="$summary
$(printf '%-24s exit %-3s %5s s, %s packages installed' "$command" \
        "$status" "$seconds" "$(($(packages) - before))")"
done

echo "== summary: $commit"
printf '%-24s        %5s s, %s packages, %s\n' "debootstrap $suite" \
    "$seconds_root" "$(packages)" "$(du -sxh "$root" | cut -f1)"
printf '%s\n' "${summary#?}"
echo "logs: $logs"
exit $failed
