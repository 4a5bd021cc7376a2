# Compares result.json with the promises of the series: prints lines 'ok …' and 'FAILED …'.
include "rows";
def verdict(what; failures): if (failures | length) == 0 then "ok \(what)" else "FAILED \(what): \(failures | join("; "))" end;
def name: "\(.cpus) CPUs, \(.workload), \(.events) x \(.event), \(.rate)";
(.rows | controls) as $controls
| (.rows | map(select(is_control and .kernel == "stock"))) as $busy
| (.rows | map(select(.kernel == "stock" and (is_control | not))) | INDEX(key)) as $stock
| (.rows | map(select(.kernel == "series"))) as $series
| (.rows | map(select(.kernel | IN("stock", "series")))) as $both
| ($series | map(select(is_promised))) as $promised
| ($promised | map(select(is_measurable($controls)))) as $main
| ($promised - $main) as $unmeasurable
| ($busy | group_by(.boot)[] | "boot \(.[0].boot) of the stock kernel with 2 CPUs, two busy threads keep: \(map("\(.coverage * 10000 | round / 100)% (\(control_name))") | join(", "))"),
  ($unmeasurable[] | "not measurable now: \(name)"),
  ($promised | map(select(.cpus == 2)) | length) as $all
| ($main | map(select(.cpus == 2)) | length) as $measurable
| verdict("\($measurable) of \($all) rows with 2 CPUs are measurable: at least \(enough_measurable)"; if $measurable >= enough_measurable then [] else [$measurable] end),
  # No later child takes over the counts that the last child and the shell leave. Each is less than a period, so a row may lack up to two
  # periods, and rarely lacks more than one: linux/inherited-events.md has the frequency.
  ($main | map(select(.coverage < 0.99 and missing >= .cpus * .events))) as $short
| verdict("coverage is at least 99%, or less than one period for each CPU and event is missing, in \(($main - $short) | length) of \($main | length) rows of cycles, in all but one at least; \($main | map(select(.coverage >= 0.99)) | length) have 99%\($short | map("; \(name) has \(.coverage), \(missing * 100 | round / 100) periods missing") | join(""))";
    if ($short | length) > 1 then [$short | length] else [] end),
  verdict("less than two periods for each CPU and event are missing there"; $short | map(select(missing >= 2 * .cpus * .events)) | map("\(name): \(.coverage), \(missing) periods")),
  # In frequency mode a period may be longer than those wanted. With two CPUs the emulator loses some, too.
  verdict("with a fixed period no more than two are missing in any row, beside what two busy threads lose";
    $main | map(select((.rate | startswith("-c")) and missing - ($controls[control_key] | if . then 1 - .coverage else 0 end) * .wanted > 2 * .cpus * .events))
      | map("\(name): \(.coverage), \(missing) periods")),
  verdict("samples are within 0.5 to 2 times of those wanted"; $main | map(select(.samples < 0.5 * .wanted or .samples > 2 * .wanted))
    | map("\(name): \(.samples) of \(.wanted)")),
  verdict("samples are within 0.8 to 1.2 times"; $main | map(select(.samples < 0.8 * .wanted or .samples > 1.2 * .wanted))
    | map("\(name): \(.samples) of \(.wanted)")),
  (($main | map(select(may_storm))) as $two
    | ($two | map(.low) | add) as $now | ($two | map($stock[key].low) | add) as $before
    | verdict("samples at a tenth of the average period or less, 2 CPUs: \($now), stock \($before): at most 5%"; if $now <= 0.05 * $before then [] else [$now] end)),
  # Not of threads with pauses, whose run is a tenth longer or shorter from one run of the same kernel to the next. With two CPUs how long one waits for the
  # other depends on the host, so single rows may be off by some percent either way.
  ($series | map(select(is_steady and .instructions != null and .workload != "threads unlike") | .change = .instructions / $stock[key].instructions - 1)
    | (map(select(.cpus == 1)) | verdict("instructions of what does not fork are within 1% in each of \(length) rows, 1 CPU"; map(select(.change | fabs > 0.01))
        | map("\(name): \(.instructions) and \($stock[key].instructions)"))),
      (map(select(.cpus == 2) | .change) | sort | .[length / 2 | floor] as $middle
        | verdict("instructions of what does not fork are within 1% in the median of \(length) rows, 2 CPUs: \($middle * 10000 | round / 100)%, from \(.[0] * 10000 | round / 100)% to \(.[-1] * 10000 | round / 100)%";
            if ($middle | fabs) > 0.01 then [$middle] else [] end))),
  # The counters don't see what the kernel does while it has the PMU disabled; the clock does, where the CPU never idles.
  ($series | map(select(.cpus == 1 and .elapsed_ns != null and never_idles) | .change = .elapsed_ns / $stock[key].elapsed_ns - 1)
    | verdict("time of what does not fork is within 1% in each of \(length) rows, 1 CPU"; map(select(.change | fabs > 0.01))
        | map("\(name): \(.elapsed_ns) and \($stock[key].elapsed_ns) ns"))),
  # Of two independent counts the difference scatters by the root of their sum.
  verdict("events on whole CPUs have the samples that they had, within 10% or chance (3 standard deviations)"; $series | map(select(.workload | test("whole CPUs")))
    | map(.stock = $stock[key].samples | select((.samples - .stock | fabs) > ([0.1 * .stock, 3 * (.samples + .stock | sqrt)] | max))) | map("\(name): \(.samples) and \($stock[key].samples)")),
  verdict("threads and children of unlike rates have at least 0.7 times the samples that they had, or those wanted"; $series | map(select(.workload | endswith(" unlike")))
    | map(select(.samples < 0.7 * ([$stock[key].samples, .wanted] | min))) | map("\(name): \(.samples) of \(.wanted), and \($stock[key].samples)")),
  verdict("user-mode instructions counted are the same"; $series | map(select(.event == "instructions:u" and .cpus == 1 and .count != $stock[key].count))
    | map("\(name): \(.count) and \($stock[key].count)")),
  verdict("a recorder can tell the kernels apart by page faults"; $both | map(select(.workload | test("page faults")) | select(.cpus == 1))
    | map(select((.samples >= 2) != (.kernel == "series"))) | map("\(.kernel): \(.samples) samples")),
  ($both | map(select(has("said"))) as $recorded
    | verdict("tare record says that the kernel keeps counts with the series, and only then: \($recorded | length) runs";
        if ($recorded | length) == 0 then ["none"] else $recorded | map(select(.said != (.kernel == "series"))) | map("\(.kernel), \(name): \(.said)") end)),
  # With one CPU, where they don't depend on the host. The known count is that of the program in plain C. A shell formats the number of its parent: a few
  # instructions for each digit.
  ($both | map(select((.workload | startswith("tare stat: ")) and .cpus == 1)) as $counted
    | verdict("tare stat counts the same user-mode instructions on both, as known: \($counted | length) counts";
        if ($counted | length) == 0 then ["none"] else $counted
          | map((.workload |= ltrimstr("tare stat: ") | $stock[key].count) as $known | $stock[key].count as $before
              | select(.count == null or .count != $before or (.count - $known | fabs) > 10) | "\(.kernel), \(name): \(.count), known \($known), stock \($before)") end)),
  ($both | map(select(.workload == "selftest")) | select(length > 0)
    | verdict("the selftest fails on the stock kernel and passes with the series: \(length) runs"; map(select(.passes != (.kernel == "series"))) | map("\(.kernel), \(.cpus) CPUs: \(.passes)"))),
  # kind-a's share in all runs together, against the dense profile: what remains may be chance (3 standard deviations of as many independent samples).
  ($series | map(select(.shares."kind-a")) as $kinds
   | [$kinds[] | select(.workload | endswith("dense"))][] as $dense
   | ($dense.workload | rtrimstr(", dense")) as $name | ("-c 1000000", "1000 Hz") as $rate
   | ($kinds | map(select(.cpus == $dense.cpus and .rate == $rate and (.workload | startswith($name))))) as $runs
   | ($runs | map(.samples) | add) as $n | (($runs | map(.samples * .shares."kind-a") | add) / ([$n, 1] | max)) as $share | $dense.shares."kind-a" as $true
   | verdict("no bias: \($dense.cpus) CPUs, \($name), \($rate): kind-a has \($share * 1000 | round / 10)%, dense \($true * 1000 | round / 10)%";
       if ($share - $true | fabs) <= 3 * ($true * (1 - $true) / ([$n, 1] | max) | sqrt) then [] else ["\($n) samples"] end))
