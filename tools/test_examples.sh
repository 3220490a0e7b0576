#!/usr/bin/env bash
# Run the examples as tests: tools/test_examples.sh [pytest's arguments].
# They get a virtual environment of their own, .venv-examples, since what they need is large and
# nothing else needs it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv-examples
python=$venv/bin/python

if [ ! -e "$venv/.complete" ] || [ pyproject.toml -nt "$venv/.complete" ] ||
    [ constraints.txt -nt "$venv/.complete" ]; then
    [ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv"
    "$python" -m pip install --quiet --constraint constraints.txt setuptools
    "$python" -m pip install --quiet --constraint constraints.txt --no-build-isolation \
        --editable '.[cpu,sweep,dev,examples]'
    touch "$venv/.complete"
fi
exec "$python" -m pytest tests/examples "$@"
