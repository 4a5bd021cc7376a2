#!/usr/bin/env bash
# soak.sh TARE WORKLOADS HOURS: finds leaks. It runs `tare record -a` with files of a minute, of
# which it keeps five, and `tare top -a`, beside processes that come and go, and checks both each
# minute. HOURS may be a fraction: 0.5.
set -euo pipefail
tare=$1 workloads=$2 minutes=$(awk -v hours="$3" 'BEGIN { m = int(hours * 60 + 0.5); print m < 3 ? 3 : m }')
folder=$(mktemp -d)
failures=0

fail() {
    echo "FAILED $*"
    failures=$((failures + 1))
}

end() {
    trap - EXIT
    # shellcheck disable=SC2046 # words
    kill -TERM $(jobs -p) 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 130' INT TERM

# Memory in KiB, descriptors, CPU time in clock ticks.
memory() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
descriptors() { find "/proc/$1/fd" -mindepth 1 | wc -l; }
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

while :; do
    "$workloads/forks.sh" 200 >/dev/null
    "$workloads/mix" 5 30 4 >/dev/null
done &
"$tare" record -q -a -F 99 -g --switch-output=60s --switch-max-files=5 -o "$folder/perf.data" &
record=$!
"$tare" top -a -F 99 -g --json -d 10 >"$folder/top" &
top=$!
sleep 20 # by then names are read, and tables have their size
first_record=$(memory $record) first_top=$(memory $top) first_files=$(descriptors $record)
printf '%6s  %8s %6s %6s  %8s %6s %6s  %5s %9s %6s\n' minute 'record K' CPU files 'top K' CPU files kept samples lost
for ((minute = 1; minute <= minutes; minute++)); do
    ticks_record=$(ticks $record) ticks_top=$(ticks $top)
    sleep 60
    if ! kill -0 $record 2>/dev/null || ! kill -0 $top 2>/dev/null; then
        fail "minute $minute: a process has ended"
        break
    fi
    kept=("$folder"/perf.data.*)
    if [ ${#kept[@]} -gt 5 ]; then fail "minute $minute: ${#kept[@]} files are kept"; fi
    newest=${kept[-1]}
    # Compare the number of samples in the file with the ledger's and with perf's.
    end=$("$tare" script --json -i "$newest" 2>"$folder/said" | tail -n 1)
    samples=$(jq '.samples' <<<"$end") lost=$(jq '[.ledger.events[].lost // 0] | add' <<<"$end")
    if [ "$samples" != "$(jq '[.ledger.events[].samples] | add' <<<"$end")" ]; then fail "minute $minute: the ledger has other samples than the file: $end"; fi
    if type -P perf >/dev/null && [ "$samples" != "$(perf script -F time -i "$newest" 2>/dev/null | grep -c .)" ]; then fail "minute $minute: perf reads other samples"; fi
    now_record=$(memory $record) now_top=$(memory $top)
    if [ "$now_record" -gt $((first_record + 2048)) ]; then fail "minute $minute: record grew from $first_record to $now_record KiB"; fi
    if [ "$now_top" -gt $((first_top * 3 / 2 + 8192)) ]; then fail "minute $minute: top grew from $first_top to $now_top KiB"; fi
    if [ "$(descriptors $record)" -gt $((first_files + 2)) ]; then fail "minute $minute: record has more descriptors"; fi
    printf '%6s  %8s %5s%% %6s  %8s %5s%% %6s  %5s %9s %6s\n' $minute "$now_record" \
        "$(awk -v t=$(($(ticks $record) - ticks_record)) 'BEGIN { printf "%.2f", t / 60 }')" "$(descriptors $record)" "$now_top" \
        "$(awk -v t=$(($(ticks $top) - ticks_top)) 'BEGIN { printf "%.2f", t / 60 }')" "$(descriptors $top)" "${#kept[@]}" "$samples" "$lost"
done
if ! tail -n 1 "$folder/top" | jq -e . >/dev/null; then fail "top's last line isn't valid JSON"; fi
# Background jobs of a script ignore SIGINT.
kill -TERM $record $top
for process in $record $top; do
    status=0
    wait "$process" || status=$?
    if [ $status != 0 ] && [ $status != 143 ]; then fail "a process ended with $status"; fi
done
echo "$minutes minutes, $failures failures"
[ $failures = 0 ]
