//! The fields of tracepoints as text.

use tare_format::abi::Attr;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::{Description, Event, features};
use tare_format::tracepoint::{Names, TracingData};

use super::line;
use tare_replay::{Machine, Mode};

/// The descriptions of a recording's tracepoints.
#[derive(Debug, Default)]
pub(super) struct Tracing {
    data: Option<TracingData>,
    text: Vec<u8>,
}

impl Tracing {
    /// Takes the descriptions in, once they are there.
    pub(super) fn learn(&mut self, description: &Description) {
        if self.data.is_none() {
            let section = description.features().section(features::TRACING_DATA);
            self.data = section.and_then(|section| TracingData::parse(section).ok());
        }
    }

    /// An event's name; where the recording has none, what its attributes say.
    pub(super) fn event_name(&self, event: &Event) -> Vec<u8> {
        let Attr { kind, config, .. } = event.attr;
        let tracepoint = || {
            self.data
                .as_ref()
                .filter(|_| kind == PERF_TYPE_TRACEPOINT)?
                .name(config)
                .map(String::into_bytes)
        };
        event
            .name
            .clone()
            .or_else(tracepoint)
            .unwrap_or_else(|| format!("type {kind} config {config:#x}").into_bytes())
    }

    /// Adds a sample's raw bytes as its tracepoint prints them.
    pub(super) fn print(&mut self, out: &mut Vec<u8>, machine: &mut Machine, id: u64, raw: &[u8]) {
        let Some(data) = &self.data else { return };
        let Some(format) = data.format(id) else { return };
        self.text.clear();
        format.print(raw, data.endian, &mut Kernel { machine, data }, &mut self.text);
        line::name(out, &self.text);
    }
}

/// What addresses of the recorded kernel are called.
struct Kernel<'a> {
    machine: &'a mut Machine,
    data: &'a TracingData,
}

impl Names for Kernel<'_> {
    fn symbol(&mut self, address: u64) -> Option<(String, u64)> {
        let place = self.machine.place(Mode::Kernel, -1, address)?;
        let symbol = self.machine.symbol(place).ok()?;
        let start = address.wrapping_sub(place.address.wrapping_sub(symbol.start));
        Some((self.machine.symbol_name(symbol).to_owned(), start))
    }

    fn text(&mut self, address: u64) -> Option<String> {
        self.data.printk(address).map(str::to_owned)
    }
}
