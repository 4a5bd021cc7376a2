# What the series promises, held against result.json: lines 'ok …' and 'FAILED …'.
def key: [.cpus, .workload, .event, .events, .group, .rate] | tojson;
def verdict(what; failures): if (failures | length) == 0 then "ok \(what)" else "FAILED \(what): \(failures | join("; "))" end;
def name: "\(.cpus) CPUs, \(.workload), \(.events) x \(.event), \(.rate)";
(.rows | map(select(.kernel == "stock")) | INDEX(key)) as $stock
| (.rows | map(select(.kernel == "series"))) as $series
| ($series | map(select(.samples != null and (.event | startswith("cycles")) and (.rate | IN("1000 Hz", "4000 Hz", "-c 1000000"))
    and (.workload | test("dense|at once|busy threads") | not)))) as $main
| ($main | map(select(.workload | test("one process|busy threads|wake each other") | not))) as $forking
| verdict("coverage is at least 99% in each of \($main | length) rows of cycles"; $main | map(select(.coverage < 0.99)) | map("\(name): \(.coverage)")),
  verdict("or what is missing is less than two periods for each CPU and event"; $main | map(select((1 - .coverage) * .wanted > 2 * .cpus * .events)) | map("\(name): \(.coverage)")),
  verdict("samples are within 0.5 to 2 times of those wanted"; $main | map(select(.samples < 0.5 * .wanted or .samples > 2 * .wanted))
    | map("\(name): \(.samples) of \(.wanted)")),
  verdict("samples are within 0.8 to 1.2 times"; $main | map(select(.samples < 0.8 * .wanted or .samples > 1.2 * .wanted))
    | map("\(name): \(.samples) of \(.wanted)")),
  (($forking | map(select(.cpus == 2 and (.rate | endswith("Hz"))))) as $two
    | ($two | map(.low) | add) as $now | ($two | map($stock[key].low) | add) as $before
    | verdict("samples at a tenth of the average period or less, 2 CPUs: \($now), stock \($before): at most 5%"; if $now <= 0.05 * $before then [] else [$now] end)),
  verdict("instructions of what does not fork are within 1%"; $series | map(select(.workload | test("one process|busy threads|wake each other")))
    | map(select((.instructions / $stock[key].instructions - 1) | fabs > 0.01)) | map("\(name): \(.instructions) and \($stock[key].instructions)")),
  verdict("user-mode instructions counted are the same"; $series | map(select(.event == "instructions:u" and .count != $stock[key].count))
    | map("\(name): \(.count) and \($stock[key].count)")),
  verdict("a recorder can tell the kernels apart by page faults"; .rows | map(select(.workload | test("page faults")) | select(.cpus == 1))
    | map(select((.samples >= 2) != (.kernel == "series"))) | map("\(.kernel): \(.samples) samples")),
  # kind-a's share in all runs together, against the dense profile: what remains may be chance (3 standard deviations of as many independent samples).
  ($series | map(select(.shares."kind-a")) as $kinds
   | [$kinds[] | select(.workload | endswith("dense"))][] as $dense
   | ($dense.workload | rtrimstr(", dense")) as $name | ("-c 1000000", "1000 Hz") as $rate
   | ($kinds | map(select(.cpus == $dense.cpus and .rate == $rate and (.workload | startswith($name))))) as $runs
   | ($runs | map(.samples) | add) as $n | (($runs | map(.samples * .shares."kind-a") | add) / $n) as $share | $dense.shares."kind-a" as $true
   | verdict("no bias: \($dense.cpus) CPUs, \($name), \($rate): kind-a has \($share * 1000 | round / 10)%, dense \($true * 1000 | round / 10)%";
       if ($share - $true | fabs) <= 3 * ($true * (1 - $true) / $n | sqrt) then [] else ["\($n) samples"] end))
