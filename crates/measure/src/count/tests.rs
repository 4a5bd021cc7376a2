//! Opens, reads and sums counts on a scripted kernel, and derives metrics.

use rustix::io::Errno;
use tare_format::abi::bindings::PERF_TYPE_HARDWARE;
use tare_format::abi::{Attr, Flags};
use tare_kernel::fake::{Scripted, ScriptedAnswer};
use tare_kernel::host::{Host, Topology};
use tare_kernel::open::EventTarget;

use super::*;
use tare_events::{Event, EventGroup, PmuCpus, Sources, parse};
use tare_events::{OpenError, Unavailable};

const OPTIONS: CounterOptions = CounterOptions {
    start: Start::OnExec,
    inheritance: Inheritance::Children,
    leave_out_forbidden: false,
    no_cpu_pmu: false,
    pinned: false,
};

fn events(text: &str) -> Vec<EventGroup> {
    parse(text, &Sources::new(Host::at("/nonexistent"))).unwrap()
}

fn open(kernel: &Scripted, text: &str, scope: &Scope) -> Result<Counters, OpenError> {
    Counters::open(kernel, &events(text), scope, OPTIONS)
}

fn hardware(attr: &Attr, _: EventTarget) -> bool {
    attr.kind == PERF_TYPE_HARDWARE
}

fn reasons(counters: &Counters) -> Vec<Option<Unavailable>> {
    counters.as_slice().iter().map(Counter::unavailable).collect()
}

fn names(counters: &Counters) -> Vec<&str> {
    counters.as_slice().iter().map(|counter| counter.subject.event.name.as_str()).collect()
}

#[test]
fn a_command_counts_from_its_exec_with_its_children() {
    let kernel = Scripted::new();
    let _counters = open(&kernel, "page-faults", &Scope::Command(7)).unwrap();
    let (attr, target) = kernel.opened().remove(0);
    assert_eq!(target, EventTarget::Task(7));
    assert!(attr.flags.contains(Flags::DISABLED | Flags::ENABLE_ON_EXEC | Flags::INHERIT));
}

#[test]
fn cpus_are_not_inherited_and_wait_to_be_enabled() {
    let kernel = Scripted::new();
    let counters =
        open(&kernel, "{page-faults,faults}", &Scope::Cpus("0,2".parse().unwrap())).unwrap();
    let opened = kernel.opened();
    assert_eq!(
        opened.iter().map(|(_, target)| *target).collect::<Vec<_>>(),
        [EventTarget::Cpu(0), EventTarget::Cpu(0), EventTarget::Cpu(2), EventTarget::Cpu(2)]
    );
    let flags: Vec<Flags> = opened
        .iter()
        .map(|(attr, _)| attr.flags & (Flags::DISABLED | Flags::ENABLE_ON_EXEC | Flags::INHERIT))
        .collect();
    assert_eq!(flags, [Flags::DISABLED, Flags::empty(), Flags::DISABLED, Flags::empty()]);
    counters.enable().unwrap();
    // One call for each leader; the kernel enables its group.
    assert_eq!(kernel.calls(), ["enable 3", "enable 5"]);
}

#[test]
fn a_machine_without_pmu_counts_the_rest() {
    let kernel = Scripted::new().rule(hardware, ScriptedAnswer::Refuse(Errno::NOENT));
    let counters = open(&kernel, "cycles,page-faults", &Scope::Command(7)).unwrap();
    assert_eq!(reasons(&counters), [Some(Unavailable::NoPmu), None]);
}

#[test]
fn hardware_events_are_not_tried_without_a_pmu() {
    let kernel = Scripted::new();
    let options = CounterOptions { no_cpu_pmu: true, ..OPTIONS };
    let counters = Counters::open(
        &kernel,
        &events("{cycles,faults},r1a,L1-dcache-loads"),
        &Scope::Command(7),
        options,
    )
    .unwrap();
    let missing = Some(Unavailable::NoPmu);
    assert_eq!(
        (reasons(&counters), kernel.opened().len()),
        (vec![missing, None, missing, missing], 1)
    );
}

#[test]
fn the_next_member_leads_if_the_leader_is_unavailable() {
    let kernel = Scripted::new().rule(hardware, ScriptedAnswer::Refuse(Errno::NOENT));
    let counters = open(&kernel, "{cycles,page-faults,faults}", &Scope::Command(7)).unwrap();
    let disabled: Vec<bool> =
        kernel.opened().iter().map(|(attr, _)| attr.flags.contains(Flags::DISABLED)).collect();
    assert_eq!(
        (disabled, reasons(&counters)),
        (vec![true, false], vec![Some(Unavailable::NoPmu), None, None])
    );
}

#[test]
fn without_permission_for_the_kernel_user_mode_is_counted_and_named() {
    let closed = |attr: &Attr, _: EventTarget| !attr.flags.contains(Flags::EXCLUDE_KERNEL);
    let kernel = Scripted::new().rule(closed, ScriptedAnswer::Refuse(Errno::ACCESS));
    let counters = open(&kernel, "page-faults,context-switches", &Scope::Command(7)).unwrap();
    assert_eq!(names(&counters), ["page-faults:u", "context-switches"]);
    assert_eq!(reasons(&counters), [None, Some(Unavailable::KernelOnly)]);
    let error = open(&kernel, "page-faults:k", &Scope::Command(7)).unwrap_err();
    assert!(matches!(error, OpenError::NotPermitted { per_cpu: false, .. }), "{error}");
}

#[test]
fn forbidden_default_events_are_left_out() {
    let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(Errno::PERM));
    let options = CounterOptions { leave_out_forbidden: true, ..OPTIONS };
    let counters = Counters::open(
        &kernel,
        &events("page-faults"),
        &Scope::Cpus("0".parse().unwrap()),
        options,
    )
    .unwrap();
    assert_eq!(reasons(&counters), [Some(Unavailable::NotPermitted)]);
}

#[test]
fn too_many_files_states_the_needed_number() {
    let kernel = Scripted::new().files(3);
    let scope = Scope::Cpus("0-1".parse().unwrap());
    let error = open(&kernel, "page-faults,faults", &scope).unwrap_err();
    assert!(matches!(error, OpenError::TooManyFiles { needed: 4, opened: 3 }), "{error}");
    assert_eq!(needed_files(&events("page-faults,faults"), &scope), 4);
}

#[test]
fn refused_settings_make_only_their_event_unavailable() {
    let kernel = Scripted::new().rule(hardware, ScriptedAnswer::Refuse(Errno::INVAL));
    let counters = open(&kernel, "cycles:G,page-faults", &Scope::Command(7)).unwrap();
    assert_eq!(reasons(&counters), [Some(Unavailable::Refused), None]);
}

#[test]
fn a_weak_group_that_does_not_fit_is_opened_one_by_one() {
    let second = |attr: &Attr, _: EventTarget| {
        attr.kind == PERF_TYPE_HARDWARE && !attr.flags.contains(Flags::DISABLED)
    };
    let kernel = Scripted::new().rule(second, ScriptedAnswer::Refuse(Errno::INVAL));
    let strict = open(&kernel, "{cycles,instructions}", &Scope::Command(7)).unwrap();
    assert_eq!(reasons(&strict), [None, Some(Unavailable::Refused)]);
    let weak = open(&kernel, "{cycles,instructions}:W", &Scope::Command(7)).unwrap();
    assert_eq!(reasons(&weak), [None, None]);
}

#[test]
fn counting_events_have_no_precision() {
    let kernel =
        Scripted::new().rule(|attr, _| attr.precise_ip > 0, ScriptedAnswer::Refuse(Errno::INVAL));
    assert_eq!(
        reasons(&open(&kernel, "cycles:P,cycles:pp", &Scope::Command(7)).unwrap()),
        [None, None]
    );
}

#[test]
fn the_instances_of_an_uncore_pmu_are_one_row() {
    let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Count(5, 9, 9));
    let instance = |pmu: &str, kind| {
        let mut event = Event::new("reads".to_owned(), Attr { kind, ..Attr::default() });
        event.pmu = Some(pmu.to_owned());
        event.cpus = Some(PmuCpus::OnePerPackage("0".parse().unwrap()));
        EventGroup { events: vec![event], ..EventGroup::default() }
    };
    let groups = [instance("uncore_imc_0", 20), instance("uncore_imc_1", 21)];
    let counters =
        Counters::open(&kernel, &groups, &Scope::Cpus("0-1".parse().unwrap()), OPTIONS).unwrap();
    let sum = |counters: &Counters| {
        sum_counts(counters.as_slice(), &counters.read(), Aggregation::All, &Topology::default())
    };
    let rows = sum(&counters);
    assert_eq!((rows.len(), rows[0].outcome.scaled(), rows[0].event), (1, Some(10.0), 0));
    let mut groups = groups;
    groups[1].events[0].name = "imc/reads/".to_owned();
    groups.iter_mut().flat_map(|group| &mut group.events).for_each(Event::name_by_unit);
    let names = groups.iter().map(|group| group.events[0].name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["reads [uncore_imc_0]", "uncore_imc_1/reads/"]);
    let counters =
        Counters::open(&kernel, &groups, &Scope::Cpus("0-1".parse().unwrap()), OPTIONS).unwrap();
    let rows = sum(&counters);
    assert_eq!((rows.len(), rows[1].outcome.scaled()), (2, Some(5.0)));
}

#[test]
fn exited_threads_are_skipped_unless_all_have_exited() {
    let kernel = Scripted::new()
        .rule(|_, target| target == EventTarget::Task(8), ScriptedAnswer::Refuse(Errno::SRCH));
    let counters = open(&kernel, "page-faults", &Scope::Tasks(vec![7, 8, 9])).unwrap();
    assert_eq!(
        counters.as_slice()[0].locations().collect::<Vec<_>>(),
        [Location::Task(7), Location::Task(9)]
    );
    assert!(matches!(
        open(&kernel, "page-faults", &Scope::Tasks(vec![8])),
        Err(OpenError::NoSuchTask(8))
    ));
}

#[test]
fn a_filter_is_attached_on_every_location_and_an_invalid_one_fails() {
    let kernel = Scripted::new();
    let mut groups = events("page-faults");
    groups[0].events[0].filter = Some("prev_pid != 0".to_owned());
    let _counters =
        Counters::open(&kernel, &groups, &Scope::Cpus("0-1".parse().unwrap()), OPTIONS).unwrap();
    assert_eq!(kernel.calls(), ["filter 3 prev_pid != 0", "filter 4 prev_pid != 0"]);
    groups[0].events[0].filter = Some("a\0b".to_owned());
    assert!(matches!(
        Counters::open(&kernel, &groups, &Scope::Command(7), OPTIONS),
        Err(OpenError::Filter { .. })
    ));
}

fn rows_of(kernel: &Scripted, text: &str, scope: &Scope) -> Vec<CountRow> {
    let counters = open(kernel, text, scope).unwrap();
    sum_counts(counters.as_slice(), &counters.read(), Aggregation::All, &Topology::default())
}

#[test]
fn multiplexed_counts_are_scaled_and_show_their_share() {
    let kernel = Scripted::new().rule(hardware, ScriptedAnswer::Count(10, 100, 25));
    let row = rows_of(&kernel, "cycles", &Scope::Cpus("0-3".parse().unwrap())).remove(0);
    let CountOutcome::Counted(count) = row.outcome else { panic!("{row:?}") };
    assert_eq!((count.value(), count.scaled(), row.locations), (40, Some(160.0), 4));
    assert!((count.running_share() - 0.25).abs() < 1e-12);
}

#[test]
fn an_event_without_a_counter_is_not_counted_and_one_that_never_occurs_is_zero() {
    let kernel = Scripted::new()
        .rule(hardware, ScriptedAnswer::Count(0, 100, 0))
        .rule(|attr, _| attr.config == 3, ScriptedAnswer::NoCounter);
    assert_eq!(rows_of(&kernel, "cycles", &Scope::Command(7))[0].outcome, CountOutcome::NotCounted);
    assert_eq!(
        rows_of(&kernel, "context-switches", &Scope::Command(7))[0].outcome,
        CountOutcome::NotCounted
    );
    let idle = rows_of(&kernel, "page-faults", &Scope::Command(7)).remove(0);
    assert_eq!(idle.outcome.scaled(), Some(0.0));
}

#[test]
fn exact_sets_contain_groups_that_fit_together() {
    let sets = |counters, text| {
        plan_exact(&Scripted::new().counters(counters), &events(text), &Scope::Tasks(vec![1]))
            .unwrap()
            .0
    };
    assert_eq!(sets(2, "cycles,instructions"), [[0, 1]]);
    assert_eq!(
        sets(2, "cycles,instructions,branches,faults,branch-misses"),
        [vec![0, 1, 3], vec![2, 4]]
    );
    assert_eq!(sets(2, "{cycles,instructions},branches,cache-misses"), [vec![0], vec![1, 2]]);
    // A group that never fits gets its own set.
    assert_eq!(sets(1, "{cycles,instructions},branches"), [vec![0], vec![1]]);
}

#[test]
fn differences_and_sums_of_snapshots() {
    let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Count(10, 100, 100));
    let counters = open(&kernel, "page-faults", &Scope::Cpus("0-1".parse().unwrap())).unwrap();
    let now = counters.read();
    assert_eq!(now.since(&Snapshot::default()), now);
    assert_eq!(now.since(&now).get(0, 1).map(tare_format::abi::Count::value), Some(0));
    assert_eq!(now.plus(&now).get(0, 0).map(tare_format::abi::Count::value), Some(20));
}

#[test]
fn ratios_need_both_counts_at_the_same_privilege_levels() {
    let subjects: Vec<Subject> =
        events("cycles:u,instructions:u,instructions,task-clock,page-faults,branch-misses:u")
            .into_iter()
            .flat_map(|group| group.events)
            .map(|event| Subject { event, cgroup: None })
            .collect();
    let valued = |subject, value| MetricInput { key: Key::All, subject, value: Some(value) };
    let values = [
        valued(0, 200.0),
        valued(1, 300.0),
        valued(2, 400.0),
        valued(3, 1e9),
        valued(4, 2500.0),
        valued(5, 1.0),
    ];
    let figure = |nth: usize| {
        derive_metric(&subjects, &values, values[nth], 2e9)
            .map(|metric| (metric.value, metric.unit))
    };
    assert_eq!(figure(1), Some((1.5, "insn per cycle".to_owned())));
    // There are no cycles of all levels for `instructions` of all levels.
    assert_eq!(figure(2), Some((400.0, "/sec".to_owned())));
    assert_eq!(figure(3), Some((0.5, "CPUs utilized".to_owned())));
    assert_eq!(figure(4), Some((2.5, "K/sec".to_owned())));
    assert_eq!(figure(5), Some((1.0, "/sec".to_owned())));
}

#[test]
fn figures_have_the_names_of_perfs_metrics() {
    let list = "cycles,instructions,task-clock,page-faults,branches,branch-misses,minor-faults";
    let subjects: Vec<Subject> = events(list)
        .into_iter()
        .flat_map(|group| group.events)
        .map(|event| Subject { event, cgroup: None })
        .collect();
    let counts = [2e9, 3e9, 1e9, 2500.0, 4e6, 1e6, 7.0];
    let values: Vec<MetricInput> = counts
        .iter()
        .enumerate()
        .map(|(subject, value)| MetricInput { key: Key::All, subject, value: Some(*value) })
        .collect();
    let named: Vec<_> = values
        .iter()
        .map(|count| derive_metric(&subjects, &values, *count, 2e9).unwrap().named)
        .map(|named| named.map(|figure| (figure.name, figure.unit, figure.value)))
        .collect();
    let wanted = [
        Some(("cycles_frequency", "GHz", 2.0)),
        Some(("insn_per_cycle", "instructions", 1.5)),
        Some(("CPUs_utilized", "CPUs", 0.5)),
        Some(("page_faults_per_second", "faults/sec", 2500.0)),
        Some(("branch_frequency", "M/sec", 4.0)),
        Some(("branch_miss_rate", "%", 25.0)),
        None,
    ];
    assert_eq!(named, wanted);
    // `events` fails if a name isn't known.
    NAMED_METRICS.iter().for_each(|(_, list)| assert!(!events(list).is_empty()));
}
