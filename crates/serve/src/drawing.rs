//! Flame graphs and downloads.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tare_profile::{Order, SliceRow};
use tare_render::export::FormatInfo;
use tare_render::flame::{
    Collector, FlameInput, FlameRoot, Graph, PAGE_BYTES, RecordingInfo, Style, page,
};

use crate::error::ServeError;
use crate::job::Job;
use crate::response::HttpResponse;
use crate::source::{FlameSide, ProfileSource};
use crate::view::SampleView;

/// The media type of flame graphs.
const HTML: &str = "text/html; charset=utf-8";

/// Draws a flame graph for the page's frame.
pub(crate) fn framed_flame(
    source: &dyn ProfileSource,
    view: &SampleView,
    job: &Job,
) -> Result<HttpResponse, ServeError> {
    let text = flame(source, view, job)?;
    // The nonce is at the start, before any name of the profile.
    let nonce = text.split_once("script-src 'nonce-").and_then(|(_, rest)| rest.split_once('\''));
    let nonce = nonce.map_or("", |(nonce, _)| nonce);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    );
    Ok(HttpResponse::new(HTML, text.into_bytes()).with_policy(&policy))
}

/// Draws a flame graph to keep.
pub(crate) fn saved_flame(
    source: &dyn ProfileSource,
    view: &SampleView,
    job: &Job,
) -> Result<HttpResponse, ServeError> {
    let text = flame(source, view, job)?;
    Ok(HttpResponse::new(HTML, text.into_bytes()).with_header(&attachment("flame.html")))
}

fn attachment(name: &str) -> String {
    format!("Content-Disposition: attachment; filename=\"{name}\"\r\n")
}

fn flame(source: &dyn ProfileSource, view: &SampleView, job: &Job) -> Result<String, ServeError> {
    let mut sides = vec![source.side(&view.selection, job)?];
    if let Some(versus) = &view.versus {
        // The page's first side is the later one.
        sides.insert(0, source.side(versus, job)?);
    }
    let accounts: Vec<RecordingInfo> = sides.iter().map(account).collect();
    let title = match &accounts[..] {
        [one] => one.name.clone(),
        all => all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" against "),
    };
    let style = Style { title, ..Style::default() };
    let samples: Vec<Collector> =
        sides.iter_mut().map(|side| std::mem::take(&mut side.samples)).collect();
    let inputs = sides.iter().zip(samples);
    let inputs =
        inputs.map(|(side, samples)| vec![FlameInput { whole: side.recorded.whole(), samples }]);
    let mut graph = Graph::new(inputs.collect(), Order::Caller, FlameRoot::Comm);
    let mut out = Vec::new();
    page(&mut out, &mut graph, &accounts, &style, PAGE_BYTES)?;
    String::from_utf8(out).map_err(|error| ServeError::System(io::Error::other(error)))
}

fn account(side: &FlameSide) -> RecordingInfo {
    RecordingInfo::new(&side.recorded.name, &side.recorded.whole())
}

/// A buffer that an exporter owns a share of.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the samples as pprof.
pub(crate) fn pprof(
    source: &dyn ProfileSource,
    view: &SampleView,
    job: &Job,
) -> Result<HttpResponse, ServeError> {
    let format = FormatInfo::from_name("pprof");
    let absent = || ServeError::Question("this build of tare can't write pprof".to_owned());
    let format = format.ok_or_else(absent)?;
    let create = format.create.ok_or_else(absent)?;
    let FlameSide { recorded, samples } = source.side(&view.selection, job)?;
    let buffer = SharedBuffer::default();
    let mut exporter = create(Box::new(buffer.clone()))?;
    for sliced in samples.sliced() {
        let SliceRow { row, weight, .. } = sliced;
        let sample = tare_render::LocatedSample { row, weight, time_ns: None, switch: None };
        exporter.sample(&recorded.profile, &sample)?;
    }
    exporter.finish(&recorded.whole())?;
    let bytes = std::mem::take(&mut *buffer.0.lock().unwrap_or_else(PoisonError::into_inner));
    let name = format!("profile.{}", format.extension);
    Ok(HttpResponse::new("application/octet-stream", bytes).with_header(&attachment(&name)))
}
