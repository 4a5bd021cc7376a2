# Turns a line that the guest printed into a row of result.json. Lines of `tare record` contain its ledger.
def of_ledger:
  .rate as $rate | .ledger
  | .events[0] as $event
  | {count: $event.coverage.used, samples: $event.samples, coverage: ($event.coverage.sampled / $event.coverage.used),
     wanted: ($event.coverage.used / 1e9 * ($rate | rtrimstr(" Hz") | tonumber)), # a cycle takes a nanosecond there
     tasks: .follow.tasks, unseen_tasks: .follow.unseen_tasks, kernel_keeps_counts: .follow.kernel_keeps_counts};
{kernel: $kernel, cpus: $cpus, boot: $boot} + if .ledger then of_ledger + del(.ledger, .kind, .loss) else . end
