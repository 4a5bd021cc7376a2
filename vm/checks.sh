#!/bin/sh
# Runs in the guest: checks counts that need a PMU, and that are exact there. Each check prints a line 'ok …' or 'FAILED …'.
failures=0

verdict() { # verdict NAME EXPECTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok $1"
    else
        failures=$((failures + 1))
        echo "FAILED $1: expected '$2', got '$3'"
    fi
}

# stat OPTION…: prints tare's CSV without comments, or its error message.
stat() {
    tare stat -x, -o /tmp/counts "$@" 2>/tmp/stderr || cat /tmp/stderr
    sed '/^#/d; /^$/d' /tmp/counts
}

# count EVENT COMMAND…: prints only the count.
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
verdict "instructions of the PMU by name are the same" 2000004 "$(count armv8_pmuv3/inst_retired/u loop)"
verdict "a program that does nothing makes one system call" 1 "$(count raw_syscalls:sys_enter three)"
# Three children of each kind below the same shell, with names of equal length: the shell's own instructions cancel out.
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

# --exact: no event shares a counter; the events take turns over the runs of -r, and the command runs no more often.
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
verdict "--exact prints the number of runs that it needs" yes "$(grep -q 'use -r 2' /tmp/stderr && echo yes)"
exact=$(stat --exact -a -e "$ten" -- sleep 1)
verdict "--exact takes turns in time on a whole machine" 10 "$(echo "$exact" | awk -F, '$5 == "100.00" && $1 > 0' | wc -l)"
verdict "--exact prints that it takes turns" yes "$(grep -q 'take turns of 100 ms' /tmp/stderr && echo yes)"

# Many short processes. Nothing else runs on the guest's only CPU, so the loop gets all of its cycles.
cat >/tmp/forks <<'END'
i=0
while [ $i -lt 300 ]; do
    /bin/true
    i=$((i + 1))
done
END

# fields NAMES: of each sample in the recording.
fields() {
    tare script -i /tmp/recording -F "$1" 2>/dev/null
}

within() { # within NAME PERCENT EXPECTED GOT
    verdict "$1 ($4 of $3)" yes "$(awk -v percent="$2" -v expected="$3" -v got="$4" \
        'BEGIN { off = 100 * (got / expected - 1); print ((off >= -percent && off <= percent) ? "yes" : "no") }')"
}

for hz in 1000 4000; do
    # Count while sampling, as sampling takes cycles too.
    tare record -q -o /tmp/recording --follow=system -e cycles -F "$hz" -- tare stat -x, -o /tmp/counts -a -e cycles -- sh /tmp/forks
    within "at $hz Hz samples stand for the cycles of a loop of short processes" 3 "$(awk -F, '/cycles/ { sum += $1 } END { print sum }' /tmp/counts)" \
        "$(fields period | awk '{ sum += $1 } END { print sum }')"
done
verdict "at $hz Hz each child has a sample" 300 "$(fields comm,tid | awk '$1 == "true"' | sort -u | wc -l)"
tare record -q -o /tmp/recording --follow=inherit -e cycles -F 4000 -- sh /tmp/forks
verdict "inherited cycles have no sample at a period far below the average" 0 "$(fields period |
    awk '{ period[NR] = $1; sum += $1 } END { for (i = 1; i <= NR; i++) if (period[i] < sum / NR / 10) low++; print (NR ? low + 0 : "no samples") }')"
# In user mode, as sampling adds cycles in the kernel.
tare record -q -o /tmp/recording --follow=inherit -e cycles:u -F 4000 -- sh /tmp/forks
if tare report -i /tmp/recording --weight=exact --sort comm -G >/tmp/report 2>/tmp/stderr; then
    within "--weight=exact has the sum that is counted" 1 "$(count cycles:u sh /tmp/forks)" "$(sed -n 's/^# Event count (approx.): //p' /tmp/report)"
else
    echo "skipped: Linux $(uname -r): $(head -n 1 /tmp/stderr)"
fi
# System calls: counted by BPF programs where the kernel has BTF, else by perf events; then by perf events in any case.
getppids() { # getppids COMMAND…: prints the calls in the table.
    tare trace -s -e getppid -o /tmp/calls -- "$@" 2>/tmp/stderr
    awk '$NF == "getppid" { print $3 }' /tmp/calls
}

btf=$([ -r /sys/kernel/btf/vmlinux ] && echo yes || echo no)
echo "BTF: $btf"
verdict "calls of two threads are counted" 1000 "$(getppids calls 2 0 500)"
verdict "calls of ten children are counted" 1000 "$(getppids calls 0 10 100)"
verdict "a message names a kernel without BTF" "$([ "$btf" = yes ] && echo 0 || echo 1)" "$(grep -c 'by perf events instead' /tmp/stderr)"
verdict "each call is a line" 100 "$(tare trace -e getppid calls 1 0 100 2>&1 | grep -c getppid)"
if [ "$btf" = yes ] && mount -t tmpfs none /sys/kernel/btf; then
    verdict "calls are counted by perf events" 1000 "$(getppids calls 2 0 500)"
    verdict "a message names perf events" 1 "$(grep -c 'no BTF.*by perf events instead' /tmp/stderr)"
    verdict "each call is a line by perf events" 100 "$(tare trace -e getppid calls 1 0 100 2>/tmp/stderr; grep -c 'getppid()' /tmp/stderr)"
    umount /sys/kernel/btf
fi

# Time off the CPUs: each sleep is a wait of its own.
if [ "$btf" = yes ]; then
    tare record -q --off-cpu --off-cpu-thresh 1ms --no-call-graph -o /tmp/recording -- blocked sleep 5 20 >/dev/null 2>/tmp/stderr
    verdict "each sleep is a wait" 20 "$(tare report -i /tmp/recording --stdio --no-children -g none --no-cache -F sample,sym 2>/tmp/stderr | awk '/off-CPU \(sleep\)/ { print $1 }')"
fi
# Functions of programs and of the kernel: the guests' kernels have uprobes and kprobes.
calls_of() { # calls_of OPTION PLACE COMMAND…: prints the number of calls of a function.
    option=$1 place=$2
    shift 2
    returns=
    [ "$option" != --probe ] || returns=yes # the programs are linked statically
    tare trace --json -o /tmp/calls ${returns:+--probe-returns} "$option" "$place" -- "$@" >/tmp/stdout 2>/tmp/stderr || cat /tmp/stderr
    sed -n 's/^ *"calls": \([0-9]*\),\{0,1\}$/\1/p' /tmp/calls | head -n 1
}

# The tenth of the program's twenty durations by its own clock, as a busy host wakes the guest late.
own_p50() {
    sort -n /tmp/stdout | sed -n 10p
}

p50() {
    sed -n 's/^ *"p50_ns": \([0-9.]*\),\{0,1\}$/\1/p' /tmp/calls | head -n 1
}

if [ "$btf" = yes ]; then
    verdict "calls of a program's function are counted" 20000 "$(calls_of --probe /job/latency:quick latency 20000 quick)"
    verdict "calls of a function that sleeps are counted" 20 "$(calls_of --probe /job/latency:work latency 20)"
    within "their median duration is the program's" 5 "$(own_p50)" "$(p50)"
    verdict "calls of a function of the kernel are counted" 500 "$(calls_of --kprobe __arm64_sys_getppid calls 1 0 500)"
    verdict "calls of a function of the kernel that sleeps are counted" 20 "$(calls_of --kprobe __arm64_sys_clock_nanosleep latency 20)"
    within "their median duration is the program's too" 5 "$(own_p50)" "$(p50)"
    verdict "the return value of a kernel function is read" 10 "$(tare trace --each --kprobe '__arm64_sys_getppid retval:s32' calls 1 0 10 2>&1 | grep -c '(retval=[1-9][0-9]*)')"
    path=$(tare trace --each --kprobe '__arm64_sys_openat name=+u0(+8(arg0)):ustring' cat /job/checks.sh 2>&1 >/dev/null | sed -n 's/.*(name=\(.*\))$/\1/p')
    if [ "$path" = "(fault)" ]; then
        echo "skipped: Linux $(uname -r): the kernel reads no user memory for a kprobe here"
    else
        verdict "a path in an argument of a kernel function is read" '"/job/checks.sh"' "$path"
    fi
    verdict "a message names a function that the kernel lacks" 1 "$(tare trace --kprobe no_such_function true 2>&1 | grep -c 'the kernel has no such function')"
    verdict "no probe is left" "" "$(cat /sys/kernel/tracing/kprobe_events /sys/kernel/tracing/uprobe_events)"
else
    verdict "a message says that probes need BTF" 1 "$(tare trace --probe /job/latency:quick latency 1 quick 2>&1 | grep -c 'this kernel has no BTF')"
fi

# The cost of sampling: each interrupt of the PMU is counted, and belongs to a sample.
study() { # study NAME: prints a number of the study's first row.
    sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" /tmp/study | head -n 1
}

interrupts() {
    awk '/pmu/ { print $2 }' /proc/interrupts
}

for hz in 0 1000 4000; do
    before=$(interrupts)
    tare overhead -e cycles --rates "$hz" --pairs 20 --loops counting --no-save --json >/tmp/study 2>/tmp/stderr
    verdict "a study at $hz Hz has a sample of each interrupt" "$(($(interrupts) - before))" "$(study samples)"
    verdict "each interrupt that is traced at $hz Hz is a sample's" "$(study traced_samples)" "$(study traced_interrupts)"
done
verdict "the study has samples" yes "$([ "$(study traced_samples)" -gt 500 ] && echo yes)"

# A module that benchmarks its own functions when it is loaded. Their names come from the file with its build id.
functions() { # functions: prints the samples of each of its functions.
    tare report -i /tmp/recording --stdio --no-children -g none --no-cache -F sample,dso,sym 2>/tmp/stderr |
        awk '$2 == "[raid6_pq]" && $4 ~ /^raid6_/ { print $1, $4 }'
}

named() { # named: prints the samples in its functions.
    functions | awk '{ sum += $1 } END { print sum + 0 }'
}

plain() { # plain FILE: prints the file, decompressed.
    case $1 in *.xz) unxz -c "$1" ;; *) cat "$1" ;; esac
}

module=$(find "/lib/modules/$(uname -r)" -name 'raid6_pq.ko*' 2>/dev/null | head -n 1)
if [ -n "$module" ] && plain "$module" >/tmp/raid6_pq.ko && tare record -q -o /tmp/recording -a -e cycles -F 1000 -- insmod /tmp/raid6_pq.ko 2>/tmp/stderr; then
    loaded=$(named)
    functions >/tmp/functions
    verdict "functions of a module that is loaded have names ($loaded samples)" yes "$([ "$loaded" -gt 50 ] && echo yes)"
    rmmod raid6_pq
    verdict "they have the same names when it is unloaded" "$(cat /tmp/functions)" "$(functions)"
    rm "$module"
    verdict "without its file there are no names, but a reason" "0 yes" "$(named) $(tare report -i /tmp/recording --stdio --no-children -g none --no-cache 2>&1 | grep -q "Without a function name: .*module is not loaded" && echo yes)"
    gzip -c /tmp/raid6_pq.ko >"${module%/*}/raid6_pq.ko.gz"
    echo raid6_pq.ko.gz: >"${module%/*}/modules.dep"
    verdict "they come back with a compressed one" "$loaded" "$(named)"
    tare record -q -o /tmp/recording -a -e cycles -F 1000 -- sh -c 'insmod /tmp/raid6_pq.ko; rmmod raid6_pq; sleep 1; insmod /tmp/raid6_pq.ko; rmmod raid6_pq; sleep 1' 2>/tmp/stderr
    twice=$(named)
    verdict "a module that comes, goes and comes again has names both times ($twice samples)" yes "$([ "$twice" -gt $((loaded * 3 / 2)) ] && echo yes)"
else
    echo "skipped: $(uname -r): no module to load: $(head -n 1 /tmp/stderr)"
fi

# Readers learn the kernel's relocation from the symbol that its mapping names; looking up lines in vmlinux depends on it.
tare record -q -o /tmp/recording -e cycles true
mapping=$(tare script -i /tmp/recording --show-mmap-events -F ip | sed -n 's/.*\[0x\([0-9a-f]*\)(.*\[kernel.kallsyms\]\(.*\)$/\1 \2/p')
verdict "the kernel's mapping begins at the symbol that it names" "$(awk -v name="${mapping#* }" '$3 == name { print $1, $3; exit }' /proc/kallsyms)" "${mapping:-no mapping}"

mkdir /tmp/cgroups
mount -t cgroup2 none /tmp/cgroups
tare record -o /tmp/recording -e cycles -F 4000 -- sh /tmp/forks 2>/tmp/stderr
verdict "a cgroup that can have no events is not used" "0 yes" "$? $(grep -q 'on all CPUs.*on a new cgroup' /tmp/stderr && echo yes)"
verdict "it is gone" 0 "$(find /tmp/cgroups -name 'tare-*' | wc -l)"

exit "$failures"
