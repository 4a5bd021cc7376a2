#!/bin/sh
# short-python.sh N: runs a short Python program N times, one after the other. Recorded at 20,000 Hz with call chains, 300 of them
# give some 150,000 samples in 30 MB: deep stacks, most of which repeat, in processes that have address spaces of their own.
n=${1:-300}
# The interpreter itself: the wrapper of a version manager would start shells before it, each time.
python=/usr/bin/python3
[ -x "$python" ] || python=$(python3 -c 'import sys; print(sys.executable)')
while [ "$n" -gt 0 ]; do
    "$python" -c 'import json; json.dumps([n * n for n in range(1000)])'
    n=$((n - 1))
done
