//! What a request asks for: samples, and how they are grouped.

use tare_fleet::{Condition, Grouping, Selection};

use crate::error::ServeError;
use crate::request::HttpRequest;

/// Most conditions of a selection.
const MAX_CONDITIONS: usize = 16;

/// Most bytes of a condition or a name.
const MAX_TEXT_BYTES: usize = 4096;

/// Most slices of time.
const MAX_SLICES: usize = 1000;

/// Slices of time by default.
const SLICES: usize = 60;

/// Most rows of a table.
const MAX_ROWS: usize = 5000;

/// Rows of a table by default.
const ROWS: usize = 200;

/// Labels that series are distinguished by, at most.
const MAX_LABELS: usize = 3;

/// A view of samples.
#[derive(Clone, Debug)]
pub(crate) struct SampleView {
    /// The samples.
    pub(crate) selection: Selection,
    /// The samples to compare with.
    pub(crate) versus: Option<Selection>,
    /// Labels, the first for tables.
    pub(crate) by: Vec<String>,
    /// Also the weight below a function or module.
    pub(crate) with_total: bool,
    /// Most rows of a table.
    pub(crate) rows: usize,
    /// Slices of time.
    pub(crate) slices: usize,
    /// A function's name.
    pub(crate) function: Option<String>,
}

impl SampleView {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// Fails if one isn't valid, with words for the user.
    pub(crate) fn from_request(request: &HttpRequest) -> Result<Self, ServeError> {
        let is_versus = ["versus_where", "versus_since", "versus_until"]
            .iter()
            .any(|name| request.parameter(name).is_some());
        let versus = || selection(request, ["versus_since", "versus_until", "versus_where"]);
        let by = text(request, "by")?.unwrap_or("service");
        let by: Vec<String> = by.split(',').map(str::to_owned).collect();
        if by.len() > MAX_LABELS {
            return Err(ServeError::Question(format!("by: {MAX_LABELS} labels at most")));
        }
        Ok(Self {
            selection: selection(request, ["since", "until", "where"])?,
            versus: is_versus.then(versus).transpose()?,
            by,
            with_total: request.parameter("total") == Some("1"),
            rows: number(request, "rows", ROWS, MAX_ROWS)?,
            slices: number(request, "slices", SLICES, MAX_SLICES)?,
            function: text(request, "function")?.map(str::to_owned),
        })
    }

    /// Returns the groupings of the labels.
    ///
    /// # Errors
    /// Fails if one isn't a label of stores.
    pub(crate) fn groupings(&self) -> Result<Vec<Grouping>, ServeError> {
        self.by.iter().map(|name| grouping(name)).collect()
    }

    /// Returns the label of a table.
    pub(crate) fn label(&self) -> &str {
        self.by.first().map_or("service", String::as_str)
    }
}

fn grouping(name: &str) -> Result<Grouping, ServeError> {
    let known = Grouping::ALL.iter().find(|(known, _)| *known == name);
    let known = known.map(|(_, grouping)| *grouping);
    known.ok_or_else(|| ServeError::Question(format!("by: '{name}' isn't a label")))
}

/// Reads a selection from the parameters of its start, its end, and its conditions.
fn selection(request: &HttpRequest, names: [&str; 3]) -> Result<Selection, ServeError> {
    let conditions: Vec<&str> = request.parameters(names[2]).collect();
    if conditions.len() > MAX_CONDITIONS {
        return Err(ServeError::Question(format!("where: {MAX_CONDITIONS} conditions at most")));
    }
    let parsed = conditions.iter().map(|text| {
        check_length(names[2], text)?;
        Ok(text.parse::<Condition>()?)
    });
    Ok(Selection {
        since_us: moment(request, names[0])?,
        until_us: moment(request, names[1])?,
        conditions: parsed.collect::<Result<_, ServeError>>()?,
    })
}

fn check_length(name: &str, text: &str) -> Result<(), ServeError> {
    if text.len() <= MAX_TEXT_BYTES && !text.contains('\0') {
        return Ok(());
    }
    Err(ServeError::Question(format!("{name}: {MAX_TEXT_BYTES} bytes at most, without NUL")))
}

fn text<'a>(request: &'a HttpRequest, name: &str) -> Result<Option<&'a str>, ServeError> {
    let text = request.parameter(name).filter(|text| !text.is_empty());
    text.map_or(Ok(()), |text| check_length(name, text))?;
    Ok(text)
}

/// Reads microseconds since 1970, up to the year 9999.
fn moment(request: &HttpRequest, name: &str) -> Result<Option<i64>, ServeError> {
    const END_US: i64 = 253_402_300_800_000_000;
    let Some(text) = text(request, name)? else { return Ok(None) };
    let moment = text.parse::<i64>().ok().filter(|time_us| (0..=END_US).contains(time_us));
    let wrong = || ServeError::Question(format!("{name}: give microseconds since 1970"));
    moment.map(Some).ok_or_else(wrong)
}

fn number(
    request: &HttpRequest,
    name: &str,
    default: usize,
    most: usize,
) -> Result<usize, ServeError> {
    let Some(text) = text(request, name)? else { return Ok(default) };
    let number = text.parse::<usize>().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| ServeError::Question(format!("{name}: give a number from 1 to {most}")))
}
