#!/usr/bin/env bash
# Everything that a real NVIDIA GPU is needed for, in one go, on a bare Linux machine without a
# network: Python, PyTorch with CUDA, and the folder that tools/gpu_wheels.sh made elsewhere.
#   tools/gpu_run.sh OUT [arguments of benchmarks.gpu.session]
# Finds the driver's OpenCL library, registers it for this run only, and writes OUT/lines.jsonl line
# by line, most important first; `python -m benchmarks.gpu.report OUT/lines.jsonl` makes tables of
# it. WHEELS is the folder of wheels, PYTHON the interpreter. No setting of the card is changed.
# A rehearsal on a CPU: tools/gpu_run.sh OUT --device intel --profile simt --memory discrete --small
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: tools/gpu_run.sh OUT [arguments]}
shift
python=${PYTHON:-python3}
wheels=${WHEELS:-.gpu_wheels}
mkdir -p "$out"
out=$(realpath "$out")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
if [ -d "$wheels" ]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --upgrade \
        --target "$scratch/site" "$wheels"/*.whl
    export PYTHONPATH=$PWD:$scratch/site${PYTHONPATH:+:$PYTHONPATH}
fi

{
    uname -srm
    nvidia-smi 2>&1 || true
    find / \( -path /proc -o -path /sys \) -prune -o \
        \( -name 'libnvidia-opencl*' -o -name 'libcuda.so*' -o -name '*.icd' \) -print 2>/dev/null || true
    ldconfig -p | grep -iE 'opencl|libcuda|nvidia' || true
} >"$out/machine.txt"

export XDG_CACHE_HOME=$scratch/cache OCL_INDUCTOR_CACHE_DIR=$scratch/cache/ocl_inductor
export TORCHINDUCTOR_CACHE_DIR=$scratch/cache/inductor PYTHONUNBUFFERED=1
"$python" -m benchmarks.gpu.session --out "$out" "$@"
