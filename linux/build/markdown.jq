# Prints result.json as the tables of linux/inherited-events.md.
include "rows";
def change: (. - 1) * 10000 | round / 100 | if . > 0 then "+\(.)%" else "\(.)%" end;
def row: "| " + join(" | ") + " |";
def heading: row, (map("---") | "|" + join("|") + "|");
def what: "\(if .events > 1 then "\(.events) x " else "" end)\(.event)\(if .group then ", group" else "" end), \(if .rate[0:1] == "-" then "`\(.rate)`" else .rate end)";
def figures: if .samples == null then "-" else "\(.samples) / \(.coverage | percent)\(if .low == null then "" else " / \(.low)" end)" end;
.linux as $linux | .rows as $rows
| ($rows | controls) as $controls
| ($rows | map(select(is_control and .kernel == "stock"))) as $busy
| ($rows | map(select(is_control | not)) | INDEX("\(.kernel) \(key)")) as $at
| ($rows | map(.kernel) | unique | sort_by({stock: 0, series: 9}[.] // 5)) as $kernels
| def of($kernel): $at["\($kernel) \(key)"];
  def table($rows): (["CPUs, workload", "event, rate", "wanted", "stock: samples / coverage / low", "series"] | heading),
    ($rows | sort_by(.cpus)[] | ["\(.cpus), \(.workload)", what, (.wanted | round), (of("stock") | figures), figures] | row);
  def main($kernel): $rows | map(select(.kernel == $kernel and is_promised and is_measurable($controls)));
  def low: map(select(may_storm) | .low) | add;
  ($rows | map(select(.kernel == "series"))) as $series
| ($series | map(select(.events == 1 and .samples != null and (.workload | test("kinds|dense|shares|at once|page faults|^control|^cost") | not)))) as $one
| (main("series")) as $main
| "Linux \($linux)", "", "## Figures", "",
  table($one | map(select((.event | startswith("cycles")) and ((is_steady | not) or (.workload | test("wake each other")))))), "",
  table($one | map(select((.event | startswith("cycles") | not) or (is_steady and (.workload | test("wake each other") | not))))), "",
  "## What it must show", "",
  (["figure", "value"] | heading),
  (["rows with 2 CPUs that are measurable", "\($main | map(select(.cpus == 2)) | length) of \($series | map(select(is_promised and .cpus == 2)) | length)"] | row),
  (["rows of cycles with coverage of at least 99%, 1 and 2 CPUs", ([1, 2] | map(. as $cpus | $main | map(select(.cpus == $cpus)) | "\(map(select(.coverage >= 0.99)) | length) of \(length)") | join(", "))] | row),
  (["the same, or less than a period for each CPU and event missing", ([1, 2] | map(. as $cpus | $main | map(select(.cpus == $cpus)) | "\(map(select(.coverage >= 0.99 or missing < .cpus * .events)) | length) of \(length)") | join(", "))] | row),
  (["samples by those wanted", ($main | map(.samples / .wanted * 100 | round / 100) | "\(min) to \(max)")] | row),
  (["low samples with 2 CPUs, stock and series", "\(main("stock") | low) and \($main | low)"] | row),
  ($series | map(select(is_steady and .instructions != null and .workload != "threads unlike") | {cpus, change: (.instructions / of("stock").instructions), time: (if .elapsed_ns != null and never_idles then .elapsed_ns / of("stock").elapsed_ns else null end)})
    | (["instructions of the guest where nothing forks, 1 CPU", (map(select(.cpus == 1).change) | "\(min | change) to \(max | change)")] | row),
      (["time of the guest where nothing forks, 1 CPU", (map(select(.cpus == 1 and .time != null).time) | "\(min | change) to \(max | change)")] | row),
      (["the same instructions with 2 CPUs", (map(select(.cpus == 2).change) | sort | "\(.[length / 2 | floor] | change) in the median, \(min | change) to \(max | change)")] | row)),
  ($series[] | select((is_steady | not) and .rate == "4000 Hz" and .cpus == 2 and .instructions != null and (.event == "cycles") and (.group | not) and (.workload | test("0.1-1|2000 x true$")))
    | ["instructions, 2 CPUs, \(.workload), \(what)", (.instructions / of("stock").instructions | change)] | row),
  ($series[] | select(.workload | test("at once"))
    | ["instructions, \(.workload), \(.cpus) CPUs, \(what)", "\(.instructions - of("stock").instructions) of \(.instructions)"] | row),
  "", "Two busy threads on the stock kernel with 2 CPUs:", "",
  (["boot", "kept"] | heading),
  ($busy | group_by(.boot)[] | ["\(.[0].boot)", (map("\(control_name): \(.coverage * 10000 | round / 100)%") | join("; "))] | row),
  "", "## What it costs", "",
  (["instructions of", "stock", "series", "change"] | heading),
  (($rows | map(select(.kernel == "stock")) | costs) as $before | ($rows | map(select(.kernel == "series")) | costs)
    | to_entries[] | $before[.key].value as $was
    | [.value.what, ($was | round), (.value.value | round), (.value.value - $was | round | if . > 0 then "+\(.)" else "\(.)" end)] | row),
  "", "## Beside the patch of 2017", "",
  (["events", "instructions", "samples, stock and series (wanted)", "coverage, stock and series"] | heading),
  ($series | map(select(.cpus == 2 and .workload == "children of 0.1-1 ms" and .event == "cycles" and .rate == "4000 Hz" and (.group | not))) | sort_by(.events)[]
    | of("stock") as $stock | ["\(.events)", (.instructions / $stock.instructions | change), "\($stock.samples), \(.samples) (\(.wanted | round))", "\($stock.coverage | percent), \(.coverage | percent)"] | row),
  (if ($kernels | length) > 2 then
    "", "## Which patch pays what", "",
    (["", $kernels[]] | heading),
    (["rows of cycles with coverage of at least 99%", ($kernels[] | main(.) | "\(map(select(.coverage >= 0.99)) | length) of \(length)")] | row),
    (["least coverage of them", ($kernels[] | main(.) | map(.coverage) | min | percent)] | row),
    (["samples by those wanted", ($kernels[] | main(.) | map(.samples / .wanted * 100 | round / 100) | "\(min) to \(max)")] | row),
    (["low samples with 2 CPUs", ($kernels[] | main(.) | low)] | row),
    ($series | map(select(.cpus == 2 and .events == 1 and is_promised and (.rate | IN("1000 Hz", "-c 1000000")) and .event == "cycles" and .low != null and (.workload | test("kinds|shares") | not))) | sort_by(.rate)[]
      | . as $one | ["\(.workload), \(what): \(.wanted | round) wanted", ($kernels[] as $k | $one | of($k) | figures)] | row),
    ($rows | map(select(.kernel == "stock")) | costs | to_entries[] | .key as $at | ["instructions of \(.value.what)", ($kernels[] as $k | $rows | map(select(.kernel == $k)) | costs[$at].value | round)] | row)
  else empty end)
