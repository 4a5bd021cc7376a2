#!/bin/sh
# forks.sh N: runs date N times, one after the other, as a build or a shell script would.
n=${1:-100}
while [ "$n" -gt 0 ]; do
    date >/dev/null
    n=$((n - 1))
done
