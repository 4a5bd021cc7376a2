# Prints result.json as a table: a row for each run, the kernels side by side.
include "rows";
def cells: [.samples // "-", (if .coverage then .coverage | percent else "-" end), .low // "-", .instructions // "-"];
.rows |= map(select(.workload | test("^selftest|^cost, ") | not))
| (.rows | map(.kernel) | unique | sort_by({stock: 0, series: 9}[.] // 5)) as $kernels
| (["CPUs, workload", "event", "rate", "wanted"] + [$kernels[] | ., "coverage", "low", "instructions"]),
  (reduce .rows[] as $row ({}; .[$row | key][$row.kernel] = $row) | [.[]] | sort_by(first(.[]) | [.cpus, .rate == "count"])[]
   | (.series // .stock) as $one
   | ["\($one.cpus), \($one.workload)",
      "\(if $one.events > 1 then "\($one.events) x " else "" end)\($one.event)\(if $one.group then ", group" else "" end)",
      $one.rate, ($one.wanted // $one.count | round)]
     + [$kernels[] as $k | .[$k] // {} | cells[]])
| @tsv
