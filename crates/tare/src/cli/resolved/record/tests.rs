//! Tests of how typed options become options of the recorder.

use std::path::PathBuf;

use tare_events::CallGraph;
use tare_format::abi::Flags;
use tare_format::abi::bindings as abi;
use tare_record::options::{Begin, Callchains, Cpus, Rate, Target};
use tare_record::output::{Destination, FileSwitch, PathChoice};

use super::*;
use crate::cli::raw::{Tare, TareCommand};

fn resolve(options: &str) -> Result<RecordOptions, Refusal> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("etc/passwd", "root:x:0:0::/:/bin/sh\nme:x:1000:1000::/:/bin/sh\n"),
    ] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let words =
        shlex::split(&format!("tare record {options}")).unwrap().into_iter().map(OsString::from);
    let parsed = Tare::parse_typed(words).map_err(|error| Refusal::usage(error.to_string()))?;
    let TareCommand::Record(raw) = parsed.command else { panic!("{options}") };
    RecordOptions::resolve(*raw.0, &Host::at(root.path()))
}

fn record(options: &str) -> RecordOptions {
    resolve(options).unwrap_or_else(|refusal| panic!("{options}: {refusal}"))
}

/// Asserts that each command line is refused with a message that contains its text.
fn refused(lines: &[(&str, &str)]) {
    for (options, text) in lines {
        let message =
            resolve(options).map(|_| "taken".to_owned()).unwrap_or_else(|refusal| refusal.message);
        assert!(message.contains(text), "{options}: {message}");
    }
}

#[test]
fn events_and_filters() {
    let events = |options| -> Vec<String> {
        record(options)
            .options
            .groups
            .iter()
            .flat_map(|group| &group.events)
            .map(|one| one.name.clone())
            .collect()
    };
    assert_eq!(events("true"), [""; 0]);
    assert_eq!(
        events("-e cs,faults --event '{cpu-clock,cs}' true"),
        ["cs", "faults", "cpu-clock", "cs"]
    );
    refused(&[
        ("-e nonsense true", "unknown event 'nonsense'"),
        ("--filter 'a == 1' -e cs true", "put it after the tracepoint's -e"),
        ("-e cs --filter 'a == 1' true", "cs isn't a tracepoint"),
        ("-e cs/percore/ true", "leave it out"),
        ("-e cs/nr=3/ true", "--max-size"),
        ("-e cs/aux-sample-size=3/ true", "AUX"),
    ]);
}

#[test]
fn rates() {
    let rate = |options| record(options).options.sampling.rate;
    assert_eq!(rate("true"), Rate::OfEvent);
    assert_eq!(
        (rate("-F 99 true"), rate("--freq=99 true"), rate("-F max true")),
        (Rate::Frequency(99), Rate::Frequency(99), Rate::MaxFrequency)
    );
    assert_eq!((rate("-c 7 true"), rate("--count 7 true")), (Rate::Period(7), Rate::Period(7)));
    assert_eq!((rate("-n true"), rate("--no-samples true")), (Rate::Never, Rate::Never));
    assert!(record("-F 99 --strict-freq true").options.sampling.strict_frequency);
    refused(&[
        ("-F 0 true", "give a frequency in Hz"),
        ("-F x true", "or max"),
        ("-F 1 -c 1 true", "cannot be used with"),
        ("-c 0 true", "0 is not in"),
    ]);
}

#[test]
fn call_chains() {
    let sampling = |options| record(options).options.sampling;
    let how = |options| {
        (
            sampling(options).call_graph,
            sampling(options).call_graph_of_tracepoints,
            sampling(options).stack_bytes,
        )
    };
    assert_eq!(how("true"), (CallGraph::FramePointer, false, 8192));
    assert_eq!(how("-g true"), (CallGraph::Auto, true, 0));
    assert_eq!(how("--call-graph fp true"), (CallGraph::FramePointer, true, 8192));
    assert_eq!(how("--call-graph dwarf true"), (CallGraph::Dwarf, true, 8192));
    assert_eq!(how("--call-graph dwarf,1001 true"), (CallGraph::Dwarf, true, 1008));
    assert_eq!(how("--call-graph auto true"), (CallGraph::Auto, true, 0));
    assert_eq!(how("--call-graph auto,9000 true"), (CallGraph::Auto, true, 9000));
    let both = CallGraph::DwarfAndFramePointer;
    assert_eq!(how("--call-graph dwarf+fp true"), (both, true, 8192));
    assert_eq!(how("--call-graph dwarf+fp,1001 true"), (both, true, 1008));
    assert_eq!(how("--call-graph fp,defer true").0, CallGraph::DeferredFramePointer);
    assert_eq!(how("--call-graph=lbr true"), (CallGraph::LastBranchRecord, true, 8192));
    assert_eq!(how("--no-call-graph true").0, CallGraph::No);
    assert_eq!(sampling("--user-callchains true").callchains, Callchains::User);
    assert_eq!(sampling("--kernel-callchains true").callchains, Callchains::Kernel);
    refused(&[
        ("--call-graph dwarf,99999 true", "65528"),
        ("--call-graph fp,9 true", "only dwarf"),
        ("--call-graph x true", "dwarf+fp"),
        ("-g --no-call-graph true", "cannot be used with"),
    ]);
}

#[test]
fn branches_and_registers() {
    let branches = |options| record(options).options.sampling.branches;
    let any = u64::from(abi::PERF_SAMPLE_BRANCH_ANY);
    let user = u64::from(abi::PERF_SAMPLE_BRANCH_USER);
    assert_eq!(
        (branches("true"), branches("-b true"), branches("--branch-any true")),
        (None, Some(any), Some(any))
    );
    assert_eq!(
        (branches("-j u true"), branches("-j any_call,u true")),
        (Some(any | user), Some(u64::from(abi::PERF_SAMPLE_BRANCH_ANY_CALL) | user))
    );
    assert_eq!(branches("--branch-filter cond true"), Some(abi::PERF_SAMPLE_BRANCH_COND.into()));
    refused(&[("-j x true", "any_call"), ("-b -j any true", "cannot be used with")]);
    let registers = |options| {
        (
            record(options).options.sampling.user_registers,
            record(options).options.sampling.interrupt_registers,
        )
    };
    assert_eq!(registers("true"), (0, 0));
    if cfg!(target_arch = "x86_64") {
        assert_eq!(registers("--user-regs=ip,SP true"), (0x180, 0));
        assert_eq!(registers("-IAX,bx true"), (0, 3));
        assert_eq!(registers("-I --user-regs true"), (0xff_0fff, 0xff_0fff));
        refused(&[
            ("--user-regs=? true", "AX BX"),
            ("-I? true", "AX BX"),
            ("--intr-regs=XX true", "unknown register 'XX'"),
        ]);
    }
}

#[test]
fn fields_of_samples() {
    let fields = |options: &str| record(options).options.sampling.fields;
    let table = [
        ("-d", abi::PERF_SAMPLE_ADDR),
        ("--data", abi::PERF_SAMPLE_ADDR),
        ("--phys-data", abi::PERF_SAMPLE_PHYS_ADDR),
        ("--data-page-size", abi::PERF_SAMPLE_DATA_PAGE_SIZE),
        ("--code-page-size", abi::PERF_SAMPLE_CODE_PAGE_SIZE),
        ("-W", abi::PERF_SAMPLE_WEIGHT_STRUCT),
        ("--weight", abi::PERF_SAMPLE_WEIGHT_STRUCT),
        ("--transaction", abi::PERF_SAMPLE_TRANSACTION),
        ("-P", abi::PERF_SAMPLE_PERIOD),
        ("--period", abi::PERF_SAMPLE_PERIOD),
        ("--sample-cpu", abi::PERF_SAMPLE_CPU),
        ("-R", abi::PERF_SAMPLE_RAW),
        ("--raw-samples", abi::PERF_SAMPLE_RAW),
        ("--all-cgroups", abi::PERF_SAMPLE_CGROUP),
    ];
    for (option, field) in table {
        assert_eq!(fields(&format!("{option} true")), u64::from(field), "{option}");
    }
    assert_eq!((fields("true"), fields("-T true"), fields("--timestamp true")), (0, 0, 0));
}

#[test]
fn clocks() {
    let clock = |options| record(options).options.sampling.clock;
    assert_eq!(
        (clock("true"), clock("-k mono true"), clock("--clockid CLOCK_MONOTONIC true")),
        (Some(1), Some(1), Some(1))
    );
    assert_eq!(
        (clock("-k raw true"), clock("-k real true"), clock("-k boot true"), clock("-k tai true")),
        (Some(4), Some(0), Some(7), Some(11))
    );
    assert_eq!((clock("-k 7 true"), clock("-k perf true")), (Some(7), None));
    refused(&[("-k sun true", "mono, raw")]);
}

#[test]
fn what_is_recorded_beside_samples() {
    let tracking = |options: &str| record(options).options.sampling.tracking;
    assert_eq!(
        (tracking("true"), tracking("--no-bpf-event true")),
        (Flags::BPF_EVENT, Flags::empty())
    );
    let table = [
        ("-d", Flags::MMAP_DATA),
        ("--switch-events", Flags::CONTEXT_SWITCH),
        ("--latency", Flags::CONTEXT_SWITCH),
        ("--namespaces", Flags::NAMESPACES),
        ("--all-cgroups", Flags::CGROUP),
        ("--buildid-mmap", Flags::BUILD_ID),
    ];
    for (option, flag) in table {
        assert_eq!(tracking(&format!("{option} true")), flag | Flags::BPF_EVENT, "{option}");
    }
    assert!(
        record("-s true").options.sampling.counts_of_threads
            && record("--stat true").options.sampling.counts_of_threads
    );
    assert!(
        record("--all-cgroups true").options.sampling.all_cgroups
            && record("--all-cgroups true").options.synthesize.cgroups
    );
    refused(&[("--latency -a", "give a command"), ("--latency -C 0 true", "give a command")]);
}

#[test]
fn levels() {
    let flags = |options| record(options).options.groups[0].events[0].attr.flags;
    assert_eq!(flags("-e cs true"), Flags::empty());
    assert_eq!(flags("--all-user -e cs:k true"), Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV);
    assert_eq!(flags("--all-kernel -e cs true"), Flags::EXCLUDE_USER | Flags::EXCLUDE_HV);
    refused(&[("--all-user --all-kernel true", "cannot be used with")]);
}

#[test]
fn targets() {
    let target = |options| record(options).options.target;
    let cpus = |text: &str| text.parse::<tare_kernel::host::CpuList>().unwrap();
    assert_eq!(target("true"), Target::Command(Cpus::All));
    assert_eq!(
        (target(""), target("-a true"), target("--all-cpus")),
        (Target::Cpus(cpus("0-3")), Target::Cpus(cpus("0-3")), Target::Cpus(cpus("0-3")))
    );
    assert_eq!(
        (target("-C 1,3 true"), target("--cpu 2")),
        (Target::Cpus(cpus("1,3")), Target::Cpus(cpus("2")))
    );
    assert_eq!(
        (target("-p 1,2 true"), target("--pid 1")),
        (Target::Processes(vec![1, 2], Cpus::All), Target::Processes(vec![1], Cpus::All))
    );
    assert_eq!(
        (target("-t 3"), target("--tid 3 -C 1")),
        (Target::Threads(vec![3], Cpus::All), Target::Threads(vec![3], Cpus::These(cpus("1"))))
    );
    assert_eq!(
        (target("-u me"), target("--uid 7")),
        (Target::User(1000, Cpus::All), Target::User(7, Cpus::All))
    );
    assert_eq!(
        target("-G a,b"),
        Target::Cgroups { names: vec!["a".to_owned(), "b".to_owned()], cpus: cpus("0-3") }
    );
    assert_eq!(
        (
            record("true").options.inherit,
            record("-i true").options.inherit,
            record("--no-inherit true").options.inherit
        ),
        (true, false, false)
    );
    refused(&[
        ("-u you", "id -u you"),
        ("-C 9", "CPU 9 is not online"),
        ("-p 0", "positive"),
        ("-p 1 -t 1", "cannot be used"),
    ]);
    // Several lists add up, as does the output of pidof(1).
    for options in ["-p 1 -p 2,3", "-p '1 2 3'", "-p '1, 2\n3'"] {
        assert_eq!(target(options), Target::Processes(vec![1, 2, 3], Cpus::All), "{options}");
    }
    assert_eq!(target("-t 1 --tid '2 3'"), Target::Threads(vec![1, 2, 3], Cpus::All));
    refused(&[("-p 'x 1'", "'x' is not the id of a process"), ("-p ' '", "no id of a process")]);
    // As in perf, tasks win over the whole machine.
    assert_eq!(target("-a -p 1"), Target::Processes(vec![1], Cpus::All));
    assert_eq!(target("-u 7 -a"), Target::User(7, Cpus::All));
}

#[test]
fn times() {
    use std::time::Duration;
    let begin = |options| record(options).options.begin;
    assert_eq!(
        (begin("true"), begin("-D 0 true"), begin("-D 20 true")),
        (Begin::AtOnce, Begin::AtOnce, Begin::After(Duration::from_millis(20)))
    );
    assert_eq!(begin("--delay -1 --control fd:3 true"), Begin::OnRequest);
    assert_eq!(record("--control fd:3,4 true").control.as_deref(), Some("fd:3,4"));
    assert_eq!(record("--timeout 50 true").timeout, Some(Duration::from_millis(50)));
    refused(&[
        ("-D -1 true", "--control"),
        ("-D 10-20 true", "ranges"),
        ("-D x true", "milliseconds"),
        ("--timeout 0 true", "0 is not in"),
    ]);
}

#[test]
fn rings_and_flushes() {
    let rings = |options| record(options).options.rings;
    let page = rustix::param::page_size() as u64;
    assert_eq!((rings("true").bytes, rings("-m 3 true").bytes), (None, Some(4 * page)));
    assert_eq!(
        (rings("--mmap-pages 1M true").bytes, rings("-m 1B true").bytes),
        (Some(1 << 20), Some(page))
    );
    assert_eq!(
        (
            rings("true").flush_interval.as_millis(),
            rings("--flush-interval 10 true").flush_interval.as_millis()
        ),
        (250, 10)
    );
    assert_eq!((rings("true").keep, rings("--overwrite true").keep), (Keep::All, Keep::WhatFits));
    assert_eq!(rings("--keep-last 1.5 true").keep, Keep::Last(Duration::from_millis(1500)));
    refused(&[
        ("-m 8,4 true", "-m 8"),
        ("-m x true", "number of pages"),
        ("-m 9999999G true", "number of pages"),
        ("--keep-last 0 true", "above 0"),
        ("--keep-last nan true", "above 0"),
        ("--overwrite --keep-last 1 true", "cannot be used"),
        ("--overwrite --switch-output=1M true", "SIGUSR2"),
        ("-e cs/overwrite/ --switch-output=1m true", "SIGUSR2"),
        ("--flush-interval 0 true", "0 is not in"),
    ]);
}

#[test]
fn where_it_goes() {
    let output = |options| record(options).output;
    let file = |name: &str| Destination::File(PathBuf::from(name));
    assert_eq!(
        (output("true").destination, output("-o x true").destination),
        (file("perf.data"), file("x"))
    );
    assert_eq!(
        (output("-o - true").destination, output("--output y true").destination),
        (Destination::Stdout, file("y"))
    );
    refused(&[("-o - --switch-output true", "name a file"), ("-o '' true", "value is required")]);
}

#[test]
fn how_it_is_written() {
    let options = |text| record(text).output.options;
    assert_eq!(
        (options("true").compress, options("-z true").compress, options("-z7 true").compress),
        (None, Some(1), Some(7))
    );
    assert_eq!(
        (
            options("--compression-level=22 true").compress,
            options("--compression-level true").compress
        ),
        (Some(22), Some(1))
    );
    assert_eq!(
        (options("true").choice, options("--output-path=mmap true").choice),
        (PathChoice::Auto, PathChoice::Mmap)
    );
    assert_eq!(
        (options("--output-path write true").choice, options("--output-path auto true").choice),
        (PathChoice::Write, PathChoice::Auto)
    );
    assert_eq!(
        (options("true").window_bytes, options("--out-pages 3M true").window_bytes),
        (64 << 20, 4 << 20)
    );
    assert_eq!(
        (options("--max-size 100M true").max_size, options("--sync true").sync),
        (Some(100 << 20), true)
    );
    assert_eq!(
        (options("--switch-output true").switch, options("--switch-output=signal true").switch),
        (Some(FileSwitch::Signal), Some(FileSwitch::Signal))
    );
    assert_eq!(
        (options("--switch-output=1M true").switch, options("--switch-output=2m true").switch),
        (Some(FileSwitch::Size(1 << 20)), Some(FileSwitch::Time(Duration::from_secs(120))))
    );
    assert_eq!(options("--switch-output --switch-max-files 3 true").max_files, Some(3));
    assert!(options("--timestamp-filename true").timestamp && !options("true").timestamp);
    assert!(
        record("true").options.build_ids
            && !record("-B true").options.build_ids
            && !record("--no-buildid true").options.build_ids
    );
    refused(&[
        ("-z99 true", "99 is not in"),
        ("--output-path=x true", "auto, write, mmap or direct"),
        ("--max-size 0 true", "as in 100M"),
        ("--switch-output=x true", "30s"),
        ("--switch-max-files 3 true", "--switch-output"),
    ]);
}

#[test]
fn running_processes() {
    let synthesize = |options| record(options).options.synthesize;
    let all = Synthesize { tasks: true, maps: true, cgroups: false, at_the_end: false };
    assert_eq!((synthesize("true"), synthesize("--synth=all true")), (all, all));
    assert_eq!(synthesize("--synth=no true"), Synthesize { tasks: false, maps: false, ..all });
    assert_eq!(
        synthesize("--synth task,cgroup true"),
        Synthesize { maps: false, cgroups: true, ..all }
    );
    assert!(synthesize("--tail-synthesize true").at_the_end);
    refused(&[("--synth=x true", "task, mmap, cgroup"), ("--synth=no,task true", "no alone")]);
}

#[test]
fn the_rest() {
    assert!(
        record("--include-self true").options.include_self
            && !record("--exclude-perf true").options.include_self
    );
    assert_eq!(
        (
            record("-r 5 true").options.realtime_priority,
            record("--realtime 5 true").options.realtime_priority
        ),
        (Some(5), Some(5))
    );
    assert_eq!(
        (record("-vv true").verbose, record("-q true").quiet, record("--dry-run true").dry_run),
        (2, true, true)
    );
    for accepted in ["-N", "--no-buildid-cache", "--no-bpf-event", "--proc-map-timeout 500", "-T"] {
        record(&format!("{accepted} true"));
    }
    assert_eq!(record("-g -- ls -l").command, ["ls", "-l"]);
    assert_eq!(record("gzip -z9").command, ["gzip", "-z9"]);
    refused(&[
        ("-q -v true", "cannot be used"),
        ("--include-self --exclude-perf true", "cannot be used"),
        ("-r 100 true", "100 is not in"),
    ]);
}
