#!/bin/sh
# Runs in the guest of vm/kernel.sh: every workload, one line of JSON each. `checking` is set where the kernel checks itself: fewer runs, and what it
# had to say.
cpus=$(nproc)
# Where things lie in memory decides over a few instructions.
echo 0 >/proc/sys/kernel/randomize_va_space
# shellcheck disable=SC2016 # for the shell that runs it
echo 'i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i + 1)); done' >/tmp/loop.sh

m() { # m LABEL OPTION... -- WORKLOAD
    label=$1
    shift
    kernel-measure -l "$label" "$@" || echo "FAILED $label $*: status $?"
}

forking() {
    for rate in "-F 1000" "-F 4000" "-c 1000000"; do
        # shellcheck disable=SC2086 # a rate is two words
        {
            m "shell, 300 x true" $rate -- sh /tmp/loop.sh 300
            m "shell, 2000 x true" $rate -- sh /tmp/loop.sh 2000
            m "children of 5-20 ms" $rate -- @children 42 5000 20000
            m "children of 0.1-1 ms" $rate -- @children 500 100 1000
            m "threads of 5-20 ms" $rate -- @threads 40 5000 20000
            m "children of 0.1-1 ms" -u $rate -- @children 500 100 1000
        }
    done
    m "shell, 300 x true" -F 20000 -- sh /tmp/loop.sh 300
    m "children of 0.1-1 ms" -F 20000 -- @children 500 100 1000
    m "children of 0.1-1 ms" -c 100000 -- @children 500 100 1000
    for events in 2 3 4 5; do m "children of 0.1-1 ms" -n $events -F 4000 -- @children 200 100 1000; done
    m "children of 0.1-1 ms" -n 3 -g -F 4000 -- @children 200 100 1000
}

software() {
    m "shell, 300 x true" -e task-clock -F 1000 -- sh /tmp/loop.sh 300
    m "shell, 300 x true" -e page-faults -c 100 -- sh /tmp/loop.sh 300
    m "24 threads of 64 page faults" -u -e page-faults -c 512 -- @faults 24
    m "shell, 300 x true" -e page-faults -F 4000 -- sh /tmp/loop.sh 300
}

not_forking() {
    m "one process" -F 1000 -- @spin 500000
    m "one process" -F 4000 -- @spin 500000
    m "one process" -c 1000000 -- @spin 500000
    m "one process" -F 20000 -- @spin 500000
    # What the emulator loses by itself when two CPUs are busy.
    m "two busy threads" -F 1000 -- @threads 2 300000 300000
    m "two busy threads" -F 4000 -- @threads 2 300000 300000
    m "two busy threads" -c 1000000 -- @threads 2 300000 300000
    m "two that wake each other" -F 1000 -- @pingpong 4000
    m "two that wake each other" -F 4000 -- @pingpong 4000
}

# Whose samples: each a dense profile first. The children's length is half of the period, so that a pair takes as long as one.
shares() {
    for lengths in "500 500" "300 700"; do
        # shellcheck disable=SC2086 # two lengths
        {
            m "kinds in turn, $lengths us, dense" -t -u -c 10000 -- @alternate 1000 $lengths
            for run in 1 2 3 4; do
                m "kinds in turn, $lengths us, run $run" -t -u -c 1000000 -- @alternate 1000 $lengths
                m "kinds in turn, $lengths us, run $run" -t -u -F 1000 -- @alternate 1000 $lengths
            done
        }
    done
    m "shell, 300 x true, dense" -t -c 10000 -- sh /tmp/loop.sh 300
    m "shell, 300 x true, shares" -t -F 4000 -- sh /tmp/loop.sh 300
}

# Exact counts, to be the same on both kernels; and what forks and adjusted periods cost.
counts() {
    m "shell, 300 x true" -u -i -e instructions -- sh /tmp/loop.sh 300
    m "children of 0.1-1 ms" -u -i -e instructions -- @children 500 100 1000
    m "one process" -u -i -e instructions -- @spin 100000
    m "children that end at once" -i -- @exits 1000
    m "children that end at once" -c 1000000000000 -- @exits 1000
    m "children that end at once" -n 5 -c 1000000000000 -- @exits 1000
    m "children that end at once, freq" -F 1 -- @exits 1000
}

if [ -e ./checking ]; then
    forking
    software
    shares >/dev/null
    if grep -q 'debug_locks: *1' /proc/lockdep_stats; then echo "ok lockdep is on, and had no reason to stop, with $cpus CPUs"; else echo "FAILED lockdep is off"; fi
    dmesg | grep -E 'WARNING|BUG|INFO: |possible|suspicious|invalid context|Call trace' && echo "FAILED the kernel complained"
else
    forking
    software
    not_forking
    shares
    if [ "$cpus" = 1 ]; then counts; fi
fi
exit 0
