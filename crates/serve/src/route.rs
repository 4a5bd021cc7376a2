//! Which question a path asks.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::access::{Access, Proof};
use crate::drawing;
use crate::error::ServeError;
use crate::job::{Job, JobSlots, is_there};
use crate::pages;
use crate::request::HttpRequest;
use crate::response::{HttpResponse, Refusal};
use crate::source::ProfileSource;
use crate::view::SampleView;

/// A question whose answer is JSON.
type Question = fn(&dyn ProfileSource, &SampleView, &Job) -> Result<Value, ServeError>;

const QUESTIONS: [(&str, Question); 6] = [
    ("/api/about", |source, _, job| source.about(job)),
    ("/api/series", |source, view, job| source.series(view, job)),
    ("/api/top", |source, view, job| source.top(view, job)),
    ("/api/losses", |source, view, job| source.losses(view, job)),
    ("/api/diff", |source, view, job| source.diff(view, job)),
    ("/api/regressions", |source, view, job| source.regressions(view, job)),
];

/// Makes a response from all samples of a view.
type Drawing = fn(&dyn ProfileSource, &SampleView, &Job) -> Result<HttpResponse, ServeError>;

const DRAWINGS: [(&str, Drawing); 3] = [
    ("/flame", drawing::framed_flame),
    ("/flame.html", drawing::saved_flame),
    ("/profile.pb.gz", drawing::pprof),
];

/// Time to wait for each piece of a refused request.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Most bytes that are read of a refused request.
const MAX_DRAINED_BYTES: u64 = 1 << 20;

/// Reads what a refused client still sends, for a moment: a connection that is closed before is
/// reset, and the client may lose the refusal.
fn drain(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(DRAIN_TIME))?;
    io::copy(&mut stream.take(MAX_DRAINED_BYTES), &mut io::sink()).map(|_| ())
}

/// Answers the request of a connection.
///
/// # Errors
/// Fails if the client is gone.
pub(crate) fn answer(
    stream: &mut TcpStream,
    access: &Access,
    source: &dyn ProfileSource,
    slots: &JobSlots,
) -> io::Result<()> {
    let request = match HttpRequest::read(stream) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(()),
        Err(refusal) => {
            HttpResponse::refused(refusal).write(stream)?;
            return drain(stream);
        }
    };
    match access.check(&request) {
        Err(refusal) => return HttpResponse::refused(refusal).write(stream),
        Ok(Proof::Link) => return pages::welcome(&request, &access.cookie()).write(stream),
        Ok(Proof::Known) => {}
    }
    if let Some(file) = pages::file(&request.path) {
        return file.write(stream);
    }
    let refused = |error: &ServeError| {
        let status = if error.is_of_request() { 400 } else { 500 };
        HttpResponse::refused(Refusal::new(status, format!("{status}: {error}\n")))
    };
    let view = match SampleView::from_request(&request) {
        Ok(view) => view,
        Err(error) => return refused(&error).write(stream),
    };
    let path = request.path.as_str();
    if let Some((_, ask)) = QUESTIONS.iter().find(|(known, _)| *known == path) {
        return slots.stream(stream, |job| ask(source, &view, job));
    }
    let Some((_, draw)) = DRAWINGS.iter().find(|(known, _)| *known == path) else {
        return HttpResponse::refused(Refusal::new(404, "404: no such page\n")).write(stream);
    };
    match slots.run(|job| draw(source, &view, job), |_| is_there(stream)) {
        Ok(response) => response.write(stream),
        Err(ServeError::Stopped) => Ok(()),
        Err(error) => refused(&error).write(stream),
    }
}
