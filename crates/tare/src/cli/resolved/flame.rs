//! Options of `tare flame`.

use std::path::{Path, PathBuf};

use tare_profile::Order;
use tare_render::flame::FlameRoot;

use crate::cli::raw;
use crate::cli::resolved::samples::SampleSelection;
use crate::exit::Refusal;

/// Drawn samples, form and destination.
#[derive(Debug)]
pub(crate) struct Flame {
    pub(crate) samples: SampleSelection,
    /// The recording to compare with.
    pub(crate) vs: Option<PathBuf>,
    /// `-` is standard output.
    pub(crate) output: PathBuf,
    pub(crate) is_svg: bool,
    pub(crate) order: Order,
    pub(crate) root: FlameRoot,
    pub(crate) icicle: bool,
    pub(crate) title: Option<String>,
}

impl Flame {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a usage message if an option is invalid.
    pub(crate) fn resolve(raw: raw::FlameArgs) -> Result<Self, Refusal> {
        let output = raw.output.unwrap_or_else(|| {
            PathBuf::from(match raw.format {
                Some(raw::FlameFormat::Svg) => "flame.svg",
                Some(raw::FlameFormat::Html) | None => "flame.html",
            })
        });
        let is_svg = match raw.format {
            Some(format) => format == raw::FlameFormat::Svg,
            None => {
                refuse_other_formats(&output)?;
                is_svg(&output)
            }
        };
        let order = match raw.call_graph {
            raw::FlameOrder::Caller => Order::Caller,
            raw::FlameOrder::Callee => Order::Callee,
        };
        let root = match raw.root {
            raw::FlameRoot::Comm => FlameRoot::Comm,
            raw::FlameRoot::Process => FlameRoot::Process,
            raw::FlameRoot::Thread => FlameRoot::Thread,
        };
        let samples = SampleSelection::resolve(raw.samples)?;
        if samples.input == Path::new("-") && raw.vs.as_deref() == Some(Path::new("-")) {
            return Err(Refusal::usage("--vs -: standard input can be one recording only"));
        }
        let vs = raw.vs;
        let icicle = raw.icicle;
        let title = raw.title;
        Ok(Self { samples, vs, output, is_svg, order, root, icicle, title })
    }

    /// Returns the options to draw a recording that was just made; all but the files are defaults.
    pub(crate) fn of_recording(input: PathBuf, output: PathBuf) -> Self {
        let is_svg = is_svg(&output);
        let order = Order::Caller;
        let icicle = false;
        let samples = SampleSelection::all_of(input);
        let root = FlameRoot::Comm;
        Self { samples, vs: None, output, is_svg, order, root, icicle, title: None }
    }
}

/// Refuses names with the ending of some other formats, such as `.png`.
fn refuse_other_formats(output: &Path) -> Result<(), Refusal> {
    const OTHERS: [&str; 8] = ["pdf", "png", "jpg", "jpeg", "gif", "webp", "txt", "json"];
    let ending = output.extension().unwrap_or_default().to_ascii_lowercase();
    if OTHERS.iter().all(|other| ending != *other) {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "-o {}: tare flame writes HTML and SVG: end the name in .html or .svg, or give --format",
        output.display()
    )))
}

/// Whether a file of this name is an SVG.
pub(crate) fn is_svg(output: &Path) -> bool {
    output.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("svg"))
}
