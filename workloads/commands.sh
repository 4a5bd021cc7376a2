#!/bin/sh
# commands.sh N: runs date and expr N times each, one after the other.
n=${1:-100}
while [ "$n" -gt 0 ]; do
    date >/dev/null
    # shellcheck disable=SC2003 # expr is run for its process
    expr "$n" + 1 >/dev/null
    n=$((n - 1))
done
