//! Screens of the interactive report for a synthetic recording.

use std::path::Path;

use crate::made::SampleStream;
use crate::tmux::{Terminal, tare as binary};

const GOLDEN: &str = include_str!("../golden/tui.txt");

/// Two threads that serve requests; one of them parses more. Some records were lost.
fn made(folder: &Path) {
    const MAIN: u64 = 1;
    const SERVE: u64 = 2;
    const PARSE: u64 = 3;
    const ALLOCATE: u64 = 4;
    const COPY: u64 = 5;
    let mut made = SampleStream::new(&[10, 11]);
    let names = [(MAIN, "main"), (SERVE, "serve"), (PARSE, "parse_request")];
    for (function, name) in names.into_iter().chain([(ALLOCATE, "allocate"), (COPY, "copy_bytes")])
    {
        made.name(function, name);
    }
    let chains: [&[u64]; 8] = [
        &[PARSE, SERVE, MAIN],
        &[PARSE, SERVE, MAIN],
        &[ALLOCATE, PARSE, SERVE, MAIN],
        &[ALLOCATE, PARSE, SERVE, MAIN],
        &[PARSE, SERVE, MAIN],
        &[COPY, SERVE, MAIN],
        &[COPY, ALLOCATE, PARSE, SERVE, MAIN],
        &[SERVE, MAIN],
    ];
    for number in 0..800_u64 {
        let tid = if number < 200 || number % 4 == 0 { 10 } else { 11 };
        let chain = chains[usize::try_from(number % 8).unwrap()];
        made.sample(tid, 5_000_000_000 + number * 1_000_000, chain);
    }
    made.lost(25, 5_800_000_000);
    made.write(folder, "made.data");
}

#[test]
fn screens_are_as_they_were_looked_at() {
    let Some(terminal) = Terminal::new(80, 16) else { return };
    made(terminal.folder());
    terminal.run(&format!("cd {}", terminal.folder().display()));
    terminal.run(&format!("{} report -i made.data --symfs .", binary().display()));
    terminal.wait_loaded();
    let mut shown = String::new();
    let is_written = std::env::var_os("TARE_WRITE_GOLDEN").is_some();
    let mut show = |title: &str| {
        let text = |screen: &str| {
            let lines = screen.lines().map(|line| line.trim_end().to_owned() + "\n");
            format!("== {title}\n{}", lines.collect::<String>())
        };
        if is_written {
            std::thread::sleep(std::time::Duration::from_secs(1));
            shown += &text(&terminal.screen());
        } else {
            // The capture may happen while the screen is being drawn.
            let what = format!("{title}: after reviewing the change: TARE_WRITE_GOLDEN=1");
            terminal.wait(&what, |screen| GOLDEN.contains(&text(screen)));
        }
    };
    terminal.press(&["E"]);
    show("functions, all call chains open");
    terminal.press(&["C-f"]);
    terminal.type_in("allocate");
    terminal.press(&["Enter", "2"]);
    show("who calls a function, and what it calls");
    // Typed ahead: the second key applies to the result of the first.
    terminal.press(&["4", "Down", "Down"]);
    show("flame graph");
    terminal.press(&["5", "b"]);
    show("time by thread");
    terminal.resize(40, 12);
    terminal.press(&["1", "C"]);
    show("functions on a narrow screen");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tui.txt");
    if is_written {
        std::fs::write(path, &shown).unwrap();
    }
}
