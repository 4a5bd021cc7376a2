# Functions on rows of result.json, for the tables and verdicts of linux/build/compare.sh.
def key: [.cpus, .workload, .event, .events, .group, .rate] | tojson;
def percent: . * 1000 | round / 10 | tostring + "%";
# Rows that hardly fork: the series must not change them.
def is_steady: .workload | test("^(one process|two busy threads|two that wake each other|threads unlike|bursts, whole CPUs)");
# Rows for which coverage and number of samples are promised. Three kinds are left out: whole CPUs, whose rate counts idle time; busy threads,
# which measure the emulator's own loss; and threads that pause between turns, which have too few samples.
def is_promised: .samples != null and (.event | startswith("cycles")) and (.rate | IN("1000 Hz", "4000 Hz", "-c 1000000"))
  and (.workload | test("dense|at once|busy threads|unlike|whole CPUs|^cost") | not);
# Rows in which samples at far too short periods are counted.
def may_storm: is_promised and .cpus == 2 and (.rate | endswith("Hz")) and (is_steady | not);
# What two busy threads, which never fork, keep on the stock kernel: the emulator's own loss. A row with 2 CPUs says something of the kernel only where the
# same events at the same rate have none worth mentioning.
def is_control: .workload == "control, two busy threads" and .cpus == 2;
def control_key: [.event, .events, .group, .rate] | tojson;
def controls: map(select(is_control and .kernel == "stock")) | INDEX(control_key);
def is_measurable($controls): .cpus == 1 or ($controls[control_key].coverage // 0) >= 0.995;
def control_name: "\(if .events > 1 then "\(.events) x " else "" end)\(.event)\(if .group then ", group" else "" end), \(.rate)";
def enough_measurable: 40;
# Number of periods that no sample stands for.
def missing: (1 - .coverage) * .wanted;
def never_idles: .workload | IN("one process", "two busy threads", "two that wake each other");
# Instructions of one overflow, and instructions that an event adds to a tick, switch, fork or exit.
def costs:
  map(select(.cpus == 1 and .each != null))
  | def row($one; $rate): .[] | select(.workload == "cost, \($one)" and .rate == $rate) | .each;
    "-c 1000000000000" as $never
    | [{what: "an overflow, fixed period", value: row("overflow"; "-c 20000")}, {what: "an overflow, frequency mode", value: row("overflow"; "20000 Hz")},
       (("tick", "switch", "fork", "exit") as $one | ($never, "1 Hz") as $rate
         | {what: "\({tick: "a tick", switch: "a switch", fork: "a fork", exit: "an exit"}[$one]), \(if $rate == $never then "fixed period" else "frequency mode" end)",
            value: (row($one; $rate) - row($one; "count"))})];
