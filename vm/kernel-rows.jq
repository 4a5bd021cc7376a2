# What the tables and the verdicts of vm/kernel.sh know of a row of result.json.
def key: [.cpus, .workload, .event, .events, .group, .rate] | tojson;
def percent: . * 1000 | round / 10 | tostring + "%";
# Those that hardly fork; what the series must leave as it is.
def is_steady: .workload | test("one process|busy threads|wake each other|unlike|whole CPUs");
# Rows for which coverage and number of samples are promised. Not: whole CPUs, where a rate goes by the wall's clock; busy threads, which show what the
# emulator loses; threads that take turns with pauses, as a rate that few events reach has few samples.
def is_promised: .samples != null and (.event | startswith("cycles")) and (.rate | IN("1000 Hz", "4000 Hz", "-c 1000000"))
  and (.workload | test("dense|at once|busy threads|unlike|whole CPUs") | not);
# Where samples at far too short periods are counted.
def may_storm: is_promised and .cpus == 2 and (.rate | endswith("Hz")) and (is_steady | not);
