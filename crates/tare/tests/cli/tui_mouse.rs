//! The mouse in the interactive report.

use crate::made::SampleStream;
use crate::tmux::{Terminal, tare as binary};

/// Sends a mouse event: 0 clicks the left button, 2 the right one; 32 drags with the left; 64 and
/// 65 turn the wheel up and down.
fn mouse(terminal: &Terminal, button: u32, column: u32, row: u32) {
    terminal.type_in(&format!("\x1b[<{button};{column};{row}M"));
    if button < 3 {
        terminal.type_in(&format!("\x1b[<{button};{column};{row}m"));
    }
}

#[test]
fn lines_titles_views_menus_and_ranges_are_clicked() {
    let Some(terminal) = Terminal::new(100, 20) else { return };
    let mut made = SampleStream::new(&[10]);
    for (number, name) in ["main", "parse", "send"].into_iter().enumerate() {
        made.name(number as u64 + 1, name);
    }
    for number in 0..100 {
        let chain = if number < 70 { [2, 1] } else { [3, 1] };
        made.sample(10, 1_000_000_000 + number * 1_000_000, &chain);
    }
    made.write(terminal.folder(), "made.data");
    let line = format!("{} report -i made.data --symfs .", binary().display());
    terminal.run(&format!("cd {}; {line}", terminal.folder().display()));
    terminal.wait_loaded();
    // The first row is on the fifth line, with the cursor.
    mouse(&terminal, 0, 10, 5);
    terminal.wait_for("- 100.00% main");
    mouse(&terminal, 0, 10, 5);
    terminal.wait_without("- 100.00% main");
    mouse(&terminal, 0, 16, 4);
    terminal.wait_for("sorted by Self");
    // The first row is now parse.
    mouse(&terminal, 0, 10, 5);
    mouse(&terminal, 65, 10, 5);
    mouse(&terminal, 64, 10, 5);
    mouse(&terminal, 2, 10, 5);
    terminal.wait_for("Zoom into file");
    mouse(&terminal, 0, 1, 1);
    terminal.wait_without("Zoom into file");
    // `3 tree` and `5 time` on the last line.
    mouse(&terminal, 0, 26, 20);
    terminal.wait_for("Self    Function");
    mouse(&terminal, 0, 43, 20);
    terminal.wait_for(" s of ");
    mouse(&terminal, 0, 30, 6);
    mouse(&terminal, 32, 60, 6);
    terminal.wait_for("ENTER filters by this range");
    terminal.press(&["Enter"]);
    terminal.wait_for("Filter: time=");
    terminal.press(&["q"]);
    assert_eq!(terminal.assert_sane(), 0);
}
