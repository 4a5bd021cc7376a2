//! The SQL of every question: the only place where it is made.
//!
//! A statement begins with the tables it reads, so that an engine needs no state. Frames are rows,
//! and so no engine needs arrays. Sums are cast to `bigint`, because some engines widen them. Each
//! statement orders its rows totally.

mod dialect;

use std::path::{Path, PathBuf};

use tare_store::schema::{FRAMES, SAMPLES, SEGMENTS, SampleColumn, TableDefinition};

use crate::condition::{Condition, Test};
use crate::error::FleetError;
use crate::question::{Grouping, Question, Request, Selection};
use crate::rows::Part;

pub use dialect::Dialect;

/// Microseconds of an hour.
const HOUR_US: i64 = 3_600_000_000;

/// What the tables of a store are called in an engine, or the files that they are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    samples: String,
    frames: String,
    segments: String,
}

impl Tables {
    /// The tables that [`definitions`] defines, in a schema with this prefix, such as `tare.`.
    #[must_use]
    pub fn defined(prefix: &str) -> Self {
        let table = |name: &str| format!("{prefix}{name}");
        Self { samples: table("samples"), frames: table("frames"), segments: table("segments") }
    }

    /// The tables as files: samples, frames, segments.
    ///
    /// # Errors
    /// Fails if a path has characters that engines read as a pattern.
    pub fn from_files(dialect: Dialect, files: [&[PathBuf]; 3]) -> Result<Self, FleetError> {
        let table = |paths: &[PathBuf], table: &TableDefinition| {
            dialect.files(paths, &empty_table(dialect, table))
        };
        Ok(Self {
            samples: table(files[0], &SAMPLES)?,
            frames: table(files[1], &FRAMES)?,
            segments: table(files[2], &SEGMENTS)?,
        })
    }
}

/// The best row of each frame.
const BEST_FRAMES: &str = "select * from (\n  \
    select *, row_number() over (partition by stack_id, depth\n    \
    order by function nulls last, file nulls last, line nulls last, module nulls last\n  \
    ) as place from all_frames\n) as placed where place = 1";

/// Returns the statements that define a store's tables in an engine: samples, segments, all frames,
/// and frames with the best row of each.
///
/// # Errors
/// Fails if the folder's path has characters that engines read as a pattern.
pub fn definitions(dialect: Dialect, store: &Path) -> Result<String, FleetError> {
    let tables = [("samples", &SAMPLES), ("segments", &SEGMENTS), ("all_frames", &FRAMES)];
    let mut text = String::new();
    for (name, table) in tables {
        text += &dialect.definition(name, table, store)?;
    }
    let temporary = if dialect == Dialect::Spark { "temporary " } else { "" };
    Ok(format!("{text}create {temporary}view frames as {BEST_FRAMES};\n"))
}

/// Returns a select statement that begins with the tables it may name: the selection's samples,
/// segments, all frames, and frames with the best row of each.
pub(crate) fn free_statement(
    selection: &Selection,
    dialect: Dialect,
    tables: &Tables,
    text: &str,
) -> Result<String, FleetError> {
    let Tables { samples, frames, segments } = tables;
    let wanted = Writer { dialect, tables, selection }.samples_where()?;
    let text = text.trim().trim_end_matches(';');
    // A statement has one list of common tables.
    let own = text.get(..4).filter(|word| word.eq_ignore_ascii_case("with"));
    let rest = own.and_then(|_| text[4..].strip_prefix(char::is_whitespace));
    let rest = rest.map_or_else(|| format!("\n{text}"), |rest| format!(",\n{rest}"));
    Ok(format!(
        "with samples as (select * from {samples}{wanted}),\n\
         segments as (select * from {segments}),\nall_frames as (select * from {frames}),\n\
         frames as ({BEST_FRAMES}){rest}"
    ))
}

/// Returns the statements of a question about the tables of [`definitions`].
///
/// # Errors
/// Fails if a value can't be written in this dialect.
pub fn statements(request: &Request, dialect: Dialect) -> Result<String, FleetError> {
    if let Question::Sql { text } = &request.question {
        return Ok(format!("{};\n", text.trim_end().trim_end_matches(';')));
    }
    let tables = Tables::defined("");
    let mut text = String::new();
    for request in request.selections() {
        for part in request.question.parts() {
            text += &format!("{};\n", statement(&request, *part, dialect, &tables)?);
        }
    }
    Ok(text)
}

/// Returns a table without rows.
fn empty_table(dialect: Dialect, table: &TableDefinition) -> String {
    let columns = table.columns.iter();
    let columns = columns.map(|column| {
        format!("cast(null as {}) as {}", dialect.type_name(column.kind), dialect.name(column.name))
    });
    format!("(select {} where 1 = 0) as no_files", columns.collect::<Vec<_>>().join(", "))
}

/// Returns the text that asks an engine for a part of a question.
///
/// # Errors
/// Fails if a value can't be written in this dialect.
pub fn statement(
    request: &Request,
    part: Part,
    dialect: Dialect,
    tables: &Tables,
) -> Result<String, FleetError> {
    let sql = Writer { dialect, tables, selection: &request.selection };
    match (&request.question, part) {
        (Question::Top { by, with_total, limit }, _) => {
            Ok(ranked(&sql.groups(*by, *with_total)?, *limit, *with_total))
        }
        (Question::Diff { by, with_total, .. }, _) => {
            Ok(ranked(&sql.groups(*by, *with_total)?, usize::MAX, *with_total))
        }
        (_, Part::Rates) => sql.rates(),
        (Question::Flame { by }, Part::Stacks) => sql.labelled_stacks(*by),
        (_, Part::Frames) => sql.stack_frames(),
        (Question::Search { pattern, .. }, Part::Functions) => {
            let function = Grouping::Column(SampleColumn::Function);
            Ok(ranked(&sql.totals(function, Some(pattern))?, usize::MAX, true))
        }
        (Question::Search { pattern, .. }, Part::Callers) => sql.callers(pattern),
        (_, Part::Hosts) => sql.hosts(),
        (_, Part::Builds) => sql.builds(),
        _ => sql.times(),
    }
}

struct Writer<'a> {
    dialect: Dialect,
    tables: &'a Tables,
    selection: &'a Selection,
}

/// Ends a statement whose last common table is `sums`: the groups with the most weight of each
/// event. Names are compared by their bytes.
fn ranked(groups: &str, limit: usize, by_total: bool) -> String {
    let first = if by_total { "total_weight desc, self_weight" } else { "self_weight" };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    format!(
        "{groups},\nranked as (\n  select event, name, sample_count, self_weight, total_weight, event_weight,\n    \
         row_number() over (partition by event order by {first} desc, name nulls last) as place\n  from sums)\n\
         select event, name, sample_count, self_weight, total_weight, event_weight\n\
         from ranked where place <= {limit}\norder by event, place"
    )
}

impl Writer<'_> {
    /// Returns the conditions on samples, from `where`.
    fn samples_where(&self) -> Result<String, FleetError> {
        let Selection { since_us, until_us, conditions } = self.selection;
        let time = |text: &str, moment: Option<i64>| {
            let window = self.dialect.name("window");
            moment.map(|moment| format!("{window} {text} {}", self.dialect.moment(moment)))
        };
        let mut all: Vec<String> =
            [time(">=", *since_us), time("<", *until_us)].into_iter().flatten().collect();
        for condition in conditions {
            all.push(self.condition(condition)?);
        }
        Ok(if all.is_empty() { String::new() } else { format!("\n  where {}", all.join(" and ")) })
    }

    fn condition(&self, condition: &Condition) -> Result<String, FleetError> {
        let column = match condition.column() {
            Some(column) => column.name().to_owned(),
            None => self.dialect.extra(condition.label())?,
        };
        Ok(match condition.test() {
            Test::Equal(value) => format!("{column} = {}", self.dialect.text(value)?),
            Test::Different(value) => {
                format!("({column} is null or {column} <> {})", self.dialect.text(value)?)
            }
            Test::Matching(pattern) => self.dialect.matches(&column, pattern)?,
        })
    }

    /// Common tables up to `sums`.
    fn groups(&self, by: Grouping, with_total: bool) -> Result<String, FleetError> {
        if with_total && by.has_callers() || by == Grouping::Module {
            self.totals(by, None)
        } else {
            self.sums(by)
        }
    }

    /// Common tables up to `sums`, by a column.
    fn sums(&self, by: Grouping) -> Result<String, FleetError> {
        let column = match by {
            Grouping::Column(column) => column.name(),
            Grouping::Module => "function",
        };
        Ok(format!(
            "with grouped as (\n  select event, {column} as name, cast(sum(samples) as bigint) as sample_count,\n    \
             cast(sum(weight) as bigint) as self_weight\n  from {}{}\n  group by event, {column}),\n\
             sums as (\n  select event, name, sample_count, self_weight, self_weight as total_weight,\n    \
             cast(sum(self_weight) over (partition by event) as bigint) as event_weight\n  from grouped)",
            self.tables.samples,
            self.samples_where()?
        ))
    }

    /// Common tables up to `stacks`: sums by event, stack and innermost function.
    fn stacks(&self) -> Result<String, FleetError> {
        Ok(format!(
            "with stacks as (\n  select event, stack_id, function as leaf, cast(sum(samples) as bigint) as n,\n    \
             cast(sum(weight) as bigint) as w\n  from {}{}\n  group by event, stack_id, function)",
            self.tables.samples,
            self.samples_where()?
        ))
    }

    /// Common tables up to `sums`, by function or module, with the weight below them. `events` has
    /// the weight of all samples. `places` has each name of a stack once.
    fn totals(&self, by: Grouping, pattern: Option<&str>) -> Result<String, FleetError> {
        let stacks = self.stacks()?;
        let (best, leafs) = if by == Grouping::Module {
            (
                format!(
                    "{},\nnamed as (select stack_id, depth, module as name from ranks where place = 1)",
                    self.ranks()
                ),
                "leafs as (\n  select s.event as event, s.stack_id as stack_id, f.name as name, s.n as n, s.w as w\n  from stacks s\n  \
                 left join (select stack_id, name from named where depth = 0) f on f.stack_id = s.stack_id)",
            )
        } else {
            (
                format!("named as (\n{})", self.named_functions()),
                "leafs as (select event, stack_id, leaf as name, n, w from stacks)",
            )
        };
        let filter = match pattern {
            Some(pattern) => format!("\n  where {}", self.dialect.matches("name", pattern)?),
            None => String::new(),
        };
        Ok(format!(
            "{stacks},\n{best},\n{leafs},\n\
             events as (select event, cast(sum(w) as bigint) as event_weight from stacks group by event),\n\
             stack_sums as (select event, stack_id, sum(w) as w from stacks group by event, stack_id),\n\
             places as (\n  select stack_id, name from named{filter}\n  union select stack_id, name from leafs{filter}),\n\
             parts as (\n  select event, name, n, w as own, 0 as below from leafs{filter}\n  union all\n  \
             select s.event as event, p.name as name, 0 as n, 0 as own, s.w as below\n  \
             from stack_sums s join places p on p.stack_id = s.stack_id),\n\
             part_sums as (\n  select event, name, cast(sum(n) as bigint) as sample_count,\n    \
             cast(sum(own) as bigint) as self_weight, cast(sum(below) as bigint) as total_weight\n  \
             from parts group by event, name),\n\
             sums as (\n  select p.event as event, name, sample_count, self_weight, total_weight, event_weight\n  \
             from part_sums p join events e on e.event = p.event)"
        ))
    }

    /// The function of each place of the stacks, NULL if no file has a name. `min` takes the name
    /// that the view in docs/store.md prefers.
    fn named_functions(&self) -> String {
        format!(
            "  select stack_id, depth, min(function) as name\n  from {}\n  \
             where stack_id in (select stack_id from stacks)\n  group by stack_id, depth",
            self.tables.frames
        )
    }

    /// The common table `ranks`: in place 1, the best row of each frame of `stacks`. Which one
    /// that is, docs/store.md says.
    fn ranks(&self) -> String {
        format!(
            "ranks as (\n  select stack_id, depth, function, module, row_number() over (\n    \
             partition by stack_id, depth order by function nulls last, {} nulls last,\n    \
             line nulls last, module nulls last) as place\n  from {}\n  \
             where stack_id in (select stack_id from stacks))",
            self.dialect.name("file"),
            self.tables.frames
        )
    }

    /// Sums by label, reason and stack.
    fn labelled_stacks(&self, by: Grouping) -> Result<String, FleetError> {
        let Grouping::Column(column) = by else {
            return Err(FleetError::Question(format!("flame: {} isn't a label", by.name())));
        };
        let column = column.name();
        Ok(format!(
            "select event, {column} as name, wait_reason, stack_id,\n  \
             cast(sum(samples) as bigint) as sample_count, cast(sum(weight) as bigint) as self_weight\n\
             from {}{}\ngroup by event, {column}, wait_reason, stack_id\n\
             order by event, name nulls last, wait_reason nulls last, stack_id",
            self.tables.samples,
            self.samples_where()?
        ))
    }

    /// The frames of all stacks.
    fn stack_frames(&self) -> Result<String, FleetError> {
        Ok(format!(
            "with stacks as (\n  select distinct stack_id from {}{}),\n{}\n\
             select stack_id, depth, function, module from ranks where place = 1\n\
             order by stack_id, depth",
            self.tables.samples,
            self.samples_where()?,
            self.ranks()
        ))
    }

    fn callers(&self, pattern: &str) -> Result<String, FleetError> {
        let matches = self.dialect.matches("f.name", pattern)?;
        Ok(format!(
            "{},\nnamed as (\n{}),\n\
             calls as (\n  select distinct f.stack_id as stack_id, f.name as name, c.name as caller\n  from named f\n  \
             left join named c on c.stack_id = f.stack_id and c.depth = f.depth + 1\n  where {matches})\n\
             select event, name, caller, cast(sum(w) as bigint) as total_weight\n\
             from stacks s join calls c on c.stack_id = s.stack_id\n\
             group by event, name, caller\n\
             order by event, name, total_weight desc, caller nulls last",
            self.stacks()?,
            self.named_functions()
        ))
    }

    fn times(&self) -> Result<String, FleetError> {
        let micros = self.dialect.micros(&self.dialect.name("window"));
        Ok(format!(
            "select event, cast(min({micros}) as bigint) as first_us,\n  \
             cast(max({micros} + window_us) as bigint) as last_us\n\
             from {}{}\ngroup by event\norder by event",
            self.tables.samples,
            self.samples_where()?
        ))
    }

    /// Weight by hour, and the length of the windows in which a service was sampled on a host.
    fn rates(&self) -> Result<String, FleetError> {
        let micros = self.dialect.micros(&self.dialect.name("window"));
        Ok(format!(
            "with windows as (\n  select event, service, version, host, {micros} as start_us,\n    \
             max(window_us) as length_us, sum(weight) as w\n  from {}{}\n  \
             group by event, service, version, host, {micros}),\n\
             hours as (\n  select event, service, version, host, start_us - start_us % {HOUR_US} as hour_us,\n    \
             length_us, w from windows)\n\
             select event, service, version, host, hour_us, cast(sum(length_us) as bigint) as covered_us,\n  \
             cast(sum(w) as bigint) as self_weight\nfrom hours\n\
             group by event, service, version, host, hour_us\n\
             order by event, service nulls last, version nulls last, host, hour_us",
            self.tables.samples,
            self.samples_where()?
        ))
    }

    /// Weight of frames without a function. A stack counts once for each build.
    fn builds(&self) -> Result<String, FleetError> {
        Ok(format!(
            "{},\nnameless as (\n  \
             select stack_id, depth, min(build_id) as build_id, min(module) as module\n  from {}\n  \
             where stack_id in (select stack_id from stacks)\n  \
             group by stack_id, depth having min(function) is null),\n\
             builds as (\n  select stack_id, build_id, module, min(depth) as depth\n  from nameless\n  \
             group by stack_id, build_id, module),\n\
             events as (select event, cast(sum(w) as bigint) as event_weight from stacks group by event),\n\
             parts as (\n  select event, build_id, module,\n    \
             case when depth = 0 then w else 0 end as own, w\n  \
             from stacks s join builds b on b.stack_id = s.stack_id),\n\
             sums as (\n  select event, build_id, module, cast(sum(own) as bigint) as self_weight,\n    \
             cast(sum(w) as bigint) as total_weight\n  from parts group by event, build_id, module)\n\
             select s.event as event, build_id, module, self_weight, total_weight, event_weight\n\
             from sums s join events e on e.event = s.event\n\
             order by event, total_weight desc, self_weight desc, build_id nulls last, module nulls last",
            self.stacks()?,
            self.tables.frames
        ))
    }

    /// Sums of segments that overlap the times, by host.
    fn hosts(&self) -> Result<String, FleetError> {
        let Selection { since_us, until_us, conditions } = self.selection;
        let time = |time: &str, text: &str, moment: Option<i64>| {
            moment.map(|moment| format!("{time} {text} {}", self.dialect.moment(moment)))
        };
        let [start, end] = ["start", "end"].map(|time| self.dialect.name(time));
        let times = [time(&end, ">", *since_us), time(&start, "<", *until_us)];
        let mut all: Vec<String> = times.into_iter().flatten().collect();
        for condition in conditions {
            all.push(self.condition(condition)?);
        }
        let conditions =
            if all.is_empty() { String::new() } else { format!("\nwhere {}", all.join(" and ")) };
        let [start, end] = [start, end].map(|time| self.dialect.micros(&time));
        let window = |value: &str, name: &str| {
            format!("cast(sum(case when kind = 'gap' then 0 else {value} end) as bigint) as {name}")
        };
        let columns = [
            window("1", "window_count"),
            "cast(sum(case when kind = 'gap' then 1 else 0 end) as bigint) as gap_count".to_owned(),
            window("samples", "sample_count"),
            window("lost", "lost_count"),
            "cast(sum(case when kind = 'gap' then samples else 0 end) as bigint) as gap_samples"
                .to_owned(),
            window("truncated", "truncated_count"),
            window("unnamed", "unnamed_count"),
            window("omitted", "omitted_count"),
            window("recorder_cpu_us + kernel_us", "cost_us"),
            window(&format!("cpus * ({end} - {start})"), "cpu_us"),
            format!("cast(min({start}) as bigint) as first_us"),
            format!("cast(max({}) as bigint) as last_us", case_window(&end)),
        ];
        Ok(format!(
            "select host,\n  {}\nfrom {}{conditions}\ngroup by host\norder by host",
            columns.join(",\n  "),
            self.tables.segments
        ))
    }
}

/// The end of a window; 0 for gaps, after which a host isn't alive.
fn case_window(end: &str) -> String {
    format!("case when kind = 'gap' then 0 else {end} end")
}

#[cfg(test)]
mod tests;
