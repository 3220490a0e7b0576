#!/usr/bin/env bash
# Run tests as if the processor were an older one: tools/test_targets.sh "avx2 sse4.2" TESTS...
# DEVICES: drivers, by default Intel's. PoCL can be told, too, but its library of functions stays the
# processor's own, and the two disagree on where vectors that are longer than the target's
# registers are passed: on a real processor of that kind it is another library.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=$1
shift
declare -A flag=([avx512]=avx512f [avx2]=avx2 [avx]=avx [sse4.2]=sse4_2)
failed=0
for target in $targets; do
    if ! grep -qw "${flag[$target]}" /proc/cpuinfo; then
        echo "test_targets: this processor has no $target: not tested"
        continue
    fi
    echo "test_targets: $target"
    OCL_INDUCTOR_TEST_CPU_TARGET=$target OCL_INDUCTOR_TEST_DEVICES=${DEVICES:-intel} \
        .venv/bin/python -m pytest -n "${JOBS:-2}" --dist worksteal -m "not slow" -k "not simt" "$@" || failed=1
done
exit $failed
