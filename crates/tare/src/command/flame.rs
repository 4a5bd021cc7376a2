//! `tare flame`: draws a flame graph of a recording, or the difference of two, as a page or a
//! picture.

use std::path::Path;

use tare_render::flame::{
    Collector, FlameInput, Graph, PAGE_BYTES, RecordingInfo, Style, page, svg,
};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::flame::Flame;
use crate::cli::resolved::samples::SampleSelection;
use crate::command::output::write_to;
use crate::command::samples::{NeededParts, Read, replay};
use crate::exit::{Exit, say};

pub(crate) fn run(raw: raw::FlameArgs) -> Outcome {
    let is_named = raw.output.is_some();
    let flame = Flame::resolve(raw)?;
    draw(&flame)?;
    if !is_named {
        say(&format!("wrote {}", flame.output.display()));
    }
    Ok(Exit::Success)
}

/// Reads the recording, or two, and writes the page or the picture.
pub(crate) fn draw(flame: &Flame) -> anyhow::Result<()> {
    let progress = ProgressLine::begin();
    let mut read = vec![collected(&flame.samples, &progress)?];
    if let Some(vs) = &flame.vs {
        let samples = SampleSelection { input: vs.clone(), ..flame.samples.clone() };
        read.push(collected(&samples, &progress)?);
    }
    progress.show_step("drawing");
    let names = [Some(&flame.samples.input), flame.vs.as_ref()].into_iter().flatten();
    let accounts = names.zip(&read).map(|(name, (read, _))| account(name, read));
    let accounts: Vec<RecordingInfo> = accounts.collect();
    let callee = flame.order == tare_profile::Order::Callee;
    let title = flame.title.clone().unwrap_or_else(|| title(&accounts));
    let style = Style { title, icicle: flame.icicle, callee };
    let (reads, samples): (Vec<Read>, Vec<Collector>) = read.into_iter().unzip();
    let recorded = reads.iter().zip(samples);
    let recorded =
        recorded.map(|(read, samples)| vec![FlameInput { whole: read.whole(), samples }]);
    let mut graph = Graph::new(recorded.collect(), flame.order, flame.root);
    if flame.output == Path::new("-") {
        drop(progress);
    }
    write_to(&flame.output, |out| match flame.is_svg {
        true => svg(out, &mut graph, &accounts, &style),
        false => page(out, &mut graph, &accounts, &style, PAGE_BYTES),
    })
}

fn collected(
    samples: &SampleSelection,
    progress: &ProgressLine,
) -> anyhow::Result<(Read, Collector)> {
    let mut collector = Collector::default();
    let read = replay(samples, NeededParts::default(), &mut collector, progress)?;
    Ok((read, collector))
}

fn account(name: &Path, read: &Read) -> RecordingInfo {
    let name =
        if name == Path::new("-") { "standard input".into() } else { name.to_string_lossy() };
    RecordingInfo::new(&name, &read.whole())
}

/// The recording's name and its command, or the names of two.
fn title(accounts: &[RecordingInfo]) -> String {
    match accounts {
        [now, before] => format!("{} against {}", now.name, before.name),
        [one] => match one.session.first() {
            // The recorded command says more than the recorder's options before it.
            Some(command) => {
                let recorded = command.split_once(" -- ").map_or(&command[..], |(_, words)| words);
                format!("{}: {recorded}", one.name)
            }
            None => one.name.clone(),
        },
        _ => String::new(),
    }
}
