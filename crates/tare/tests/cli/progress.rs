//! The progress line on stderr's terminal.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::made::SampleStream;
use crate::support::sh;
use crate::tmux::{Terminal, tare};

/// A stream that stays open, so that the command reading it can't finish.
fn begun(folder: &Path) -> File {
    let mut made = SampleStream::new(&[10]);
    (0..100).for_each(|at| made.sample(10, 1_000_000_000 + at * 1_000_000, &[2, 1]));
    made.name(1, "outer");
    made.name(2, "inner");
    let bytes = std::fs::read(made.write(folder, "made.data")).unwrap();
    // Open for reading too, so that opening doesn't block.
    let mut stream = File::options().read(true).write(true).open(folder.join("fifo")).unwrap();
    stream.write_all(&bytes).unwrap();
    stream
}

fn terminal() -> Option<Terminal> {
    let terminal = Terminal::new(80, 10)?;
    let folder = terminal.folder().display();
    assert!(sh(&format!("mkfifo {folder}/fifo")).status.success());
    terminal.run(&format!("cd {folder}; clear"));
    Some(terminal)
}

#[test]
fn what_takes_longer_than_a_second_is_shown_and_leaves_nothing() {
    let Some(terminal) = terminal() else { return };
    for command in ["report --stdio", "script", "annotate", "flame -o -", "export -f folded"] {
        let stream = begun(terminal.folder());
        let tare = tare();
        let line = format!("NO_COLOR=1 {} {command} --symfs . -i fifo >out", tare.display());
        terminal.run(&line);
        let screen = terminal.wait_for("B of fifo");
        assert!(screen.lines().any(|line| line.starts_with("tare: ")), "{screen}");
        assert!(!terminal.colored().contains(&0x1b), "no colours");
        drop(stream);
        terminal.wait_for_shell();
        terminal.wait_without("B of fifo");
        let out = std::fs::read_to_string(terminal.folder().join("out")).unwrap();
        assert!(out.contains("inner"), "{command}: {out}");
        terminal.run("clear");
    }
}

#[test]
fn where_nobody_could_see_it_or_it_would_be_in_the_way_there_is_none() {
    let Some(terminal) = terminal() else { return };
    for (before, after) in [
        ("", "report --stdio -i fifo >out 2>err"),
        ("TERM=dumb", "report --stdio -i fifo >out"),
        // `script` prints while it reads.
        ("", "script -i fifo"),
        ("", "script -i fifo | cat >out"),
    ] {
        let stream = begun(terminal.folder());
        terminal.run(&format!("clear; {before} {} {after}", tare().display()));
        while rustix::io::ioctl_fionread(&stream).unwrap() > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Longer than the delay before the line appears.
        std::thread::sleep(Duration::from_millis(1800));
        let screen = terminal.screen();
        assert!(!screen.contains("B of fifo"), "{before} {after}: {screen}");
        drop(stream);
        terminal.wait_for_shell();
    }
    let said = std::fs::read_to_string(terminal.folder().join("err")).unwrap();
    assert_eq!(said, "");
}
