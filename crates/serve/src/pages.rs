//! The files of the page.

use crate::request::HttpRequest;
use crate::response::HttpResponse;

const HTML: &str = "text/html; charset=utf-8";

/// Paths, media types and texts.
const FILES: [(&str, &str, &str); 2] = [
    ("/", HTML, include_str!("page/index.html")),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        concat!(
            "\"use strict\";\n(() => {\n",
            include_str!("page/state.js"),
            include_str!("page/ask.js"),
            include_str!("page/words.js"),
            include_str!("page/charts.js"),
            include_str!("page/tables.js"),
            include_str!("page/views.js"),
            include_str!("page/app.js"),
            "})();\n",
        ),
    ),
];

const WELCOME: &str = "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>tare</title><meta http-equiv=\"refresh\" content=\"0;url=@@NEXT@@\"><p><a href=\"@@NEXT@@\">Continue</a>\n";

/// The page's style, after that of flame graphs, whose colours and controls it has.
const STYLE: &str = include_str!("page/page.css");

/// Returns a file of the page.
pub(crate) fn file(path: &str) -> Option<HttpResponse> {
    if path == "/page.css" {
        let text = format!("{}{STYLE}", tare_render::flame::PAGE_STYLE);
        return Some(HttpResponse::new("text/css; charset=utf-8", text.into_bytes()));
    }
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(HttpResponse::new(kind, text.as_bytes()))
}

/// Returns the answer to a link with the token: a page that goes on to the page without it, at the
/// view of the link's other parameters. A redirection would be a request of the site that has the
/// link, for which browsers don't send a strict cookie.
pub(crate) fn welcome(request: &HttpRequest, cookie: &str) -> HttpResponse {
    let view = request.encoded_except("token");
    let next = if view.is_empty() { "/".to_owned() } else { format!("/#{view}") };
    let text = WELCOME.replace("@@NEXT@@", &next);
    HttpResponse::new(HTML, text.into_bytes()).with_header(cookie)
}
