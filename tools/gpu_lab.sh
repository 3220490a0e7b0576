#!/usr/bin/env bash
# Offline compilers of GPUs, for `make gpu-check`: ocloc (Intel), clang with its device libraries
# (AMD), clang with libclc and ptxas (NVIDIA). They come as packages of Debian and of pip, unpacked
# into a folder: nothing is installed, and root is not needed. 120 MB to fetch, 700 on disk.
#   tools/gpu_lab.sh            into $GPU_LAB, else the user's cache folder; does nothing a second time
set -euo pipefail
cd "$(dirname "$0")/.."
lab=${GPU_LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/ocl_inductor_gpu_lab}
made=$(sha256sum tools/gpu_lab.sh | cut -d' ' -f1)
[ "$(cat "$lab/made-by" 2>/dev/null)" = "$made" ] && exit 0

python=.venv/bin/python
[ -x $python ] || python=python3
for tool in apt-get apt-cache dpkg; do
    command -v "$tool" >/dev/null || { echo "gpu_lab: no $tool here" >&2; exit 1; }
done
mkdir -p "$(dirname "$lab")"
work=$(mktemp -d "$lab.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/tree"

known() { apt-cache show "$1" >/dev/null 2>&1; }
update() {
    local sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    "${sudo[@]}" apt-get -qq update || true
}
known clang-19 || update

packages=(clang-19 libclang-cpp19 libllvm19 libclang-common-19-dev libclc-19 libz3-4)
for libraries in rocm-device-libs-17 rocm-device-libs; do
    known $libraries && packages+=($libraries) && break
done
# ocloc is of the driver's package; its compiler's libraries have other names in each release.
if known intel-opencl-icd; then
    own='^(libigc|libigd|libopencl-clang|libllvm|libclang|ocl-icd-libopencl1)'
    mapfile -t found < <(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances intel-opencl-icd | grep -E "$own" | sort -u)
    packages+=(intel-opencl-icd libigc-tools "${found[@]}")
fi
download() { (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User=root download "${packages[@]}"); }
# Lists may be out of date.
download || { update && download; }
for package in "$work"/debs/*.deb; do
    dpkg -x "$package" "$work/tree"
done
(cd "$work/debs" && ls) >"$work/packages"
rm -r "$work/debs"

# The disassembler of ocloc looks for a name that only the development package has.
system="$work/tree/usr/lib/x86_64-linux-gnu"
ln -sf libiga64.so.1 "$system/libiga64.so"
bitcode=$(find "$work/tree/usr" -path '*/amdgcn/bitcode' -print -quit)
[ "$bitcode" = "$system/amdgcn/bitcode" ] || ln -srfn "$(dirname "$bitcode")" "$system/amdgcn"
# The device libraries of older releases know gfx11 by everything but its number.
version="$bitcode/oclc_isa_version_1100.bc"
[ -e "$version" ] || printf '%s\n' 'target triple = "amdgcn-amd-amdhsa"' \
    '@__oclc_ISA_version = linkonce_odr hidden local_unnamed_addr addrspace(4) constant i32 11000' |
    LD_LIBRARY_PATH="$system" "$work/tree/usr/lib/llvm-19/bin/clang" -target amdgcn-amd-amdhsa \
        -nogpulib -x ir -emit-llvm -c - -o "$version"

$python -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
    --target "$work/nvidia" 'nvidia-cuda-nvcc-cu12>=12.9,<13' 'nvidia-cuda-nvdisasm>=13.2,<14'
echo "$made" >"$work/made-by"
rm -rf "$lab"
mv "$work" "$lab"
trap - EXIT
echo "gpu_lab: $lab"
