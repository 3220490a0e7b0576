#!/usr/bin/env bash
# Run tests as if the processor were an older one: tools/test_targets.sh "avx2 sse4.2" TESTS...
# The drivers that pip brings make code for each of the instruction sets that this processor has.
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
    OCL_INDUCTOR_TEST_CPU_TARGET=$target OCL_INDUCTOR_TEST_DEVICES=intel,pocl-3.0 \
        .venv/bin/python -m pytest -n "${JOBS:-2}" --dist worksteal -m "not slow" -k "not simt" "$@" || failed=1
done
exit $failed
