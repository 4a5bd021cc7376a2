#!/bin/sh
# Runs in the guest of linux/build/compare.sh: runs every workload and prints a line of JSON for each. If the file `checking` exists the kernel checks itself: fewer runs, and
# its complaints.
cpus=$(nproc)
# The memory layout changes counts by a few instructions.
echo 0 >/proc/sys/kernel/randomize_va_space
# shellcheck disable=SC2016 # expanded by the shell that runs it
echo 'i=0; while [ $i -lt $1 ]; do /bin/true; i=$((i + 1)); done' >/tmp/loop.sh

# Workloads as programs of their own, for tare.
for workload in children spin; do ln -s /job/kernel-measure /tmp/@$workload; done

m() { # m LABEL OPTION... -- WORKLOAD
    label=$1
    shift
    kernel-measure -l "$label" "$@" || echo "FAILED $label $*: status $?"
}

# r LABEL HZ COMMAND: records with tare as an unprivileged user would. The line has its ledger; `said` is whether the recorder's -v reports that the kernel keeps counts.
r() { # r LABEL HZ WORKLOAD
    label=$1
    hz=$2
    shift 2
    said=false
    tare record -v --follow=inherit -e cycles -F "$hz" -o /tmp/perf.data -- "$@" >/tmp/said 2>&1 || echo "FAILED tare record, $label: $(tail -n 1 /tmp/said)"
    if grep -q 'this kernel carries counts of short-lived children over' /tmp/said; then said=true; fi
    tare script --json -i /tmp/perf.data 2>/dev/null | sed -n '/^{"kind":"end",/p' |
        sed "s/^{/{\"workload\":\"tare record: $label\",\"event\":\"cycles\",\"events\":1,\"group\":false,\"rate\":\"$hz Hz\",\"said\":$said,/"
}

# s LABEL COMMAND: counts a command's instructions in user mode with tare, inherited events included.
s() { # s LABEL WORKLOAD
    label=$1
    shift
    tare stat -x, -o /tmp/counts -e instructions:u -- "$@" >/tmp/said 2>&1 || echo "FAILED tare stat, $label: $(tail -n 1 /tmp/said)"
    count=$(sed -n 's/,.*instructions:u.*//p' /tmp/counts)
    echo "{\"workload\":\"tare stat: $label\",\"event\":\"instructions:u\",\"events\":1,\"group\":false,\"rate\":\"count\",\"count\":${count:-null}}"
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
    m "two busy threads" -F 1000 -- @threads 2 300000 300000
    m "two busy threads" -F 4000 -- @threads 2 300000 300000
    m "two busy threads" -c 1000000 -- @threads 2 300000 300000
    m "two that wake each other" -F 1000 -- @pingpong 4000
    m "two that wake each other" -F 4000 -- @pingpong 4000
    # Events with a rate unlike their family's, and events without a family, must not get the family's average period.
    m "threads unlike" -u -F 1000 -- @unlike 450
    m "children unlike" -u -F 1000 -- @mixed 600 500 1500
    m "bursts, whole CPUs" -a -u -F 1000 -- @bursts 40 2000 20000
    m "bursts, whole CPUs" -a -u -F 4000 -- @bursts 40 2000 20000
}

# The emulator's own loss when two CPUs are busy, which decides whether rows with 2 CPUs are measurable.
controls() {
    for rate in "-F 1000" "-F 4000" "-c 1000000"; do
        # shellcheck disable=SC2086 # a rate is two words
        {
            m "control, two busy threads" $rate -- @threads 2 300000 300000
            m "control, two busy threads" -u $rate -- @threads 2 300000 300000
        }
    done
    for events in 2 3 4 5; do m "control, two busy threads" -n $events -F 4000 -- @threads 2 300000 300000; done
    m "control, two busy threads" -n 3 -g -F 4000 -- @threads 2 300000 300000
}

# Costs of ticks, switches, forks and exits: runs without an event and with one. Of an overflow: the whole interrupt.
costs() {
    never="-c 1000000000000"
    for workload in "@ticks 250" "@forks 4000" "@switches 4000"; do
        # shellcheck disable=SC2086 # a rate is two words, and so is a workload
        {
            m "cost, $workload" -n 0 -i -- $workload 0 count
            m "cost, $workload" $never -- $workload 1 "$never"
            m "cost, $workload" -F 1 -- $workload 1 "1 Hz"
        }
    done
    m "cost, @overflows 4000" -c 20000 -- @overflows 4000 1 "-c 20000"
    m "cost, @overflows 4000" -F 20000 -- @overflows 4000 1 "20000 Hz"
}

# The kernel selftest of the series.
selftest() {
    if [ ! -e ./selftest ]; then return; fi
    if ./selftest >/tmp/said 2>&1; then passes=true; else passes=false; fi
    sed 's/^/selftest: /' /tmp/said
    echo "{\"workload\":\"selftest\",\"event\":\"-\",\"events\":0,\"group\":false,\"rate\":\"count\",\"passes\":$passes}"
}

# Shares of samples, each with a dense profile first. A pair of children takes one period.
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

# tare itself, in the guest.
tare_itself() {
    r "shell, 300 x true" 1000 /bin/sh /tmp/loop.sh 300
    r "children of 0.1-1 ms" 4000 /tmp/@children 500 100 1000
    s "shell, 300 x true" /bin/sh /tmp/loop.sh 300
    s "children of 0.1-1 ms" /tmp/@children 500 100 1000
    s "one process" /tmp/@spin 100000
}

# Exact counts, which must be equal on both kernels and equal tare's (with the same paths, as their length costs instructions); and costs of forks and adjusted periods.
counts() {
    m "shell, 300 x true" -u -i -e instructions -- /bin/sh /tmp/loop.sh 300
    m "children of 0.1-1 ms" -u -i -e instructions -- /tmp/@children 500 100 1000
    m "one process" -u -i -e instructions -- /tmp/@spin 100000
    m "children that end at once" -i -- @exits 1000
    m "children that end at once" -c 1000000000000 -- @exits 1000
    m "children that end at once" -n 5 -c 1000000000000 -- @exits 1000
    m "children that end at once, freq" -F 1 -- @exits 1000
}

if [ -e ./checking ]; then
    forking
    software
    tare_itself
    selftest
    shares >/dev/null
    if grep -q 'debug_locks: *1' /proc/lockdep_stats; then echo "ok lockdep is on, and had no reason to stop, with $cpus CPUs"; else echo "FAILED lockdep is off"; fi
    dmesg | grep -E 'WARNING|BUG|INFO: |possible|suspicious|invalid context|Call trace' && echo "FAILED the kernel complained"
else
    if [ "$cpus" != 1 ]; then controls; fi
    forking
    software
    not_forking
    shares
    tare_itself
    selftest
    if [ "$cpus" = 1 ]; then
        counts
        costs
    fi
fi
exit 0
