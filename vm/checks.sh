#!/bin/sh
# Runs in the guest: counts that only a PMU can give, and that are exact there. Each check is a line 'ok …' or 'FAILED …'.
failures=0

verdict() { # verdict NAME EXPECTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok $1"
    else
        failures=$((failures + 1))
        echo "FAILED $1: expected '$2', got '$3'"
    fi
}

# stat OPTION…: tare's CSV without comments, or what it said instead.
stat() {
    tare stat -x, -o /tmp/counts "$@" 2>/tmp/stderr || cat /tmp/stderr
    sed '/^#/d; /^$/d' /tmp/counts
}

# count EVENT COMMAND…: the number alone.
count() {
    event=$1
    shift
    stat -e "$event" -- "$@" | cut -d, -f1
}

verdict "the guest has a PMU" yes "$([ -d /sys/bus/event_source/devices/armv8_pmuv3 ] && echo yes)"

for run in $(seq 20); do
    verdict "three user instructions are 3, run $run" 3 "$(count 0:1:u three)"
done
verdict "a loop of known length counts what it executes" 2000004 "$(count 0:1:u loop)"
verdict "instructions by name are the same" 2000004 "$(count instructions:u loop)"
verdict "so are those of the PMU by name" 2000004 "$(count armv8_pmuv3/inst_retired/u loop)"
verdict "a program that does nothing makes one system call" 1 "$(count raw_syscalls:sys_enter three)"
# Three children of each kind below the same shell, under names of the same length: the shell's own instructions drop out.
cp three /tmp/a
cp loop /tmp/b
threes=$(count instructions:u sh -c '/tmp/a; /tmp/a; /tmp/a; exit 0')
loops=$(count instructions:u sh -c '/tmp/b; /tmp/b; /tmp/b; exit 0')
verdict "children are counted" 6000003 "$((loops - threes))"

# More events than the PMU has counters: each runs for a share of the time, which is shown, and its scaled count is near the whole.
whole=$(count instructions:u spin 30000000)
shared=$(stat -e r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u -- spin 30000000)
verdict "ten events on fewer counters all count" 10 "$(echo "$shared" | grep -c r08)"
verdict "the share of each is shown" 10 "$(echo "$shared" | awk -F, '$5 > 0 && $5 < 100' | wc -l)"
verdict "scaled counts are near the whole ($whole)" 10 "$(echo "$shared" | awk -F, '$1 > 0.9 * whole && $1 < 1.1 * whole' whole="$whole" | wc -l)"

# --exact: no event shares a counter; the events take turns over the runs that were asked for, and the command runs no more often.
ten=instructions:u,cycles:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u,r08:u
printf '#!/bin/sh\necho >>/tmp/runs\nexec loop\n' >/tmp/counted
chmod +x /tmp/counted
exact=$(stat --exact -r 2 -e "$ten" -- loop)
verdict "--exact counts all of ten events in two runs" 10 "$(echo "$exact" | awk -F, '$6 == "100.00"' | wc -l)"
verdict "--exact counts each event whole" "9 2000004" "$(echo "$exact" | grep -v cycles | cut -d, -f1 | sort | uniq -c | sed 's/^ *//')"
: >/tmp/runs
exact=$(stat --exact -r 1 -e "$ten" -- /tmp/counted)
verdict "--exact runs the command as often as asked" 1 "$(wc -l </tmp/runs)"
verdict "--exact leaves the rest uncounted" yes "$(echo "$exact" | grep -q '<not counted>' && echo yes)"
verdict "--exact says how many runs it takes" yes "$(grep -q 'use -r 2' /tmp/stderr && echo yes)"
exact=$(stat --exact -a -e "$ten" -- sleep 1)
verdict "--exact takes turns in time on a whole machine" 10 "$(echo "$exact" | awk -F, '$5 == "100.00" && $1 > 0' | wc -l)"
verdict "--exact says so" yes "$(grep -q 'take turns of 100 ms' /tmp/stderr && echo yes)"

exit "$failures"
