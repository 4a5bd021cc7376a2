//! Layout of `tare report` compared with that of `perf report`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{status, stderr, tare};
use crate::symbols::compile;

/// A temporary folder with a recording: of a shell that starts programs, or of
/// [`WITH_FRAME_POINTERS`].
struct ShellRecording(tempfile::TempDir);

/// A program whose functions keep frame pointers.
const WITH_FRAME_POINTERS: &str = r"
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void spin(unsigned long n) { while (n--) sink += n; }
__attribute__((noinline)) void reads(int n) { char c; while (n--) { pread(0, &c, 1, 0); sink++; } }
__attribute__((noinline)) void outer(void) { spin(20000000); reads(20000); sink++; }
int main(void) {
    *(void **)__builtin_frame_address(0) = 0; /* The C library leaves a number in the register. */
    outer();
    spin(10000000);
    _exit(0);
}
";

impl ShellRecording {
    fn new(options: &[&str]) -> Self {
        let line = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; expr 1 + 1; ls / >/dev/null";
        let recorded = Self(tempfile::tempdir().unwrap());
        recorded.record(options, &["sh", "-c", line]);
        recorded
    }

    /// Records call chains without wrong callers, which tare leaves out and perf prints; `None`
    /// without a compiler.
    fn with_frame_pointers() -> Option<Self> {
        let recorded = Self(tempfile::tempdir().unwrap());
        let flags = ["-static", "-O0", "-fno-omit-frame-pointer"];
        let program = compile(recorded.0.path(), WITH_FRAME_POINTERS, "frames", &flags)?;
        recorded.record(&["-e", "cpu-clock", "-g"], &[program.to_str().unwrap()]);
        Some(recorded)
    }

    fn record(&self, options: &[&str], command: &[&str]) {
        let mut tare = tare();
        tare.args(["record", "-F", "4000", "--sample-cpu", "-o"]).arg(self.file());
        let output = tare.args(options).arg("--").args(command).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("perf.data")
    }

    /// Compares the rows of both tools without spaces before separators, sorted, because rows of
    /// equal weight have no fixed order.
    fn compare(&self, options: &[&str]) {
        self.compare_some(options, |_| true);
    }

    /// Compares the call chains of `main`: those of the program's start may have wrong callers,
    /// which tare leaves out.
    fn compare_chains(&self, options: &[&str]) {
        self.compare_some(options, |row| !row.contains(';') || row.contains("main"));
    }

    fn compare_some(&self, options: &[&str], is_compared: fn(&String) -> bool) {
        let rows = |program: &mut Command| {
            let mut rows = self.rows(program, options);
            rows.retain(is_compared);
            rows
        };
        let ours = rows(&mut tare());
        let theirs = rows(&mut Command::new("perf"));
        if theirs.is_empty() {
            return println!("skipped: perf report {options:?} prints nothing");
        }
        assert_eq!(ours, theirs, "{options:?}");
    }

    fn rows(&self, program: &mut Command, options: &[&str]) -> Vec<String> {
        let text = report(program, &self.file(), options);
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        // The C library uses the frame pointer for numbers when it starts a program. perf prints 0.
        let words = |line: &str| words(line).replace(";0", "").replace(" 0;", " ");
        // tare prints the file address of an unnamed function, perf the memory address.
        let lines = lines.filter(|line| !line.contains("0x"));
        let mut rows: Vec<_> =
            lines.map(words).map(|row| row.replace(" ;", ";").replace(" ,", ",")).collect();
        rows.sort();
        rows
    }
}

fn report(program: &mut Command, file: &Path, options: &[&str]) -> String {
    let usual = ["report", "--stdio", "-i"];
    let Ok(output) = program.args(usual).arg(file).args(options).stdin(Stdio::null()).output()
    else {
        return String::new();
    };
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn rows_are_laid_out_as_perf_lays_them_out() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    let flat = ["--no-children", "-g", "none"];
    for options in [
        &["-t", ";", "-s", "comm,dso"][..],
        &["-w", "0,3,7", "-s", "comm,dso"],
        &["-H", "-s", "comm,dso", "-n"],
        &["-H", "-s", "comm,dso,sym", "--percent-limit", "5"],
        &["--percentage", "relative", "-c", "sh", "-s", "comm,dso"],
        &["--percentage", "absolute", "-c", "sh", "-s", "comm,dso"],
        &["-p", "sys_", "-s", "comm,parent"],
        &["-p", "sys_", "-x", "-s", "comm,parent"],
        &["-s", "comm,socket"],
        &["-s", "time"],
        &["-s", "time,comm", "--time-quantum", "1ms", "--ns"],
        &["-s", "cgroup,comm"],
        &["-s", "cgroup_id,comm"],
        &["-s", "weight,local_weight,comm"],
        &["-s", "comm,transaction"],
        &["-s", "code_page_size"],
        &["--show-cpu-utilization", "-s", "comm"],
        &["-F", "overhead_us,overhead_sys,comm"],
    ] {
        recorded.compare(&[&flat, options].concat());
    }
    recorded.compare(&["--tasks"]);
    let Some(recorded) = ShellRecording::with_frame_pointers() else { return };
    let chains = ["--no-children", "-s", "comm", "-g"];
    for options in [
        &["folded,count,callee,0"][..],
        &["folded,period,caller,0"],
        &["folded,0,caller", "--max-stack", "4"],
        &["folded,0,callee", "--max-stack", "4"],
    ] {
        recorded.compare_chains(&[&chains, options].concat());
    }
}

/// A function whose callees are ignored gets their samples. (perf does so only with call graphs.)
#[test]
fn ignored_callees_are_their_callers() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    let share = |options: &[&str]| {
        let options = [&["-g", "none", "-s", "sym"], options].concat();
        let text = report(&mut tare(), &recorded.file(), &options);
        let row = text.lines().find(|line| line.ends_with(" do_syscall_64"));
        row.and_then(|row| row.split_whitespace().next()).map(str::to_owned)
    };
    let Some(total) = share(&["--children"]) else {
        return println!("skipped: no sample of a system call with a name");
    };
    assert_eq!(share(&["--no-children", "--ignore-callees", "do_syscall_64"]), Some(total));
}

/// A value that all rows share is printed above them, unless the rows would be empty without it.
#[test]
fn a_row_has_a_key_also_where_a_filter_leaves_one_value() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    recorded.compare(&["--no-children", "-g", "none", "-s", "comm", "-c", "sh"]);
    let rows =
        recorded.rows(&mut tare(), &["--no-children", "-g", "none", "-s", "comm", "-c", "sh"]);
    assert!(rows.iter().any(|row| row.ends_with(" sh")), "{rows:?}");
}

/// Both styles print the same chains with the same weights, in the same order.
#[test]
fn a_flat_graph_has_the_chains_of_a_folded_one() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    let shown = |style: &str| {
        let options = ["-q", "--no-children", "-s", "comm", "-c", "sh", "-g", style];
        report(&mut tare(), &recorded.file(), &options)
    };
    let folded: Vec<String> = shown("folded,0,count").lines().skip(1).map(str::to_owned).collect();
    let flat = shown("flat,0,count");
    let chains = flat.split("\n\n").map(|chain| {
        let mut words = chain.lines().map(str::trim).filter(|line| !line.is_empty());
        let weight = words.by_ref().find(|line| !line.contains('%')).unwrap_or_default();
        format!("{weight} {}", words.collect::<Vec<_>>().join(";"))
    });
    let chains: Vec<_> = chains.filter(|chain| chain.len() > 1).collect();
    let folded: Vec<_> = folded.into_iter().filter(|line| !line.is_empty()).collect();
    assert!(folded.len() > 5, "{folded:?}");
    assert_eq!(chains, folded);
}

#[test]
fn events_of_a_group_stand_side_by_side() {
    let recorded = ShellRecording::new(&["-e", "{cpu-clock,page-faults}"]);
    for options in [&["-s", "comm"][..], &["-s", "comm,dso", "-n"], &["-s", "comm", "-t", ","]] {
        recorded.compare(&[&["--group", "--no-children", "-g", "none"], options].concat());
    }
    let by_second = report(
        &mut tare(),
        &recorded.file(),
        &["--group", "--group-sort-idx", "1", "--no-children", "-g", "none"],
    );
    let share = |line: &str| -> Option<f64> {
        line.split_whitespace().nth(1)?.strip_suffix('%')?.parse().ok()
    };
    let rows = by_second.lines().filter(|line| !line.starts_with('#'));
    let shares: Vec<f64> = rows.filter_map(share).collect();
    assert!(shares.len() > 3 && shares.is_sorted_by(|left, right| left >= right), "{by_second}");
}

/// In a graph with shares relative to the parent branch, the first branches of a row add up to
/// 100%.
#[test]
fn a_fractal_graph_is_relative_to_the_branch_above() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    let options = ["--no-children", "-s", "comm", "-c", "sh", "-g", "fractal,callee,0"];
    let text = report(&mut tare(), &recorded.file(), &options);
    // First-level branches are indented by twelve spaces.
    let share = |line: &str| -> Option<f64> {
        let branch = line.strip_prefix("            ")?.trim_start_matches(['|', ' ']);
        let level = line.len() - line.trim_start_matches([' ', '|']).len();
        let share = branch.strip_prefix("--")?.split('%').next()?;
        (level < 15).then(|| share.parse().ok())?
    };
    let sum: f64 = text.lines().filter_map(share).sum();
    assert!((99.0..101.0).contains(&sum), "{sum}: {text}");
}

#[test]
fn a_dump_has_each_byte_of_each_record() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock", "-g"]);
    let lines = |program: &mut Command, command: &str| -> Vec<String> {
        let output = program.args([command, "-D", "-i"]).arg(recorded.file()).stdin(Stdio::null());
        let Ok(output) = output.output() else { return Vec::new() };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_dumped = |line: &&str| line.starts_with(".  ") || line.starts_with(". ...");
        let mut lines: Vec<_> = text.lines().filter(is_dumped).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let ours = lines(&mut tare(), "report");
    assert!(ours.len() > 100, "{}", ours.len());
    assert_eq!(ours, lines(&mut tare(), "script"));
    let theirs = lines(&mut Command::new("perf"), "script");
    if theirs.is_empty() {
        return println!("skipped: perf script -D prints nothing");
    }
    assert_eq!(ours, theirs);
}

#[test]
fn samples_of_script_are_chosen_by_file_function_and_address() {
    let recorded = ShellRecording::new(&["-e", "cpu-clock"]);
    let lines = |program: &mut Command, options: &[&str]| -> Option<Vec<String>> {
        let output = program.args(["script", "-G", "-F", "comm,tid,time,ip,sym", "-i"]);
        let output =
            output.arg(recorded.file()).args(options).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().map(|line| line.trim().to_owned()).collect())
    };
    let all = lines(&mut tare(), &[]).unwrap();
    let mut symbols = all.iter().filter_map(|line| line.split_whitespace().nth(4));
    let symbol = symbols.find(|name| !name.starts_with('[')).unwrap().to_owned();
    let of_dso = lines(&mut tare(), &["--dsos", "[kernel.kallsyms]"]).unwrap();
    assert!(!of_dso.is_empty() && of_dso.len() < all.len());
    for options in [&["--dsos", "[kernel.kallsyms]"][..], &["-S", &symbol]] {
        let ours = lines(&mut tare(), options).unwrap();
        assert!(!ours.is_empty(), "{options:?}");
        match lines(&mut Command::new("perf"), options) {
            Some(theirs) => assert_eq!(ours, theirs, "{options:?}"),
            None => println!("skipped: perf is not installed"),
        }
    }
    let ip = all[0].split_whitespace().nth(3).unwrap();
    let at = lines(&mut tare(), &["-S", &format!("0x{ip}"), "--addr-range", "16"]).unwrap();
    assert!(at.contains(&all[0]), "{at:?}");
    // The range ends before the address.
    let address = u64::from_str_radix(ip, 16).unwrap();
    let before = format!("0x{:x}", address - 16);
    let below = lines(&mut tare(), &["-S", &before, "--addr-range", "16"]).unwrap_or_default();
    assert!(!below.contains(&all[0]), "{below:?}");
}

#[test]
fn a_pattern_or_a_layout_that_makes_no_sense_is_refused() {
    for options in [
        &["-p", "("][..],
        &["-t", ""],
        &["--hierarchy", "--json"],
        &["--time-quantum", "10"],
        &["-g", "address"],
        &["-s", "type"],
    ] {
        let output = tare().arg("report").args(options).output().unwrap();
        assert_eq!(status(&output), 2, "{options:?}: {}", stderr(&output));
    }
}

/// Each name works: its column is in the header; or the message names what the samples lack.
#[test]
fn every_column_and_sort_key_works_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let plain = file("plain");
    let all = file("all");
    let with_all =
        "-c 1 -d -W --phys-data --data-page-size --code-page-size --transaction -T -P --latency";
    for (path, options) in [(&plain, "-c 1"), (&all, with_all)] {
        let mut record = tare();
        record.args(["record", "-q", "-e", "page-faults:u", "-o", path]);
        record.args(options.split_whitespace()).args(["sh", "-c", "true"]);
        let recorded = record.output().unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
    }
    let mut refused = 0;
    for info in tare_render::COLUMNS {
        for name in info.names {
            for (path, is_plain) in [(&plain, true), (&all, false)] {
                for words in [
                    ["-s".to_owned(), (*name).to_owned()],
                    ["-F".to_owned(), format!("overhead,{name}")],
                ] {
                    let mut report = tare();
                    report.args(["report", "--stdio", "--no-children", "-g", "none", "-i", path]);
                    let output = report.args(&words).output().unwrap();
                    let said = stderr(&output);
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    if output.status.success() {
                        let has_title = text
                            .lines()
                            .any(|line| line.starts_with('#') && line.contains(info.title));
                        let title = info.title;
                        let is_own = ["overhead", "overhead_children"].contains(name);
                        assert!(has_title || is_own, "{words:?}: no '{title}': {text}");
                        continue;
                    }
                    refused += 1;
                    // Software events have no branches.
                    let is_branch = said.contains("have no branches");
                    assert!(is_plain || is_branch, "{words:?}: {said}");
                    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
                    assert!(said.contains("tare record -"), "{words:?}: {said}");
                }
            }
        }
    }
    assert!(refused > 40, "{refused}");
}
