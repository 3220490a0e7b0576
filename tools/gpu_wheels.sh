#!/usr/bin/env bash
# Gather in a folder what tools/gpu_run.sh needs on a machine without a network: wheels for its
# Python (PYTHON_VERSION, default 3.12), under 5 MB in all. PyTorch must be there already.
#   tools/gpu_wheels.sh [FOLDER]        default: .gpu_wheels
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-.gpu_wheels}
version=${PYTHON_VERSION:-3.12}
# What PyTorch and the usual tools beside it do not bring. pip matches platform tags exactly.
packages=(pyopencl pytools siphash24 platformdirs pydantic pydantic-core typing-inspection
    annotated-types typing-extensions expecttest)
platforms=()
for tag in manylinux_2_28 manylinux_2_27 manylinux_2_17 manylinux2014 manylinux1; do
    platforms+=(--platform "${tag}_x86_64")
done
rm -rf "$folder"
mkdir -p "$folder"
python=.venv/bin/python
[ -x $python ] || python=python3
for package in "${packages[@]}"; do
    $python -m pip download --quiet --no-deps --only-binary=:all: --python-version "$version" \
        --implementation cp "${platforms[@]}" --dest "$folder" "$package"
done
# The package's own metadata names the backend "opencl" to PyTorch.
$python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$folder" .
rm -rf build
du -sh "$folder"
