#!/usr/bin/env bash
# Run a command with the OpenCL drivers of another release of Debian or Ubuntu, which may be all that a
# user has: PoCL 6.0 and Mesa 25 of trixie, PoCL 5.0 of noble. Packages are unpacked into the user's
# cache folder, and the command runs there by chroot, with this checkout and its .venv. Nothing is
# installed; needs root.
#   tools/in_release.sh trixie .venv/bin/ocl-inductor doctor
#   tools/in_release.sh trixie env OCL_INDUCTOR_TEST_DEVICES=pocl-6.0 .venv/bin/python -m pytest tests/device
#   MIRROR=http://… tools/in_release.sh noble …        a release that this machine's mirror does not have
set -euo pipefail
cd "$(dirname "$0")/.."
release=${1:?usage: tools/in_release.sh RELEASE COMMAND...}
shift
[ "$(id -u)" -eq 0 ] || { echo "in_release: root is needed, for mounts and chroot" >&2; exit 1; }
for tool in apt-get dpkg unshare; do
    command -v "$tool" >/dev/null || { echo "in_release: no $tool here" >&2; exit 1; }
done

folder=${XDG_CACHE_HOME:-$HOME/.cache}/ocl_inductor_releases/$release
tree=$folder/tree
if [ ! -e "$folder/complete" ]; then
    mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}
    rm -rf "$folder"
    mkdir -p "$folder"/{lists/partial,archives/partial,empty,debs} \
        "$tree"/{proc,dev,sys,tmp,var}
    touch "$folder/status"
    # Without the other distribution's key, so unchecked: for tests only.
    echo "deb [trusted=yes] $mirror $release main universe" >"$folder/sources.list"
    apt=(-qq "-oDir::Etc::sourcelist=$folder/sources.list" "-oDir::Etc::sourceparts=$folder/empty"
        "-oDir::State::Lists=$folder/lists" "-oDir::Cache=$folder" "-oDir::State::status=$folder/status"
        -oAPT::Sandbox::User=root)
    apt-get "${apt[@]}" update 2>/dev/null || true # Debian has no component "universe"
    # The drivers, and what a shell and Python need beside them.
    wanted=(pocl-opencl-icd mesa-opencl-icd bash coreutils libc-bin libssl3t64 libbz2-1.0
        libsqlite3-0 libreadline8t64 libuuid1 libexpat1 liblzma5 gcc)
    mapfile -t packages < <(apt-cache "${apt[@]}" depends --recurse --no-recommends --no-suggests \
        --no-conflicts --no-breaks --no-replaces --no-enhances "${wanted[@]}" \
        | grep -E '^[a-z]' | sort -u | grep -vE '^(perl|debconf|dpkg|cdebconf|tar)')
    (cd "$folder/debs" && apt-get "${apt[@]}" download "${packages[@]}")
    for package in "$folder"/debs/*.deb; do
        dpkg -x "$package" "$tree"
    done
    for name in bin sbin lib lib64; do
        [ -e "$tree/$name" ] || ln -s "usr/$name" "$tree/$name"
    done
    rm -r "$folder/debs" "$folder/lists" "$folder/archives"
    touch "$folder/complete"
fi

python=$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')
export TREE=$tree PYTHON_PREFIX=$python CHECKOUT=$PWD
# shellcheck disable=SC2016
exec unshare --mount bash -c '
set -euo pipefail
for path in /proc /dev /sys "$PYTHON_PREFIX" "$CHECKOUT"; do
    mkdir -p "$TREE$path"
    mount --rbind "$path" "$TREE$path"
done
exec chroot "$TREE" /usr/bin/env -i HOME=/tmp PATH=/usr/bin:/bin bash -c "cd \"\$0\" && exec \"\$@\"" "$CHECKOUT" "$@"
' in_release "$@"
