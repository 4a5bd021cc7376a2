//! `tare store`: its actions on stores that are built, and on one that an agent wrote.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tare_store::{Figures, LabelSet, SegmentBuilder, SegmentInfo, StackFrame, Store, StoreOptions};

use crate::agent::{agent, end, may_record, start, wait_for_samples};
use crate::support::{ProcessGuard, stderr, tare};
use crate::symbols::{SPIN, build_id, compile, run};

/// 2026-11-26 22:00:00 UTC.
const EVENING_US: i64 = 1_795_730_400_000_000;

const MINUTE_US: i64 = 60_000_000;

/// A host that no path and no terminal may get as it is.
pub(crate) const HOSTILE: &str = "../../x\n\x1b[31m/date=2020-01-01";

pub(crate) fn open(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

pub(crate) fn info(host: &str, minute: i64) -> SegmentInfo {
    let start_us = EVENING_US + minute * MINUTE_US;
    SegmentInfo {
        host: host.to_owned(),
        start_us,
        end_us: start_us + MINUTE_US,
        ..SegmentInfo::default()
    }
}

/// Writes a window of five samples, whose frame is at an address of a build without a name.
fn write_unnamed(folder: &Path, host: &str, minute: i64, build_id: &str, address: u64) {
    let mut window = SegmentBuilder::new(info(host, minute));
    let [event, id, module] =
        ["cpu-clock", build_id, "/gone/spin\n\x1b[31m"].map(|text| window.text(text));
    let frame =
        StackFrame { build_id: Some(id), module: Some(module), address, ..StackFrame::default() };
    let stack = window.stack(&[frame]);
    let labels = LabelSet { process: Some(window.text("spin")), ..LabelSet::default() };
    window.add(&labels, event, None, stack, 5, 50);
    let figures = Figures { samples: 5, unnamed: 5, ..Figures::default() };
    open(folder).write(&window.finish(figures)).unwrap();
}

pub(crate) fn of_store(args: &[&str], store: &Path) -> Output {
    let mut command = tare();
    command.args(args).arg("--store").arg(store).env_remove("HOME").env_remove("DEBUGINFOD_URLS");
    command.output().unwrap()
}

fn document(args: &[&str], store: &Path) -> Value {
    let output = of_store(args, store);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the file offset of a function.
fn offset(binary: &Path, function: &str) -> u64 {
    use object::{Object, ObjectSegment, ObjectSymbol};
    let data = std::fs::read(binary).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(function)).unwrap();
    let holds = |start: u64, size: u64| (start..start + size).contains(&symbol.address());
    let segment = file.segments().find(|segment| holds(segment.address(), segment.size())).unwrap();
    symbol.address() - segment.address() + segment.file_range().0
}

#[test]
fn frames_get_names_by_build_id_once_their_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let Some(binary) = compile(folder.path(), SPIN, "spin", &["-Wl,--build-id=sha1"]) else {
        return;
    };
    let id = build_id(&binary);
    let store = folder.path().join("store");
    let address = offset(&binary, "hot_function");
    (0..3).for_each(|minute| write_unnamed(&store, HOSTILE, minute, &id, address));
    write_unnamed(&store, HOSTILE, 3, "0123456789", address);
    let before = document(&["store", "symbolize", "--json"], &store);
    assert_eq!(before["frames"], 0, "{before}");
    assert_eq!(before["unnamed_frames"], 4, "{before}");
    assert_eq!(before["nameless"].as_array().unwrap().len(), 2, "{before}");
    let (front, rest) = id.split_at(2);
    let cache = folder.path().join("cache");
    let place = cache.join(format!(".build-id/{front}/{rest}"));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::rename(&binary, place.join("elf")).unwrap();
    let named = of_store(&["store", "symbolize", "--buildid-dir", cache.to_str().unwrap()], &store);
    assert!(named.status.success(), "{named:?}");
    let shown = text(&named);
    assert!(
        shown.contains("named      3 frames, the innermost of 15 samples, in 3 segments"),
        "{shown}"
    );
    assert!(shown.contains("1 frames of 1 file") && shown.contains("0123456789"), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown}");
    let report = text(&of_store(&["report", "--where", "function=hot_function"], &store));
    assert!(report.contains("hot_function"), "{report}");
    assert!(of_store(&["store", "verify"], &store).status.success());
    use std::os::unix::fs::PermissionsExt;
    for path in crate::agent::segment_files(&store, "samples") {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn names_reach_what_an_agent_recorded_of_a_stripped_program() {
    if !may_record() {
        return;
    }
    // Other tests run `spin`, with symbols.
    let folder = tempfile::tempdir().unwrap();
    let Some(binary) = compile(folder.path(), SPIN, "nameless", &["-Wl,--build-id=sha1"]) else {
        return;
    };
    let id = build_id(&binary);
    run("objcopy", &["--only-keep-debug", "nameless", "apart"], folder.path());
    run("objcopy", &["--strip-all", "nameless"], folder.path());
    let store = folder.path().join("store");
    let mut spin = Command::new("sh");
    spin.args(["-c", "for i in $(seq 1000); do \"$0\"; done"]).arg(&binary);
    let _spin = ProcessGuard::spawn(&mut spin);
    let running = start(&mut agent(&store, &["-F", "499"]));
    wait_for_samples(&store);
    std::thread::sleep(std::time::Duration::from_secs(2));
    end(&running, &store);
    drop(running);
    let shows = || {
        let report = of_store(&["report", "--where", "process=nameless", "-s", "sym"], &store);
        assert!(report.status.success(), "{report:?}");
        text(&report).contains("hot_function")
    };
    assert!(!shows());
    let (front, rest) = id.split_at(2);
    let place = folder.path().join(format!("debug/.build-id/{front}"));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::rename(folder.path().join("apart"), place.join(format!("{rest}.debug"))).unwrap();
    let debug = folder.path().join("debug");
    let named =
        document(&["store", "symbolize", "--json", "--debug-dir", debug.to_str().unwrap()], &store);
    assert!(named["samples"].as_u64() > Some(0), "{named}");
    assert!(shows());
    let verified = of_store(&["store", "verify"], &store);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn status_shows_hosts_gaps_and_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    write_unnamed(&store, HOSTILE, 0, "8f3a", 1);
    write_unnamed(&store, "web-1", 1, "8f3a", 1);
    open(&store).write_gap(&info("web-1", 2), 7).unwrap();
    let shown = text(&of_store(&["store", "status"], &store));
    for line in [
        "web-1\n  time     2026-11-26T22:01:00 to 2026-11-26T22:03:00 UTC\n  windows  1 window, 5 samples\n",
        "  gaps     1, 60 s, at least 7 samples\n",
        "  losses   5 samples without a name when recorded (100.0%)\n",
        "all        2 hosts, 2 windows, 10 samples\n",
        "raw        7 files, ",
        "compacted  0 files, 0 bytes\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains('\x1b'), "{shown}");
    let document = document(&["store", "status", "--json", "--where", "host=web-1"], &store);
    assert_eq!(document["version"], 1);
    assert_eq!(document["hosts"].as_array().unwrap().len(), 1, "{document}");
    assert_eq!(document["hosts"][0]["gap_samples"], 7);
    let compacted = of_store(&["store", "compact"], &store);
    assert!(
        text(&compacted).contains("became 1 of") || text(&compacted).contains("nothing to compact")
    );
}

#[test]
fn verify_finds_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    (0..3).for_each(|minute| write_unnamed(&store, HOSTILE, minute, "8f3a", 1));
    let valid = of_store(&["store", "verify"], &store);
    assert_eq!(text(&valid), "ok: 3 segments, 9 files, 15 samples\n");
    let file = &crate::agent::segment_files(&store, "samples")[0];
    let bytes = std::fs::read(file).unwrap();
    std::fs::write(file, &bytes[..bytes.len() - 9]).unwrap();
    let damaged = of_store(&["store", "verify"], &store);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(
        text(&damaged).ends_with("1 problem: 3 segments, 9 files, 10 samples\n"),
        "{damaged:?}"
    );
    let document = document(&["store", "verify", "--json"], &store);
    assert_eq!(document["problems"].as_array().unwrap().len(), 1, "{document}");
}

#[test]
fn wrong_usage_of_store_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    write_unnamed(&store, "a", 0, "8f3a", 1);
    for (args, why, code) in [
        (&["store", "verify", "--since", "1h"][..], "select what status shows", 2),
        (&["store", "status", "--where", "service=api"], "service=api: status knows hosts only", 2),
    ] {
        let output = of_store(args, &store);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains(why), "{output:?}");
    }
    for action in ["status", "symbolize", "compact", "verify"] {
        let gone = folder.path().join("gone");
        let output = of_store(&["store", action], &gone);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("--store selects another"), "{output:?}");
        assert!(!gone.exists());
    }
}

/// Writes a window with two functions of a version of a service.
fn write_version(folder: &Path, minute: i64, version: &str, weights: [u64; 2]) {
    let mut window = SegmentBuilder::new(info(HOSTILE, minute));
    let [event, service, version, module] =
        ["cpu-clock", "api\n../", version, "/usr/bin/api"].map(|text| window.text(text));
    let labels = LabelSet { service: Some(service), version: Some(version), ..LabelSet::default() };
    for (function, samples) in ["same", "changed"].into_iter().zip(weights) {
        let address = function.len() as u64;
        let function = window.text(function);
        let frame = StackFrame {
            function: Some(function),
            module: Some(module),
            address,
            ..StackFrame::default()
        };
        let stack = window.stack(&[frame]);
        window.add(&labels, event, None, stack, samples, samples * 1_000_000);
    }
    let figures = Figures { samples: weights.iter().sum(), ..Figures::default() };
    open(folder).write(&window.finish(figures)).unwrap();
}

#[test]
fn two_sets_of_a_store_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    for minute in 0..40_i64 {
        let noise = minute.cast_unsigned() * 7 % 5;
        write_version(&store, minute, "1.4", [50 + noise, 50 - noise]);
        write_version(&store, 40 + minute, "1.5", [50 - noise, 100 + noise]);
    }
    let versions = ["--where", "service~^api,version=1.4", "--versus-where", "version=1.5"];
    let times = ["--until", "2026-11-26T22:40", "--versus-since", "2026-11-26T22:40"];
    for (sides, name) in [(&versions[..], "version=1.5"), (&times[..], "since 2026-11-26T22:40")] {
        let args: Vec<&str> = ["diff", "--json"].iter().chain(sides).copied().collect();
        let document = document(&args, &store);
        let b = &document["b"][0];
        assert!(b["name"].as_str().unwrap().ends_with(name), "{document}");
        let rows = document["events"][0]["rows"].as_array().unwrap();
        let row = |name: &str| rows.iter().find(|row| row["symbol"] == name).unwrap();
        let changed = row("changed");
        let interval = &changed["share"]["difference"];
        let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
        // From 48% to 68%.
        assert!(low > 0.15 && high < 0.25, "{changed}");
        assert_eq!(changed["share"]["is_shown"], true, "{changed}");
        let args: Vec<&str> = ["diff", "--stdio"].iter().chain(sides).copied().collect();
        let shown = text(&of_store(&args, &store));
        assert!(shown.contains("larger share") && shown.contains("blocks of time"), "{shown}");
        assert!(shown.contains("A per s") && !shown.contains('\x1b'), "{shown}");
    }
    let equal = document(
        &["diff", "--json", "--where", "version=1.4", "--versus-where", "version=1.4"],
        &store,
    );
    for row in equal["events"][0]["rows"].as_array().unwrap() {
        assert_eq!(row["share"]["difference"]["value"], 0.0, "{row}");
    }
    for (args, why) in [
        (&["diff"][..], "say what to compare with"),
        (&["diff", "--versus-where", "x"], "--versus-where: 'x' has no operator"),
        (&["diff", "--versus-where", "version=9"], "no window has such samples"),
        (&["diff", "--versus-since", "soon"], "--versus-since soon: give a time"),
        (&["diff", "a.data", "--versus-since", "1h"], "cannot be used with"),
    ] {
        let output = of_store(args, &store);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert!(stderr(&output).contains(why), "{args:?}: {output:?}");
    }
}

#[test]
fn a_part_of_a_store_is_exported_as_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    (0..2).for_each(|minute| write_version(&store, minute, "1.4", [3, 4]));
    (2..4).for_each(|minute| write_version(&store, minute, "1.5", [5, 6]));
    let part = folder.path().join("part");
    let export = ["export", "--format", "parquet", "-o", part.to_str().unwrap(), "--where"];
    let args = |condition| [&export[..], &[condition]].concat();
    let none = of_store(&args("version=9"), &store);
    assert!(stderr(&none).contains("no window has such samples"), "{none:?}");
    assert!(!part.exists());
    let exported = of_store(&args("version=1.5,service~^api"), &store);
    assert!(exported.status.success(), "{exported:?}");
    assert_eq!(
        text(&of_store(&["store", "verify"], &part)),
        "ok: 2 segments, 6 files, 22 samples\n"
    );
    let report = |store, more: &[&str]| {
        text(&of_store(&[&["report", "--stdio", "-s", "sym"], more].concat(), store))
    };
    let rows = |report: String| -> Vec<String> {
        report.lines().filter(|line| line.contains("] ")).map(str::to_owned).collect()
    };
    let whole = rows(report(&store, &["--where", "version=1.5"]));
    assert!(whole.len() == 2, "{whole:?}");
    assert_eq!(rows(report(&part, &[])), whole);
    let again = of_store(&args("version=1.4"), &store);
    assert!(stderr(&again).contains("not empty"), "{again:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no part is left");
    for (more, why) in [
        (&["-o", "-"][..], "name it with -o DIR"),
        (&["-o", "x", "-e", "cpu-clock"], "use --where event=NAME"),
    ] {
        let output = of_store(&[&["export", "--format", "parquet"], more].concat(), &store);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(why), "{output:?}");
    }
}
