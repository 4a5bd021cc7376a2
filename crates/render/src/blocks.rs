//! Blocks of code by their cycles, in the layout of `perf report --total-cycles --stdio`.

use std::io::{self, Write};

use tare_format::printable;
use tare_profile::{Block, Blocks, Profile, SourceLine};

use crate::losses::loss_lines;
use crate::plural::rounded;

/// Titles and widths in cells.
const COLUMNS: [(&str, usize); 6] = [
    ("Sampled Cycles%", 15),
    ("Sampled Cycles", 14),
    ("Avg Cycles%", 11),
    ("Avg Cycles", 10),
    ("[Program Block Range]", 70),
    ("Shared Object", 20),
];

/// Writes the losses, and for each event the blocks with at least `percent_limit` percent of all
/// cycles.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn blocks(
    out: &mut dyn Write,
    profile: &Profile,
    found: &[Blocks],
    percent_limit: f64,
) -> io::Result<()> {
    let lost = profile.losses.lost_records.saturating_add(profile.losses.lost_samples);
    writeln!(out, "# Total Lost Samples: {lost}")?;
    for line in loss_lines(&profile.losses) {
        writeln!(out, "# {}", printable(line.as_bytes()))?;
    }
    writeln!(out, "#")?;
    for event_blocks in found {
        let name = profile.event(event_blocks.event).map(|event| profile.string(event.name));
        let name = printable(name.unwrap_or_default());
        let rows = profile.rows().filter(|(row, _)| row.event == event_blocks.event);
        let branches = rows.fold(0_u64, |sum, (_, weight)| sum.saturating_add(weight.samples));
        writeln!(out, "# Samples: {} of event '{name}'", rounded(branches))?;
        writeln!(out, "# Event count (approx.): {branches}\n#")?;
        write_section(out, profile, event_blocks, percent_limit)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_section(
    out: &mut dyn Write,
    profile: &Profile,
    Blocks { cycles, blocks, .. }: &Blocks,
    percent_limit: f64,
) -> io::Result<()> {
    let row = |cells: [String; 6]| {
        let cells: Vec<_> =
            COLUMNS.iter().zip(cells).map(|((_, width), cell)| format!("{cell:>width$}")).collect();
        cells.join("  ")
    };
    writeln!(out, "# {}", row(COLUMNS.map(|(title, _)| title.to_owned())))?;
    writeln!(out, "# {}\n#", row(COLUMNS.map(|(_, width)| ".".repeat(width))))?;
    let percent =
        |part: u64, all: u64| if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 };
    let averages = blocks.iter().fold(0_u64, |sum, block| sum.saturating_add(block.average()));
    for block in blocks.iter().filter(|block| percent(block.cycles, *cycles) >= percent_limit) {
        let cells = [
            format!("{:.2}%", percent(block.cycles, *cycles)),
            format_cycles(block.cycles),
            format!("{:.2}%", percent(block.average(), averages)),
            format_cycles(block.average()),
            block_range(profile, block),
            printable(profile.string(block.dso)).into_owned(),
        ];
        writeln!(out, "  {}", row(cells))?;
    }
    Ok(())
}

/// Returns `[drawn.s:12 -> drawn.s:14]`, or `[inner+0 -> inner+4]` if the lines are unknown.
fn block_range(profile: &Profile, block: &Block) -> String {
    let place = |line: Option<SourceLine>, offset: u64| match line {
        Some(line) => {
            let path = profile.string(line.file);
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
            format!("{}:{}", printable(name), line.line)
        }
        None => format!("{}+{offset}", printable(profile.string(block.function))),
    };
    let Block { start, end, start_line, end_line, .. } = *block;
    format!("[{} -> {}]", place(start_line, start), place(end_line, end))
}

/// Formats a number of cycles: `950`, `1.2K`, `3.4M`.
fn format_cycles(cycles: u64) -> String {
    match cycles {
        0..1_000 => cycles.to_string(),
        1_000..1_000_000 => format!("{:.1}K", cycles as f64 / 1e3),
        _ => format!("{:.1}M", cycles as f64 / 1e6),
    }
}
