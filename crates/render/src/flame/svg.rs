//! A flame graph as an SVG picture, without scripts.

use std::fmt::Write as _;
use std::io::{self, Write};

use tare_profile::Weight;

use super::graph::{Graph, GraphEvent, GraphFunction};
use super::tree::MERGED;
use super::{RecordingInfo, Style};
use crate::samples::{FrameKind, Unit};

/// The picture's width in pixels.
const WIDTH: f64 = 1200.0;

/// Margin in pixels.
const MARGIN: f64 = 10.0;

/// Height of a function in pixels.
const HEIGHT: f64 = 16.0;

/// Height of a line of text in pixels.
const LINE: f64 = 16.0;

/// Width of a character in pixels, for the monospaced font of 11 pixels.
const CHARACTER: f64 = 6.7;

/// Width in pixels below which functions are merged.
const NARROW: f64 = 0.05;

/// Maximum size of a picture in bytes. Wider functions are merged until it is smaller.
const MAX_BYTES: usize = 6_000_000;

/// Fill colours by kind for light and dark backgrounds, the same as the page's.
const COLOURS: [(&str, &str); FrameKind::ALL.len()] = [
    ("#f2a65a", "#b06c24"),
    ("#e8c547", "#8f7617"),
    ("#8fb8de", "#38638c"),
    ("#8ccf8f", "#3b7f45"),
    ("#c9a7e0", "#75508f"),
    ("#c4c4c4", "#5c5c5c"),
    ("#dcdce2", "#34363e"),
];

/// Escapes a text for an element or an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writes the graphs of all events of the first side, one below the other. If there is a second
/// side, functions with a larger share than there are red, and those with a smaller share are blue.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn svg(
    out: &mut dyn Write,
    graph: &mut Graph,
    accounts: &[RecordingInfo],
    style: &Style,
) -> io::Result<()> {
    let mut narrow = NARROW;
    loop {
        graph.merge_narrow(narrow / (WIDTH - 2.0 * MARGIN));
        let most = if narrow > WIDTH { usize::MAX } else { MAX_BYTES };
        let picture = Picture::new(graph, accounts, style, most).map_err(io::Error::other)?;
        if picture.body.len() <= most {
            return picture.write(out, style);
        }
        narrow *= 2.0;
    }
}

/// The elements of a picture, and its height in pixels.
struct Picture {
    body: String,
    height: f64,
}

impl Picture {
    /// Draws a picture. Functions are left out once it has more than `most` bytes.
    fn new(
        graph: &Graph,
        accounts: &[RecordingInfo],
        style: &Style,
        most: usize,
    ) -> Result<Self, std::fmt::Error> {
        let mut body = String::new();
        let mut y = MARGIN + LINE;
        let text = |body: &mut String, y: &mut f64, class: &str, text: &str| {
            let longest = 174;
            let cut: String = text.chars().take(longest).collect();
            let dots = if text.chars().count() > longest { "…" } else { "" };
            let line = escaped(&cut);
            writeln!(body, r#"<text x="{MARGIN}" y="{y:.1}" class="{class}">{line}{dots}</text>"#)?;
            *y += LINE;
            Ok::<_, std::fmt::Error>(())
        };
        text(&mut body, &mut y, "h", &style.title)?;
        for line in accounts.iter().flat_map(|account| &account.session) {
            text(&mut body, &mut y, "d", line)?;
        }
        for (at, event) in graph.events.iter().enumerate() {
            if event.all[0].samples > 0 {
                y += LINE / 2.0;
                let samples = crate::count(event.all[0].samples, "sample");
                let all = amount(event.all[0].period, event.unit);
                text(&mut body, &mut y, "e", &format!("{}: {samples}, {all}", event.name))?;
                y = draw_frames(&mut body, graph, at, style, y - LINE / 2.0, most)? + LINE;
            }
        }
        if accounts.len() > 1 {
            let line = "red: larger share than before; blue: smaller share";
            text(&mut body, &mut y, "d", line)?;
        } else {
            draw_legend(&mut body, graph, y)?;
        }
        y += 1.5 * LINE;
        if graph.merged > 0 {
            let functions = crate::count(graph.merged as u64, "function");
            let line = format!(
                "{functions} too narrow to draw {} merged",
                crate::agreeing(graph.merged as u64, "was", "were")
            );
            text(&mut body, &mut y, "d", &line)?;
        }
        for line in accounts.iter().flat_map(losses_and_ledger) {
            text(&mut body, &mut y, "d", line)?;
        }
        Ok(Self { body, height: y })
    }

    fn write(&self, out: &mut dyn Write, style: &Style) -> io::Result<()> {
        let y = self.height;
        writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0}" width="{WIDTH}" height="{y:.0}" role="img">"#
        )?;
        let css = css().map_err(io::Error::other)?;
        writeln!(out, "<title>{}</title>\n<style>{css}</style>", escaped(&style.title))?;
        writeln!(out, r#"<rect class="b" width="100%" height="100%"/>"#)?;
        out.write_all(self.body.as_bytes())?;
        out.write_all(b"</svg>\n")
    }
}

/// Returns a recording's losses and ledger.
fn losses_and_ledger(account: &RecordingInfo) -> Vec<&str> {
    let none = account.losses.is_empty().then_some("no known losses");
    let lines = account.losses.iter().chain(&account.ledger).map(String::as_str);
    none.into_iter().chain(lines).collect()
}

fn css() -> Result<String, std::fmt::Error> {
    let mut css = String::from(
        "text{font:11px ui-monospace,monospace;fill:#1c1c1c}.h{font-size:15px;font-weight:600}.e{font-weight:600}.d{fill:#555}.b{fill:#fff}g text{pointer-events:none}",
    );
    let rule = |css: &mut String, dark: bool| {
        for (at, (light, dark_fill)) in COLOURS.iter().enumerate() {
            write!(css, ".k{at}{{fill:{}}}", if dark { dark_fill } else { light })?;
        }
        Ok::<_, std::fmt::Error>(())
    };
    rule(&mut css, false)?;
    css.push_str("@media(prefers-color-scheme:dark){.b{fill:#17181c}text{fill:#eee}.d{fill:#aaa}");
    rule(&mut css, true)?;
    css.push('}');
    Ok(css)
}

/// Draws the graph of the event with the index `at` below `top`, and returns its lower end. Leaves
/// functions out once `body` has more than `most` bytes.
fn draw_frames(
    body: &mut String,
    graph: &Graph,
    at: usize,
    style: &Style,
    top: f64,
    most: usize,
) -> Result<f64, std::fmt::Error> {
    let event = &graph.events[at];
    let totals = graph.totals(0, at);
    let before = (event.all[1].samples > 0).then(|| graph.totals(1, at));
    let all = event.all[0].period.max(1) as f64;
    let scale = (WIDTH - 2.0 * MARGIN) / all;
    let is_visible =
        |node: &(usize, &super::tree::Node)| totals[node.0].period as f64 * scale >= NARROW;
    let depth = graph.nodes.iter().enumerate().filter(is_visible).map(|(_, node)| node.depth).max();
    let depth = f64::from(depth.unwrap_or(0));
    let mut ends = vec![MARGIN; graph.nodes.len()];
    for (node, known) in graph.nodes.iter().enumerate() {
        let width = totals[node].period as f64 * scale;
        let x = if node == 0 { MARGIN } else { ends[known.parent] };
        ends[node] = x;
        ends[known.parent] += if node == 0 { 0.0 } else { width };
        if width < NARROW || body.len() > most {
            continue;
        }
        let level = f64::from(known.depth);
        let y = top + HEIGHT * if style.icicle { level } else { depth - level };
        let function = &graph.functions[known.function];
        let kind = if node == 0 { FrameKind::Thread } else { function.kind };
        let kind = FrameKind::ALL.iter().position(|known| *known == kind).unwrap_or(0);
        let mut title = describe_function(function, totals[node], event);
        let mut fill = String::new();
        if let Some(before) = before.as_ref().and_then(|before| before.get(node)) {
            let was = before.period as f64 / event.all[1].period.max(1) as f64;
            let (text, colour) = describe_change(totals[node].period as f64 / all, was);
            title.push_str(&text);
            fill = colour;
        }
        write!(
            body,
            r#"<g><title>{}</title><rect class="k{kind}" x="{x:.2}" y="{y:.0}" width="{:.2}" height="{:.0}"{fill}/>"#,
            escaped(&title),
            if width > 1.0 { width - 0.4 } else { width },
            HEIGHT - 1.0
        )?;
        let fits = ((width - 6.0) / CHARACTER).max(0.0).floor();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 200")]
        let fits = fits as usize;
        if fits >= 3 && known.function != MERGED {
            let x = x + 3.0;
            let y = y + HEIGHT - 5.0;
            let name = escaped(&cut(&function.name, fits));
            write!(body, r#"<text x="{x:.1}" y="{y:.0}">{name}</text>"#)?;
        }
        body.push_str("</g>\n");
    }
    Ok(top + HEIGHT * (depth + 1.0))
}

/// Returns the change of a share as text and as a colour, which is full from five points on.
fn describe_change(share: f64, was: f64) -> (String, String) {
    let delta = share - was;
    let pale = 232.0 - 150.0 * (delta.abs() / 0.05).min(1.0);
    let red = if delta > 0.0 { 232.0 } else { pale };
    let blue = if delta > 0.0 { pale } else { 232.0 };
    let colour = format!(r#" style="fill:rgb({red:.0},{pale:.0},{blue:.0})""#);
    (format!(", {:+.2}% from {:.2}%", 100.0 * delta, 100.0 * was), colour)
}

/// Returns a function's name, file, share, weight and number of samples.
fn describe_function(function: &GraphFunction, total: Weight, event: &GraphEvent) -> String {
    let name = &function.name;
    let dso = &function.dso;
    let dso = if dso.is_empty() { String::new() } else { format!(" ({dso})") };
    let share = 100.0 * total.period as f64 / event.all[0].period.max(1) as f64;
    let amount = amount(total.period, event.unit);
    let samples = crate::count(total.samples, "sample");
    format!("{name}{dso}: {share:.2}%, {amount}, {samples}")
}

/// Shortens a name to this many characters, with an ellipsis if it is longer.
fn cut(name: &str, fits: usize) -> String {
    if name.chars().count() <= fits {
        return name.to_owned();
    }
    name.chars().take(fits - 1).chain(['…']).collect()
}

fn draw_legend(body: &mut String, graph: &Graph, y: f64) -> std::fmt::Result {
    let mut x = MARGIN;
    for (at, kind) in
        FrameKind::ALL.into_iter().enumerate().filter(|(_, kind)| *kind != FrameKind::Thread)
    {
        let has_kind = |node: &super::tree::Node| {
            node.depth > 0 && graph.functions[node.function].kind == kind
        };
        if graph.nodes.iter().any(has_kind) {
            let name = kind.name();
            write!(
                body,
                r#"<rect class="k{at}" x="{x:.0}" y="{:.0}" width="12" height="12"/>"#,
                y - 10.0
            )?;
            writeln!(body, r#"<text x="{:.0}" y="{y:.0}">{name}</text>"#, x + 17.0)?;
            x += 40.0 + name.len() as f64 * CHARACTER;
        }
    }
    Ok(())
}

/// Formats a weight with its unit.
fn amount(period: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => format!("{:.3} s", period as f64 / 1e9),
        Unit::Count => crate::grouped(period),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_shortens_names() {
        assert_eq!(escaped("<a href=\"x\">&\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }
}
