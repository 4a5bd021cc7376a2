#!/bin/sh
# recorded.sh FILE COMMAND...: runs a command that a recorder started. FILE gets what the recorder's threads had used before and after
# it: two looks, each a line 'at NANOSECONDS' and a line a thread of /proc/PID/task/TID/schedstat.
file=$1
shift
look() {
    echo "at $(date +%s%N)"
    cat /proc/$PPID/task/*/schedstat
}
look >"$file"
"$@"
status=$?
look >>"$file"
exit $status
