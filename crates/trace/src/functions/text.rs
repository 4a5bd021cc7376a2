//! Calls of functions as lines, as a table and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use tare_format::printable;
use tare_kernel::functions::{PlaceSums, ProbeCall, ProbeCost};

use crate::sched::histogram_lines;

/// One call to print.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// Start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Duration in nanoseconds.
    pub duration_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub process: u32,
    /// Its name, escaped.
    pub comm: String,
    /// Argument names and values.
    pub arguments: Vec<(String, String)>,
    /// The callers, one line per frame, innermost first.
    pub frames: Vec<String>,
}

impl FunctionCall {
    /// Copies a record; the argument values are already formatted.
    #[must_use]
    pub fn new(call: &ProbeCall<'_>, frames: &[String], arguments: Vec<(String, String)>) -> Self {
        Self {
            time_ns: call.time_ns,
            duration_ns: call.duration_ns,
            tid: call.tid,
            process: call.process,
            comm: printable(call.comm).into_owned(),
            arguments,
            frames: frames.to_vec(),
        }
    }

    fn argument_list(&self) -> String {
        let one = |(name, value): &(String, String)| format!("{}={value}", printable(name));
        self.arguments.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Formats the call as an object; `returns`: the probe observes returns.
    fn json(&self, returns: bool) -> Value {
        let arguments: Map<_, _> =
            self.arguments.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut object = json!({
            "time_ns": self.time_ns,
            "comm": self.comm,
            "pid": self.process,
            "tid": self.tid,
            "arguments": arguments,
        });
        if returns {
            object["duration_ns"] = json!(self.duration_ns);
        }
        if !self.frames.is_empty() {
            object["stack"] = json!(self.frames);
        }
        object
    }

    /// Formats the call as an object that names its probe.
    #[must_use]
    pub fn json_with_probe(&self, row: &FunctionRow) -> Value {
        let mut object = self.json(row.returns);
        object["type"] = json!("call");
        object["probe"] = json!(row.name);
        object
    }

    /// Formats the call as `perf trace` formats events; times are relative to `since_ns`.
    #[must_use]
    pub fn line(&self, row: &FunctionRow, since_ns: u64) -> String {
        let at_ms = self.time_ns.saturating_sub(since_ns) as f64 / 1e6;
        let took = if row.returns {
            format!("({:9.3} ms)", self.duration_ns as f64 / 1e6)
        } else {
            " ".repeat(14)
        };
        let comm = &self.comm;
        let tid = self.tid;
        let name = printable(&row.name);
        format!("{at_ms:10.3} {took}: {comm}/{tid} {name}({})\n", self.argument_list())
    }
}

/// The results of one probe.
#[derive(Clone, Debug, Default)]
pub struct FunctionRow {
    /// Its name.
    pub name: String,
    /// Whether the probe observes returns; one on a static tracepoint doesn't.
    pub returns: bool,
    /// The sums.
    pub sums: PlaceSums,
    /// The slowest calls, the slowest first.
    pub slowest: Vec<FunctionCall>,
}

impl FunctionRow {
    /// Creates an empty row.
    #[must_use]
    pub fn new(name: &str, returns: bool) -> Self {
        Self { name: name.to_owned(), returns, ..Self::default() }
    }

    /// Keeps a call if it is among the `most` slowest.
    pub fn keep(&mut self, call: FunctionCall, most: usize) {
        let at = self.slowest.partition_point(|other| other.duration_ns >= call.duration_ns);
        self.slowest.insert(at, call);
        self.slowest.truncate(most);
    }

    /// Returns the mean duration in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.sums.returned == 0 {
            return 0.0;
        }
        self.sums.total_ns as f64 / self.sums.returned as f64
    }

    /// Returns the duration in nanoseconds that this share of the calls didn't exceed, at most the
    /// longest duration.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        self.sums.durations.quantile(share).min(self.sums.max_ns as f64)
    }

    /// Formats the row as an object.
    fn json(&self) -> Value {
        let sums = &self.sums;
        let mut value = json!({ "probe": self.name, "calls": sums.calls });
        if self.returns {
            let buckets: Vec<_> = sums.durations.buckets().collect();
            let slowest: Vec<_> = self.slowest.iter().map(|call| call.json(true)).collect();
            value["returned"] = json!(sums.returned);
            value["total_ns"] = json!(sums.total_ns);
            value["mean_ns"] = json!(self.mean_ns());
            value["p50_ns"] = json!(self.quantile_ns(0.5));
            value["p99_ns"] = json!(self.quantile_ns(0.99));
            value["max_ns"] = json!(sums.max_ns);
            value["histogram"] = json!(buckets);
            value["slowest"] = json!(slowest);
        }
        value
    }

    fn line(&self) -> String {
        let name = printable(&self.name);
        let sums = &self.sums;
        if !self.returns || sums.returned == 0 {
            return format!("{:11} {:9}{:46}{name}\n", "", sums.calls, "");
        }
        let micro = |ns: f64| ns / 1e3;
        format!(
            "{:11.3} {:9} {:10.2} {:10.2} {:10.2} {:10.2}  {name}\n",
            sums.total_ns as f64 / 1e6,
            sums.calls,
            micro(self.mean_ns()),
            micro(self.quantile_ns(0.5)),
            micro(self.quantile_ns(0.99)),
            micro(sums.max_ns as f64),
        )
    }

    fn slowest_lines(&self, into: &mut String) {
        for call in &self.slowest {
            let arguments = call.argument_list();
            let separator = if arguments.is_empty() { "" } else { ": " };
            let ms = call.duration_ns as f64 / 1e6;
            // Writing to a String can't fail.
            let _ =
                writeln!(into, "{ms:11.3} ms  {}/{}{separator}{arguments}", call.comm, call.tid);
            for frame in &call.frames {
                let _ = writeln!(into, "    > {frame}");
            }
        }
    }
}

/// The results of all probes.
#[derive(Clone, Debug, Default)]
pub struct FunctionsSeen {
    /// One row per probe.
    pub rows: Vec<FunctionRow>,
    /// Number of calls that didn't fit in the ring buffer, and its size in bytes.
    pub missing: (u64, u32),
    /// Cost of a probe per call.
    pub cost: Vec<ProbeCost>,
}

impl FunctionsSeen {
    /// Returns the body of a document.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows: Vec<_> = self.rows.iter().map(FunctionRow::json).collect();
        let mut document = json!({ "probes": rows, "missing_records": self.missing.0 });
        if let Some([_, call_ns]) = range(self.cost.iter().map(|cost| cost.call_ns)) {
            document["probe_ns_per_call"] = json!(call_ns);
            let empty = range(self.cost.iter().filter_map(|cost| cost.empty_ns));
            document["empty_function_ns"] = json!(empty.map(|[_, most]| most));
        }
        document
    }

    /// Formats a table, with the slowest calls, the cost of probing and the number of lost records
    /// below it.
    #[must_use]
    pub fn table(&self, histograms: bool) -> String {
        let mut into = table(&self.rows, histograms, &self.cost);
        let (missing, ring_bytes) = self.missing;
        if missing > 0 {
            let _ = writeln!(
                into,
                "tare: {missing} calls did not fit into the ring buffer: they are in the sums, but not shown; --ring-size {}M makes it larger",
                (ring_bytes >> 20).max(1) * 4
            );
        }
        into
    }
}

/// Returns the least and the greatest of several numbers; `None` of none.
fn range(numbers: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let wider = |[least, most]: [f64; 2], [low, high]: [f64; 2]| [least.min(low), most.max(high)];
    numbers.map(|number| [number; 2]).reduce(wider)
}

/// Formats a range of nanoseconds in microseconds: one number if both ends look alike.
fn microseconds([least, most]: [f64; 2]) -> String {
    let [least, most] = [least, most].map(|ns| format!("{:.1}", ns / 1e3));
    if least == most { format!("{most} us") } else { format!("{least} to {most} us") }
}

fn table(rows: &[FunctionRow], histograms: bool, cost: &[ProbeCost]) -> String {
    let mut into =
        String::from("   total ms     calls    mean us     p50 us     p99 us     max us  probe\n");
    for row in rows {
        into.push_str(&row.line());
        if histograms {
            into.push_str(&histogram_lines(row.sums.durations.buckets()));
        }
    }
    for row in rows.iter().filter(|row| !row.slowest.is_empty()) {
        let _ = writeln!(into, "\nslowest calls of {}:", printable(&row.name));
        row.slowest_lines(&mut into);
    }
    into.push('\n');
    let noun = |calls: u64| if calls == 1 { "call" } else { "calls" };
    let calls: u64 = rows.iter().map(|row| row.sums.calls).sum();
    if let Some(added) = range(cost.iter().map(|cost| cost.call_ns)).filter(|_| calls > 0) {
        let empty = range(cost.iter().filter_map(|cost| cost.empty_ns));
        let empty = empty.map(microseconds);
        let _ = writeln!(
            into,
            "tare: {calls} {}; the probe added about {} to each{}",
            noun(calls),
            microseconds(added),
            empty.map_or_else(String::new, |empty| {
                format!(", and an empty function is measured as {empty}")
            })
        );
    }
    let open = rows.iter().filter(|row| row.returns);
    let open: u64 = open.map(|row| row.sums.calls.saturating_sub(row.sums.returned)).sum();
    if open > 0 {
        let _ = writeln!(
            into,
            "tare: {open} {} without a duration: no return was observed",
            noun(open)
        );
    }
    into
}
