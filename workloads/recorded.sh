#!/bin/sh
# recorded.sh FILE COMMAND...: runs a command that a recorder started. FILE gets two snapshots of
# the CPU time that the recorder's threads used, before and after it: a line 'at NANOSECONDS', then
# /proc/PID/task/TID/schedstat, a line a thread.
file=$1
shift
snapshot() {
    echo "at $(date +%s%N)"
    cat /proc/$PPID/task/*/schedstat
}
snapshot >"$file"
"$@"
status=$?
snapshot >>"$file"
exit $status
