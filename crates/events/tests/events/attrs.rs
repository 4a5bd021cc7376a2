//! Attributes for typed events, by folders with the files that describe a machine's events.
//! docs/internals/untested.md lists the machines that tests don't run on.

use crate::machines::{TestMachine, arm64, hybrid, intel, vm};
use tare_events::{CallGraph, Event, EventGroup, PmuCpus, SamplingTerms, parse, set_filter};
use tare_format::abi::Sampling;
use tare_format::abi::bindings::{PERF_SAMPLE_BRANCH_ANY_CALL, PERF_SAMPLE_BRANCH_USER};

/// Formats an event as one line: its name, then the fields that differ from their defaults.
fn line(event: &Event) -> String {
    let attr = event.attr.to_string();
    let mut parts = vec![format!("{} =", event.name)];
    parts.extend(attr.lines().filter(|line| *line != "config 0x0").map(str::to_owned));
    parts.extend(event.pmu.iter().map(|pmu| format!("on {pmu}")));
    parts.extend(event.cpus.iter().map(|cpus| match cpus {
        PmuCpus::OnePerPackage(list) => format!("cpumask {list}"),
        PmuCpus::Those(list) => format!("cpus {list}"),
    }));
    parts.extend(
        (event.scale != 1.0 || !event.unit.is_empty())
            .then(|| format!("x {} {}", event.scale, event.unit)),
    );
    parts.join(" | ").replace("= | ", "= ")
}

fn group_lines(groups: &[EventGroup]) -> String {
    let one = |group: &EventGroup| {
        let lines: Vec<_> = group.events.iter().map(line).collect();
        let marks = [(group.weak, "weak "), (group.sample_read, "sample_read ")];
        let marks: String = marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
        if lines.len() == 1 && marks.is_empty() {
            lines[0].clone()
        } else {
            format!("{marks}{{ {} }}", lines.join(" ; "))
        }
    };
    groups.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Checks blocks of a typed text and, indented, the expected events.
fn check(machine: &TestMachine, table: &str) {
    let mut wrong = String::new();
    for block in table.trim().split("\n\n") {
        let (typed, expected) = block.trim().split_once('\n').expect("a typed text and its events");
        let expected: Vec<_> = expected.lines().map(str::trim).collect();
        let got = parse(typed.trim(), &machine.sources())
            .map_or_else(|error| error.to_string(), |groups| group_lines(&groups));
        if got != expected.join("\n") {
            wrong.push_str(&format!(
                "\n{typed}\n    expected {}\n    got      {}\n",
                expected.join("\n             "),
                got.replace('\n', "\n             ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// These names have the same attributes on every machine that isn't hybrid. Expected values are
/// from `perf stat -vv -e EVENT` of perf 6.1 on a VM, without the `exclude_guest` that it adds.
#[test]
fn names_that_need_no_sysfs() {
    check(
        &vm(),
        "
task-clock,cs
    task-clock = type 1 | config 0x1 | x 0.000001 msec
    cs = type 1 | config 0x3

cycles:u
    cycles:u = type 0 | exclude_kernel 1 | exclude_hv 1

cycles:uk
    cycles:uk = type 0 | exclude_hv 1

cycles:h
    cycles:h = type 0 | exclude_user 1 | exclude_kernel 1

cycles:G
    cycles:G = type 0 | exclude_host 1

cycles:HI
    cycles:HI = type 0 | exclude_idle 1 | exclude_guest 1

cycles:upp
    cycles:upp = type 0 | precise_ip 2 | exclude_kernel 1 | exclude_hv 1

cycles:P
    cycles:P = type 0 | precise_ip 3

cycles:De
    cycles:De = type 0 | pinned 1 | exclusive 1

0:1:u
    0:1:u = type 0 | config 0x1 | exclude_kernel 1 | exclude_hv 1

4:0x1a8
    4:0x1a8 = type 4 | config 0x1a8

r1a8:k
    r1a8:k = type 4 | config 0x1a8 | exclude_user 1 | exclude_hv 1

L1-dcache-load-misses,node-prefetch-misses
    L1-dcache-load-misses = type 3 | config 0x10000
    node-prefetch-misses = type 3 | config 0x10206

mem:0x1000
    mem:0x1000 = type 5 | config1 0x1000 | config2 0x4 | bp_type 0x3

mem:0x1000/8:x
    mem:0x1000/8:x = type 5 | config1 0x1000 | config2 0x8 | bp_type 0x4

mem:0x1000/1:w:u
    mem:0x1000/1:w:u = type 5 | config1 0x1000 | config2 0x1 | bp_type 0x2 | exclude_kernel 1 | exclude_hv 1

cycles/name=mine,config=7/u
    mine = type 0 | config 0x7 | exclude_kernel 1 | exclude_hv 1
",
    );
}

#[test]
fn groups() {
    check(
        &vm(),
        "
{cs:u,faults}:k
    { cs:u = type 1 | config 0x3 | exclude_hv 1 ; faults = type 1 | config 0x2 | exclude_user 1 | exclude_hv 1 }

{cycles,instructions}:SW, cs
    weak sample_read { cycles = type 0 ; instructions = type 0 | config 0x1 }
    cs = type 1 | config 0x3

{cycles,instructions}:D
    { cycles = type 0 | pinned 1 ; instructions = type 0 | config 0x1 }

{cs,msr/tsc/,cycles}
    { cs = type 1 | config 0x3 ; msr/tsc/ = type 10 | on msr ; cycles = type 0 }
",
    );
}

/// PEBS, and terms with bits in several words.
#[test]
fn an_intel_machine() {
    check(
        &intel(),
        "
cycles:pp
    cycles:pp = type 0 | precise_ip 2

mem-loads:P
    mem-loads:P = type 4 | config 0x1cd | config1 0x3 | precise_ip 3 | on cpu

cpu/mem-loads,ldlat=30/pp
    cpu/mem-loads,ldlat=30/pp = type 4 | config 0x1cd | config1 0x1e | precise_ip 2 | on cpu

cpu/ldlat=0x1e,mem-loads/
    cpu/ldlat=0x1e,mem-loads/ = type 4 | config 0x1cd | config1 0x1e | on cpu

cpu/event=0xa8,umask=0x1,cmask=1,inv/u
    cpu/event=0xa8,umask=0x1,cmask=1,inv/u = type 4 | config 0x18001a8 | exclude_kernel 1 | exclude_hv 1 | on cpu

cpu/r1a8/
    cpu/r1a8/ = type 4 | config 0x1a8 | on cpu

cpu/cycles/
    cpu/cycles/ = type 0 | on cpu

cpu/event=0x3c,name='a,b/c:d'/
    a,b/c:d = type 4 | config 0x3c | on cpu

{cpu/event=0x3c/,cycles,cs}
    { cpu/event=0x3c/ = type 4 | config 0x3c | on cpu ; cycles = type 0 ; cs = type 1 | config 0x3 }

power/energy-pkg/
    power/energy-pkg/ = type 9 | config 0x2 | on power | cpumask 0,28 | x 0.00000000023283064365386963 Joules
",
    );
}

/// Uncore PMUs: one name for all instances, CPUs from sysfs, scale and unit, required values.
#[test]
fn uncore_pmus() {
    check(
        &intel(),
        "
uncore_imc/cas_count_read/
    uncore_imc/cas_count_read/ = type 30 | config 0x304 | on uncore_imc_0 | cpumask 0,28 | x 0.00006103515625 MiB
    uncore_imc/cas_count_read/ = type 31 | config 0x304 | on uncore_imc_1 | cpumask 0,28 | x 0.00006103515625 MiB

{imc/cas_count_read/,imc/event=0x4,umask=0xc/}
    { imc/cas_count_read/ = type 30 | config 0x304 | on uncore_imc_0 | cpumask 0,28 | x 0.00006103515625 MiB ; imc/event=0x4,umask=0xc/ = type 30 | config 0xc04 | on uncore_imc_0 | cpumask 0,28 }
    { imc/cas_count_read/ = type 31 | config 0x304 | on uncore_imc_1 | cpumask 0,28 | x 0.00006103515625 MiB ; imc/event=0x4,umask=0xc/ = type 31 | config 0xc04 | on uncore_imc_1 | cpumask 0,28 }

*imc_1/clockticks/
    *imc_1/clockticks/ = type 31 | config 0xff | on uncore_imc_1 | cpumask 0,28

uncore_cha/lookups,slice=2/
    uncore_cha/lookups,slice=2/ = type 40 | config 0x34 | config1 0x2 | on uncore_cha | cpumask 0

uncore_cha/lookups/
    event at character 12: lookups needs a value for slice: lookups,slice=N

uncore_imc/cas_count_raed/
    event at character 12: PMU uncore_imc_0 has no event and no term 'cas_count_raed'; nearest: cas_count_read

uncore_cha/event=0x100/
    event at character 18: event: the largest value is 0xff
",
    );
}

/// Hybrid machines: a core event becomes one for each kind of core. Hardware and cache events have
/// the PMU's type in the upper half of `config`.
#[test]
fn a_hybrid_machine() {
    check(
        &hybrid(),
        "
cycles:u
    cpu_core/cycles/u = type 0 | config 0x400000000 | exclude_kernel 1 | exclude_hv 1 | on cpu_core | cpus 0-7
    cpu_atom/cycles/u = type 0 | config 0x800000000 | exclude_kernel 1 | exclude_hv 1 | on cpu_atom | cpus 8-15

LLC-loads
    cpu_core/LLC-loads/ = type 3 | config 0x400000002 | on cpu_core | cpus 0-7
    cpu_atom/LLC-loads/ = type 3 | config 0x800000002 | on cpu_atom | cpus 8-15

r1a8
    cpu_core/r1a8/ = type 4 | config 0x1a8 | on cpu_core | cpus 0-7
    cpu_atom/r1a8/ = type 8 | config 0x1a8 | on cpu_atom | cpus 8-15

cpu_atom/instructions/
    cpu_atom/instructions/ = type 0 | config 0x800000001 | on cpu_atom | cpus 8-15

cpu_core/event=0xcd/pp
    cpu_core/event=0xcd/pp = type 4 | config 0xcd | precise_ip 2 | on cpu_core | cpus 0-7

{cycles,instructions}
    { cpu_core/cycles/ = type 0 | config 0x400000000 | on cpu_core | cpus 0-7 ; cpu_core/instructions/ = type 0 | config 0x400000001 | on cpu_core | cpus 0-7 }
    { cpu_atom/cycles/ = type 0 | config 0x800000000 | on cpu_atom | cpus 8-15 ; cpu_atom/instructions/ = type 0 | config 0x800000001 | on cpu_atom | cpus 8-15 }

mem-stores
    cpu_core/mem-stores/ = type 4 | config 0x2cd | on cpu_core | cpus 0-7
    cpu_atom/mem-stores/ = type 8 | config 0x6d0 | on cpu_atom | cpus 8-15

task-clock
    task-clock = type 1 | config 0x1 | x 0.000001 msec

cpu/cycles/
    event at character 1: this machine has no PMU 'cpu'; nearest: cpu_atom or cpu_core
",
    );
}

#[test]
fn an_arm64_machine() {
    check(
        &arm64(),
        "
cycles
    cycles = type 0

armv8_pmuv3_0/l1d_cache_refill/
    armv8_pmuv3_0/l1d_cache_refill/ = type 8 | config 0x3 | on armv8_pmuv3_0

armv8_pmuv3/event=0x11/u
    armv8_pmuv3/event=0x11/u = type 8 | config 0x11 | exclude_kernel 1 | exclude_hv 1 | on armv8_pmuv3_0

inst_retired:k
    inst_retired:k = type 8 | config 0x8 | exclude_user 1 | exclude_hv 1 | on armv8_pmuv3_0

{cycles,l1d_cache_refill,instructions}
    { cycles = type 0 ; l1d_cache_refill = type 8 | config 0x3 | on armv8_pmuv3_0 ; instructions = type 0 | config 0x1 }
",
    );
}

#[test]
fn tracepoints() {
    check(
        &vm(),
        "
sched:sched_switch:u
    sched:sched_switch = type 2 | config 0x13c | exclude_kernel 1 | exclude_hv 1

raw_syscalls:*
    raw_syscalls:sys_enter = type 2 | config 0x17
    raw_syscalls:sys_exit = type 2 | config 0x16

*:sched_[sw]*
    sched:sched_switch = type 2 | config 0x13c
    sched:sched_wakeup = type 2 | config 0x13e

sched:sched_swich
    event at character 1: no tracepoint is called 'sched:sched_swich'; nearest: sched:sched_switch or sched:sched_wakeup

shed:sched_wakeup
    event at character 1: no tracepoint is called 'shed:sched_wakeup'; nearest: sched:sched_wakeup

sched:x*
    event at character 1: no tracepoint is called 'sched:x*'
",
    );
}

/// Sampling terms don't change the attribute.
#[test]
fn terms_for_sampling_leave_the_attribute_alone() {
    let text = "cycles/period=1000,call-graph=lbr,branch_type=any_call+u,max-stack=64,time=0,no-overwrite,nr=5,no-inherit,percore/u";
    let groups = parse(text, &intel().sources()).unwrap();
    let event = &groups[0].events[0];
    assert_eq!(event.attr, parse("cycles:u", &intel().sources()).unwrap()[0].events[0].attr);
    let expected = SamplingTerms {
        rate: Sampling::Period(1000),
        call_graph: Some(CallGraph::LastBranchRecord),
        branch_type: Some(u64::from(PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_USER)),
        max_stack: Some(64),
        time: Some(false),
        overwrite: Some(false),
        max_events: Some(5),
        ..SamplingTerms::default()
    };
    assert_eq!((&event.sampling, event.inherit, event.percore), (&expected, Some(false), true));
    assert_eq!(event.term_for_sampling(), Some("call-graph"));
    let frequency =
        parse("sched:sched_switch/freq=99,call-graph=dwarf,stack-size=4096/", &vm().sources())
            .unwrap();
    let terms = &frequency[0].events[0].sampling;
    assert_eq!(
        (terms.rate, terms.call_graph, terms.stack_size),
        (Sampling::Frequency(99), Some(CallGraph::Dwarf), Some(4096))
    );
    for (wrong, expected) in [
        (
            "cycles/call-graph=x/",
            "event at character 19: call-graph: expected auto, fp, dwarf, dwarf+fp, lbr or no after =",
        ),
        (
            "cycles/branch_type=any_cal/",
            "event at character 20: branch_type: expected kinds of branches joined with + after =, like any+u; nearest: any_call",
        ),
        ("cycles/max-stack=65536/", "event at character 18: max-stack: the number is too large"),
        ("cycles/freq/", "event at character 8: freq: expected a number above 0 after ="),
        ("cs/inherit=2/", "event at character 12: inherit: expected 0 or 1 after ="),
        ("sched:sched_switch/config=1/", "event at character 20: this event has no term 'config'"),
    ] {
        assert_eq!(parse(wrong, &vm().sources()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn filters_apply_to_all_tracepoints_of_a_pattern() {
    let machine = vm();
    let sources = machine.sources();
    let mut groups = parse("sched:*", &sources).unwrap();
    set_filter(&mut groups, "common_pid != 1 && comm ~ \"a*\"", &sources).unwrap();
    set_filter(&mut groups, "CPU == 0", &sources).unwrap();
    for group in &groups {
        assert_eq!(
            group.events[0].filter.as_deref(),
            Some("(common_pid != 1 && comm ~ \"a*\") && (CPU == 0)")
        );
    }
    let mut one = parse("sched:sched_switch", &sources).unwrap();
    let refused = |groups: &mut [EventGroup], filter| {
        set_filter(groups, filter, &sources).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&mut one, "next_pdi == 3"),
        "--filter: sched:sched_switch has no field 'next_pdi'; nearest: next_pid"
    );
    assert_eq!(refused(&mut one, " "), "--filter: expected a condition, like 'prev_pid == 0'");
    assert_eq!(
        refused(&mut [], "a == 1"),
        "--filter belongs after -e SYSTEM:EVENT: there is no event before it"
    );
    let mut clock = parse("cs", &sources).unwrap();
    assert_eq!(
        refused(&mut clock, "a == 1"),
        "--filter belongs after -e SYSTEM:EVENT: cs isn't a tracepoint"
    );
    assert_eq!(one[0].events[0].filter, None);
}
