//! Decodes the raw bytes of tracepoints' samples, and names events.

use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_format::file::{Description, RecordedEvent, features};
use tare_format::tracepoint::{Names, TracingData};

use crate::cpumode::CpuMode;
use crate::event_name::from_attr;
use crate::machine::Machine;

/// The descriptions of a recording's tracepoints.
#[derive(Debug, Default)]
pub struct Tracepoints {
    data: Option<TracingData>,
    text: Vec<u8>,
    is_raw: bool,
}

impl Tracepoints {
    /// Makes an empty set. `is_raw` prints each field by its type, as perf does with `--raw-trace`,
    /// instead of by the tracepoint's own format.
    #[must_use]
    pub fn new(is_raw: bool) -> Self {
        Self { is_raw, ..Self::default() }
    }

    /// Reads the descriptions, once the recording has them.
    pub fn learn(&mut self, description: &Description) {
        if self.data.is_none() {
            let section = description.features().section(features::TRACING_DATA);
            self.data = section.and_then(|section| TracingData::parse(section).ok());
        }
    }

    /// Returns an event's recorded name, or else one made from its tracepoint or its attributes.
    /// Untrusted.
    #[must_use]
    pub fn event_name(&self, event: &RecordedEvent) -> Vec<u8> {
        let tracepoint = || {
            let data = self.data.as_ref().filter(|_| event.attr.kind == PERF_TYPE_TRACEPOINT)?;
            data.name(event.attr.config).map(String::into_bytes)
        };
        event
            .name
            .clone()
            .or_else(tracepoint)
            .unwrap_or_else(|| from_attr(&event.attr).into_bytes())
    }

    /// Returns the names of a tracepoint's own fields, or `None` if the recording doesn't describe
    /// it.
    #[must_use]
    pub fn field_names(&self, event: &RecordedEvent) -> Option<Vec<String>> {
        let data = self.data.as_ref().filter(|_| event.attr.kind == PERF_TYPE_TRACEPOINT)?;
        let fields = data.format(event.attr.config)?.fields.iter().map(|field| field.name.clone());
        // All tracepoints share the common fields.
        Some(fields.filter(|name| !name.starts_with("common_")).collect())
    }

    /// Returns the fields of a tracepoint's sample as text, or nothing if the recording doesn't
    /// describe the tracepoint. `id` is the event's `config`. Untrusted.
    pub fn fields(&mut self, machine: &mut Machine, id: u64, raw: &[u8]) -> &[u8] {
        self.text.clear();
        if let Some(data) = &self.data
            && let Some(format) = data.format(id)
        {
            if self.is_raw {
                format.print_fields(raw, data.endian, &mut self.text);
            } else {
                format.print(raw, data.endian, &mut Kernel { machine, data }, &mut self.text);
            }
        }
        &self.text
    }
}

/// Names addresses of the recorded kernel.
struct Kernel<'a> {
    machine: &'a mut Machine,
    data: &'a TracingData,
}

impl Names for Kernel<'_> {
    fn symbol(&mut self, address: u64) -> Option<(String, u64)> {
        let found = self.machine.dso_address(CpuMode::Kernel, -1, address)?;
        let symbol = self.machine.symbol(found).ok()?;
        let start = address.wrapping_sub(found.address.wrapping_sub(symbol.start));
        Some((self.machine.symbol_name(symbol).to_owned(), start))
    }

    fn text(&mut self, address: u64) -> Option<String> {
        self.data.printk(address).map(str::to_owned)
    }
}
