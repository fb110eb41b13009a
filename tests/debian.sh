# shellcheck shell=bash
# Packages of Debian that are unpacked and not installed, which needs no root rights. Sourced by the scripts that do so, which
# have a function `fail`. They share the variables `mirror`, `keyring` and `work`.

# lock FILE: one script at a time unpacks, on a machine that can.
lock() {
    local tool
    for tool in apt-get dpkg-deb flock; do
        command -v "$tool" >/dev/null || fail "\`$tool\` is missing: these are Debian packages, for a Debian machine"
    done
    mkdir -p "$(dirname "$1")"
    exec 9>"$1"
    flock -w 600 9 || fail "another fetch has held $1 for ten minutes"
}

# find_mirror: sets `mirror` to the machine's own, which serves the other releases too.
find_mirror() {
    [[ $(dpkg --print-architecture) == amd64 ]] || fail "this is $(dpkg --print-architecture), the packages are for amd64"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -e $keyring ]] || fail "$keyring is missing: apt-get install debian-archive-keyring"
    mirror=$("$(dirname "${BASH_SOURCE[0]}")/mirror")
    [[ -n $mirror ]] || fail "apt has no source of this release of Debian: add a mirror to /etc/apt/sources.list"
}

# use_suites WORK SUITES [PREFERENCES]: from here on `apt_of_suites` is for these suites of the mirror and keep their
# files below WORK. Their list of installed packages is empty.
use_suites() {
    work=$1
    rm -rf "$work"
    mkdir -p "$work"/{etc/none,state/lists/partial,cache/archives/partial}
    : >"$work/state/status"
    echo "${3:-}" >"$work/etc/preferences"
    cat >"$work/etc/sources.sources" <<END
Types: deb
URIs: $mirror
Suites: $2
Components: main
Signed-By: $keyring
END
    apt_of_suites get update
}

# apt_of_suites get|cache WORDS...: apt-get or apt-cache for them. It keeps the machine's settings (a proxy, credentials), except for the list of packages.
apt_of_suites() {
    command "apt-$1" -q \
        -o Dir::State="$work/state" -o Dir::State::status="$work/state/status" -o Dir::Cache="$work/cache" \
        -o Dir::Etc::sourcelist="$work/etc/sources.sources" -o Dir::Etc::sourceparts="$work/etc/none" \
        -o Dir::Etc::preferences="$work/etc/preferences" -o Dir::Etc::preferencesparts="$work/etc/none" \
        -o APT::Sandbox::User= -o APT::Update::Post-Invoke-Success::= -o APT::Install-Recommends=false \
        -o APT::Architecture=amd64 -o Acquire::Languages=none -o Acquire::Retries=3 "${@:2}"
}
