//! Compares tare's output for synthetic recordings with perf's.

use crate::drawn::{
    ADDR, BRANCHES, DATA, DATA_SRC, DrawnEvent, DrawnSample, INNER, NAMELESS, OUTER, PHYS_ADDR,
    SyntheticProgram, WEIGHT_STRUCT,
};
use crate::tmux::{Terminal, tare as binary};

/// A branch from a kernel address that has no symbol.
const FROM_KERNEL: (u64, u64, u64) = (0xffff_ffff_8100_0040, OUTER, 0);

/// Flags of branches.
const MISSED: u64 = 1;
const PREDICTED: u64 = 2;

fn cycles(count: u64) -> u64 {
    count << 4
}

/// Samples with branch stacks of calls, jumps and returns. `oldest` is the last branch of the first
/// sample.
fn branches(oldest: (u64, u64, u64)) -> Option<SyntheticProgram> {
    let event = DrawnEvent { name: "cycles", kind: (0, 0), more: BRANCHES };
    let call = (OUTER + 4, INNER, PREDICTED | cycles(3));
    let jump = (INNER + 4, INNER + 8, MISSED | cycles(12));
    let ret = (INNER + 8, OUTER + 9, PREDICTED);
    let sample = |ip: u64, branches: &[(u64, u64, u64)]| DrawnSample {
        ip,
        branches: branches.to_vec(),
        period: 10,
        ..DrawnSample::default()
    };
    let samples = [
        sample(INNER + 8, &[jump, call, oldest]),
        sample(OUTER + 10, &[ret, jump, call]),
        sample(INNER + 6, &[call, (INNER + 8, OUTER, 8 | cycles(2))]),
        sample(NAMELESS, &[(OUTER + 10, NAMELESS, PREDICTED), ret, (INNER + 4, INNER + 8, 4)]),
        sample(OUTER, &[]),
    ];
    SyntheticProgram::new(&[event], &samples)
}

/// 14 memory accesses, with six data sources and four addresses.
fn memory() -> Option<SyntheticProgram> {
    let more = ADDR | WEIGHT_STRUCT | DATA_SRC | PHYS_ADDR;
    let event = DrawnEvent { name: "loads", kind: (4, 0x1cd), more };
    let sources = [
        0x6810_0142, // a load that hits the first cache
        0x0000_0001_1a08_0044,
        0x0000_00aa_2b10_0822,
        0x0000_2025_0804_1008,
        0x0000_0200_1200_2002,
        0x0000_0410_0500_0001,
    ];
    let addresses = [DATA + 8, DATA + 128, 0xffff_ffff_8100_0040, 0x7000];
    let sample = |((at, source), addr): ((u64, &u64), &u64)| DrawnSample {
        ip: if at % 2 == 0 { OUTER + 1 } else { INNER + 2 },
        addr: *addr,
        weight: (at * 7) | (at << 32) | ((at * 3) << 48),
        data_src: *source,
        phys_addr: 0x1_0000 + at * 8,
        period: 10 + at * at,
        ..DrawnSample::default()
    };
    let samples: Vec<_> = (0..)
        .zip(sources.iter().cycle().take(14))
        .zip(addresses.iter().cycle())
        .map(sample)
        .collect();
    SyntheticProgram::new(&[event], &samples)
}

/// The lines of a report, without empty lines, comments and trailing spaces.
fn rows(lines: &[String]) -> Vec<String> {
    let rows = lines.iter().map(|line| line.trim_end().to_owned());
    rows.filter(|line| !line.is_empty() && !line.starts_with("# ") && line != "#").collect()
}

#[test]
fn fields_of_branch_stacks_are_those_of_perf() {
    let Some(drawn) = branches(FROM_KERNEL) else { return };
    for fields in [
        "ip,sym,brstack",
        "ip,sym,dso,brstack",
        "+brstacksym",
        "ip,sym,brstacksym",
        "ip,sym,brstackoff",
        "comm,ip,brstackinsn",
        "+brstackinsn",
        "ip,sym,brstackinsnlen",
        "ip,srcline,brstackinsn",
        "ip,srccode,brstackinsn",
        "+srccode",
        "+flags",
        "ip,insn,insnlen",
        "+synth,+callindent,+ipc",
    ] {
        let words = ["script", "-F", fields];
        assert_eq!(drawn.tare(&words), drawn.perf(&words), "-F {fields}");
    }
    for most in ["0", "1", "2"] {
        let words = ["script", "-F", "ip,brstackinsn", "--max-blocks", most];
        assert_eq!(drawn.tare(&words), drawn.perf(&words), "--max-blocks {most}");
    }
    let text = drawn.tare(&["script", "-F", "ip,brstackdisasm"]).join("\n");
    assert!(text.contains("\t0000000000401001\tmov    %rsp,%rbp\n"), "{text}");
    assert!(text.contains("\t0000000000401014\tje     0x401018               \t# MIS"), "{text}");
}

#[test]
fn fields_of_memory_accesses_are_those_of_perf() {
    let Some(drawn) = memory() else { return };
    for fields in ["+pid", "ip,addr,data_src", "ip,weight,ins_lat", "+phys_addr,+data_src"] {
        let words = ["script", "-F", fields];
        assert_eq!(drawn.tare(&words), drawn.perf(&words), "-F {fields}");
    }
}

#[test]
fn parts_of_the_time_are_those_of_perf() {
    let Some(drawn) = memory() else { return };
    for time in [
        "1.002,1.004",
        "1.002,1.004 1.006,1.0075 1.010,",
        "10%/2",
        "10%/1,10%/2",
        "10%/2,10%/1",
        "0%-10%,30%-40%",
        "0%-10%",
        "50%",
        "33.3%/2",
    ] {
        let words = ["script", "-F", "time,ip", "--time", time];
        let ours = drawn.tare(&words);
        let theirs = drawn.perf(&words);
        assert_eq!(ours, theirs, "--time {time}");
        assert!(!ours.is_empty() && ours.len() < 14, "{ours:?}");
        let words = ["report", "--stdio", "-s", "sym", "-F", "sample,sym", "--time", time];
        assert_eq!(rows(&drawn.tare(&words)), rows(&drawn.perf(&words)), "--time {time}");
    }
    let words = ["script", "-F", "time", "--reltime", "--time", "0.002,0.004"];
    assert_eq!(drawn.tare(&words), drawn.perf(&words), "--reltime");
}

#[test]
fn each_event_has_a_file_that_is_perfs() {
    let event = |name, number| DrawnEvent { name, kind: (0, number), more: 0 };
    let events = [event("cycles", 0), event("instructions", 1), event("never/", 2)];
    let sample = |at: usize| DrawnSample { event: at % 2, ip: OUTER, ..DrawnSample::default() };
    let samples: Vec<_> = (0..9).map(sample).collect();
    let Some(drawn) = SyntheticProgram::new(&events[..2], &samples) else { return };
    let read = || {
        ["cycles", "instructions"].map(|event| {
            let file = drawn.folder.path().join(format!("perf.data.{event}.dump"));
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            text
        })
    };
    for more in ["--ns", "--deltatime"] {
        let words = ["script", "--per-event-dump", more];
        // perf prints a file's size before it has written all of it.
        let said = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| line.split(" MB ").nth(1).unwrap().to_owned()).collect()
        };
        let they_said = said(drawn.perf(&words));
        let theirs = read();
        assert_eq!(said(drawn.tare(&words)), they_said);
        assert_eq!(read(), theirs);
        assert_eq!(theirs[0].lines().count(), 5, "{theirs:?}");
    }
    let Some(drawn) = SyntheticProgram::new(&events, &[sample(0)]) else { return };
    drawn.tare(&["script", "--per-event-dump"]);
    assert!(drawn.folder.path().join("perf.data.never_.dump").is_file());
}

#[test]
fn sources_that_were_moved_are_found() {
    let Some(drawn) = branches(FROM_KERNEL) else { return };
    let folder = drawn.folder.path();
    std::fs::create_dir(folder.join("moved")).unwrap();
    std::fs::rename(folder.join("drawn.s"), folder.join("moved/drawn.s")).unwrap();
    let strip = folder.components().skip(1).count().to_string();
    let annotated = |words: &[&str]| -> String {
        drawn.tare(&[&["annotate", "inner"][..], words].concat()).join("\n")
    };
    let has_source = |text: &str| text.contains(": 13    test %edi,%edi");
    assert!(!has_source(&annotated(&[])));
    let text = annotated(&["--prefix", "moved", "--prefix-strip", &strip]);
    assert!(has_source(&text), "{text}");
    let text = drawn.tare(&["script", "-F", "ip,srccode"]).join("\n");
    assert!(!text.contains("ret"), "{text}");
}

fn held(drawn: &SyntheticProgram, option: &str, lists: &[&str], mode: &[&str]) {
    for columns in lists {
        let words = [&["report", "--stdio", option, columns][..], mode].concat();
        let mut ours = rows(&drawn.tare(&words));
        let mut theirs = rows(&drawn.perf(&words));
        // perf orders rows of equal weight in its own way.
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{option} {columns}");
        assert!(!ours.is_empty());
    }
}

// For keys with "symbol" in their name, perf adds a column and crashes on branches; with `-F` it
// doesn't.
#[test]
fn keys_of_branches_are_those_of_perf() {
    let Some(drawn) = branches(FROM_KERNEL) else { return };
    held(&drawn, "-s", &["dso_from,dso_to", "in_tx", "abort", "cycles"], &["-b"]);
    let Some(drawn) = branches((INNER, INNER + 2, 0)) else { return };
    held(&drawn, "-s", &["addr_from,addr_to", "comm,dso_from"], &["-b"]);
    let columns = ["overhead,symbol_from,symbol_to", "overhead,comm,symbol_to,cycles,dso_to"];
    held(&drawn, "-F", &columns, &["-b"]);
}

#[test]
fn branches_are_rows_where_they_were_recorded_as_in_perf() {
    let Some(drawn) = branches((INNER, INNER + 2, 0)) else { return };
    let asked: [&[&str]; 5] = [
        &[],
        &["-s", "comm,dso_from"],
        &["-F", "overhead,symbol_from,symbol_to"],
        &["-b", "--no-branch-stack", "-s", "comm,sym"],
        &["--no-branch-stack", "-s", "sym"],
    ];
    let all = asked.map(|words| {
        let words = [&["report", "--stdio"], words].concat();
        let mut ours = rows(&drawn.tare(&words));
        let mut theirs = rows(&drawn.perf(&words));
        // perf orders rows of equal weight in its own way.
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{words:?}");
        ours.join("\n")
    });
    assert!(all[0].contains("[.] inner+") || all[0].contains("[.] inner  "), "{all:#?}");
    assert_ne!(all[3], all[0]);
}

#[test]
fn branches_are_rows_on_a_terminal_too() {
    let Some(drawn) = loops() else { return };
    let Some(terminal) = Terminal::new(140, 20) else { return };
    let open = |options: &str| {
        let tare = binary();
        let file = drawn.file();
        terminal.run(&format!("{} report -i {} {options}", tare.display(), file.display()));
        terminal.wait_loaded()
    };
    let screen = open("");
    assert!(screen.contains("Source Symbol") && screen.contains("[.] _start"), "{screen}");
    // The filter applies to the branches' targets.
    terminal.press(&["/"]);
    terminal.type_in("_start");
    terminal.press(&["Enter"]);
    terminal
        .wait("one function's", |screen| !screen.contains("44.44%") && screen.contains("22.22%"));
    terminal.press(&["R", "4"]);
    terminal.wait_for("no call chains");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
    let screen = open("--no-branch-stack");
    assert!(screen.contains("Shared Object") && !screen.contains("Source Symbol"), "{screen}");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}

/// Loops in two functions. All branches within a function take the same number of cycles.
fn loops() -> Option<SyntheticProgram> {
    let event = DrawnEvent { name: "cycles", kind: (0, 0), more: BRANCHES };
    let in_outer = (OUTER + 4, OUTER + 1, PREDICTED | cycles(700));
    let to_first = (INNER + 4, INNER, PREDICTED | cycles(90));
    let to_second = (INNER + 8, INNER + 2, PREDICTED | cycles(90));
    let sample = |branches: &[(u64, u64, u64)]| DrawnSample {
        ip: INNER,
        branches: branches.to_vec(),
        period: 10,
        ..DrawnSample::default()
    };
    let samples = [
        sample(&[to_first, to_second, to_first, to_second]),
        sample(&[in_outer, in_outer]),
        sample(&[to_second, to_first, to_first]),
    ];
    SyntheticProgram::new(&[event], &samples)
}

// perf 6.1 crashes here (use after free), so the expected layout comes from its sources.
#[test]
fn blocks_between_branches_have_their_cycles() {
    let Some(drawn) = loops() else { return };
    let blocks = |words: &[&str]| -> Vec<String> {
        let words = [&["report", "--stdio", "--total-cycles"], words].concat();
        let lines = rows(&drawn.tare(&words)).into_iter().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let all = [
        "68.97% 1.4K 79.55% 700 [drawn.s:5 -> drawn.s:6] drawn",
        "17.73% 360 10.23% 90 [drawn.s:12 -> drawn.s:14] drawn",
        "13.30% 270 10.23% 90 [drawn.s:12 -> drawn.s:17] drawn",
    ];
    assert_eq!(blocks(&[]), all);
    assert_eq!(blocks(&["--percent-limit", "17"]), all[..2]);
    // With `--no-branch-stack`, rows aren't blocks.
    assert!(!blocks(&["--no-branch-stack"])[0].contains("->"));
    let Some(drawn) = memory() else { return };
    let text = drawn.tare(&["report", "--stdio", "--total-cycles"]).join("\n");
    assert!(text.contains("[.] inner"), "{text}");
}

#[test]
fn keys_of_memory_accesses_are_those_of_perf() {
    let Some(drawn) = memory() else { return };
    let keys = [
        "mem",
        "tlb",
        "blocked",
        "local_weight",
        "weight",
        "dso_daddr",
        "ins_lat",
        "local_ins_lat",
        "phys_daddr",
        "weight,sym",
        "tlb,sym",
        "mem,sym",
        "local_ins_lat,sym",
        "blocked,sym",
    ];
    held(&drawn, "-s", &keys, &["--mem-mode"]);
    let keys = ["local_weight", "weight", "addr", "local_ins_lat", "ins_lat", "dso_size,comm"];
    held(&drawn, "-s", &keys, &[]);
    held(&drawn, "-F", &["overhead,symbol_iaddr", "overhead,symbol_size"], &["--mem-mode"]);
    // perf marks data with the letter for code, and names cache lines by looking up file offsets as
    // addresses. Only the shares are compared, and with `symbol_daddr` also the rows of named data.
    let shares = |words: &[&str], lines: &[String]| -> Vec<String> {
        let rows = lines.iter().filter_map(|line| line.split_whitespace().next());
        let rows: Vec<_> = rows.map(str::to_owned).collect();
        assert!(rows.len() == 4, "{words:?}: {lines:?}");
        rows
    };
    for columns in ["overhead,symbol_daddr,dso_daddr", "overhead,dcacheline"] {
        let words = ["report", "--stdio", "--mem-mode", "-F", columns];
        let ours = rows(&drawn.tare(&words));
        let theirs = rows(&drawn.perf(&words));
        assert_eq!(shares(&words, &ours), shares(&words, &theirs));
        let named = |line: &&String| line.contains("names+") || line.contains("counts+");
        assert_eq!(ours.iter().filter(named).count(), 2, "{ours:?}");
        if columns.contains("daddr") {
            let of = |rows: &[String]| rows.iter().filter(named).cloned().collect::<Vec<_>>();
            let words = |rows: &[String]| {
                of(rows).join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
            };
            assert_eq!(words(&ours), words(&theirs));
        }
    }
}
