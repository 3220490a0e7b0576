#!/usr/bin/env bash
# Run the tests with another version of PyTorch: tools/test_torch.sh 2.11.0 [pytest's arguments].
# It gets a virtual environment of its own, .venv-torch-VERSION. Builds other than the pinned one
# may bring CUDA's libraries: 5 GB, some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: tools/test_torch.sh VERSION [pytest arguments]}
shift
venv=.venv-torch-$version
python=$venv/bin/python

if [ ! -e "$venv/.complete" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    others=$venv/constraints.txt
    # What torch brings is its own choice; setuptools too, of which it wants older ones.
    grep -vE '^(torch|torchvision|setuptools|sympy|fsspec|networkx)==' constraints.txt >"$others"
    "$python" -m pip install --quiet --constraint "$others" "torch==$version" torchvision 'setuptools>=77.0.3'
    # Everything else that the package wants, but for what was just installed.
    "$python" tools/requirements_of.py . cpu sweep dev >"$venv/requirements.txt"
    "$python" -m pip install --quiet --constraint "$others" --requirement "$venv/requirements.txt"
    "$python" -m pip install --quiet --no-deps --no-build-isolation --editable .
    touch "$venv/.complete"
fi
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(tests/null tests/device tests/models)
exec "$python" -m pytest -n "${JOBS:-2}" --dist worksteal -m "not slow" "${tests[@]}"
