#!/bin/sh
# limits.sh: prints the limits that a command runs under: resource limits, priority, CPUs, and the
# limits of its cgroups and of their ancestors.

# mounts CONTROLLERS: prints where the cgroup hierarchy with these controllers is mounted; for
# version 2 the list is empty.
mounts() {
    awk -v of="$1" '
        { type = ""; for (i = 7; i <= NF; i++) if ($i == "-") { type = $(i + 1); options = $(i + 3) } }
        of == "" && type == "cgroup2" { print $5 }
        of != "" && type == "cgroup" && index("," options ",", "," of ",") { print $5 }' /proc/self/mountinfo
}

cat /proc/self/limits /proc/self/oom_score_adj
nice
grep _allowed_list /proc/self/status
while IFS=: read -r _ controllers path; do
    mounts "$controllers" | while read -r mount; do
        folder=$mount${path%/}
        while :; do
            for file in cpu.max cpu.weight cpu.cfs_quota_us cpu.shares cpuset.cpus memory.max memory.high memory.limit_in_bytes \
                io.max io.weight blkio.throttle.read_bps_device blkio.throttle.write_bps_device pids.max; do
                if [ -r "$folder/$file" ]; then
                    echo "$folder/$file: $(cat "$folder/$file")"
                fi
            done
            [ "$folder" != "$mount" ] || break
            folder=${folder%/*}
        done
    done
done </proc/self/cgroup
