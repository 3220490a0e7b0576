#!/usr/bin/env bash
# Install Debian's OpenCL drivers, which the tests use beside pip's, and a browser to look at pages
# with. Best effort: without root, apt or a network it says what will be missing, and succeeds.
set -uo pipefail

packages=(oclgrind pocl-opencl-icd mesa-opencl-icd)

has_browser() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
} >/dev/null

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' \
        || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && has_browser && exit 0

give_up() {
    echo "apt_drivers: $1; tests on these will be missing: ${missing[*]:-} chromium"
    exit 0
}

command -v apt-get >/dev/null || give_up "no apt-get here"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || give_up "neither root nor passwordless sudo"
    sudo=(sudo -n)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { timeout 240 "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=60 "$@" >>"$log" 2>&1; }

# Lists may be absent or out of date: fetch them only when a first try fails. The browser comes by
# itself, so that a distribution without it still gets its drivers.
if [ ${#missing[@]} -gt 0 ]; then
    apt install -y --no-install-recommends "${missing[@]}" \
        || { apt update && apt install -y --no-install-recommends "${missing[@]}"; } \
        || give_up "apt-get failed ($(tail -n 1 "$log"))"
fi
has_browser || apt install -y --no-install-recommends chromium \
    || { apt update && apt install -y --no-install-recommends chromium; } \
    || echo "apt_drivers: no chromium ($(tail -n 1 "$log")); the tests of pages are skipped"
exit 0
