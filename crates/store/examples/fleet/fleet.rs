//! A simulated fleet.
//!
//! Services have call trees of their own and run on some of the hosts, in containers that live for
//! hours. Each host takes samples at 19 Hz of one busy CPU; a few stacks of a service are frequent,
//! and most are rare (Zipf).

use std::collections::BTreeMap;
use std::path::Path;

use tare_store::{
    Figures, LabelSet, SegmentBuilder, SegmentInfo, StackFrame, Store, StoreError, StoreOptions,
};

/// 2026-11-26 00:00:00 UTC, in microseconds since 1970.
pub(crate) const DAY_US: i64 = 1_795_651_200_000_000;
const MINUTE_US: i64 = 60_000_000;

/// Samples of a window at 19 Hz, and the period of each in nanoseconds.
const WINDOW_SAMPLES: u64 = 19 * 60;
const PERIOD_NS: u64 = 1_000_000_000 / 19;

/// Makes 430 of 1140 samples differ in their stack.
const ZIPF_EXPONENT: f64 = 1.22;

/// Functions and modules of a service.
const FUNCTIONS: usize = 1500;
const MODULES: u64 = 12;

/// Size of the fleet.
pub(crate) struct Shape {
    pub(crate) hosts: u64,
    pub(crate) hours: u64,
    pub(crate) seed: u64,
    pub(crate) first_hour: u64,
    /// Number of a module of each service whose functions have no names at first; 0 for none.
    pub(crate) nameless_module: u64,
    pub(crate) services: u64,
    /// Distinct stacks of all services together.
    pub(crate) stacks: u64,
    /// Services on a host.
    pub(crate) services_per_host: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            hosts: 60,
            hours: 24,
            seed: 1,
            first_hour: 0,
            nameless_module: 0,
            services: 20,
            stacks: 60_000,
            services_per_host: 4,
        }
    }
}

/// A function of a service.
struct Function {
    name: String,
    file: String,
    module: usize,
    address: u64,
}

/// A frame: index of its function and of one of its call sites.
type CallSite = [u32; 2];

struct Service {
    name: String,
    modules: Vec<[String; 2]>,
    functions: Vec<Function>,
    stacks: Vec<Vec<CallSite>>,
    /// Sums of the stacks' frequencies up to each of them.
    frequencies: Vec<f64>,
}

impl Service {
    fn new(index: u64, stacks: u64, random: &mut fastrand::Rng) -> Self {
        let name = format!("service-{index:02}");
        let module = |number: u64| {
            let own = if number == 0 { name.clone() } else { format!("lib{number}") };
            let id: String = (0..40).map(|_| random.digit(16)).collect();
            [format!("/opt/{name}/lib/{own}.so"), id]
        };
        let modules = (0..MODULES).map(module).collect();
        let words = ["parse", "read", "flush", "hash", "lock", "encode", "merge", "poll", "route"];
        let mut pick = fastrand::Rng::with_seed(index);
        let functions = (0..FUNCTIONS).map(|number| {
            let [first, second, third] = std::array::from_fn(|_| words[pick.usize(0..words.len())]);
            Function {
                name: format!("{first}::{second}_{third}::{number:x}"),
                file: format!("src/{first}/{second}.rs"),
                module: pick.usize(0..usize::try_from(MODULES).unwrap_or(1)),
                address: 0x1000 + number as u64 * 0x140,
            }
        });
        let functions = functions.collect();
        let mut all: Vec<Vec<CallSite>> = Vec::new();
        for _ in 0..stacks {
            all.push(new_stack(&all, &mut pick));
        }
        let mut sum = 0.0;
        let frequencies = (1..=stacks).map(|rank| {
            #[expect(clippy::cast_precision_loss, reason = "a frequency")]
            let frequency = (rank as f64).powf(-ZIPF_EXPONENT);
            sum += frequency;
            sum
        });
        let frequencies = frequencies.collect();
        Self { name, modules, functions, stacks: all, frequencies }
    }

    /// Returns a stack by its frequency.
    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let total = self.frequencies.last().copied().unwrap_or(0.0);
        let drawn = random.f64() * total;
        self.frequencies.partition_point(|sum| *sum < drawn).min(self.stacks.len() - 1)
    }
}

/// Returns a stack, outermost first, that shares its outer frames with an earlier one.
fn new_stack(earlier: &[Vec<CallSite>], random: &mut fastrand::Rng) -> Vec<CallSite> {
    let mut stack = match random.choice(earlier) {
        Some(stack) => stack[..random.usize(1..stack.len())].to_vec(),
        None => Vec::new(),
    };
    let depth = stack.len() + random.usize(2..8);
    while stack.len() < depth.clamp(8, 40) {
        let function = random.usize(0..FUNCTIONS);
        stack.push([u32::try_from(function).unwrap_or(0), random.u32(0..4)]);
    }
    stack
}

/// Writes all windows of a fleet.
pub(crate) fn generate(folder: &Path, shape: &Shape) -> Result<(), StoreError> {
    let mut random = fastrand::Rng::with_seed(shape.seed);
    let stacks = shape.stacks / shape.services;
    let services: Vec<Service> =
        (0..shape.services).map(|index| Service::new(index, stacks, &mut random)).collect();
    let store = Store::open(folder, StoreOptions::default())?;
    for minute in shape.first_hour * 60..(shape.first_hour + shape.hours) * 60 {
        for host in 0..shape.hosts {
            let mut random = fastrand::Rng::with_seed(shape.seed ^ ((host << 32) | (minute + 1)));
            let segment = window(&services, shape, [host, minute], &mut random);
            store.write(&segment.finish(Figures {
                samples: WINDOW_SAMPLES,
                recorder_cpu_us: 40_000 + random.u64(0..9_000),
                kernel_us: 4_000 + random.u64(0..900),
                unnamed: random.u64(0..20),
                truncated: random.u64(0..9),
                rate_millihertz: 19_000,
                cpus: 2,
                ..Figures::default()
            }))?;
        }
    }
    Ok(())
}

/// Returns the window of a host and minute.
fn window(
    services: &[Service],
    shape: &Shape,
    place: [u64; 2],
    random: &mut fastrand::Rng,
) -> SegmentBuilder {
    let [host, minute] = place;
    // Hosts began at different seconds.
    let offset_us = (host.cast_signed() * 7_919) % 60 * 1_000_000;
    let start_us = DAY_US + minute.cast_signed() * MINUTE_US + offset_us;
    let mut window = SegmentBuilder::new(SegmentInfo {
        host: format!("host-{host:03}"),
        boot: format!("{host:08x}-5f1c-4e0e-9f51-0c8a4c8d2b11"),
        kernel: "6.18.5".to_owned(),
        agent_version: "0.1.0".to_owned(),
        start_us,
        end_us: start_us + MINUTE_US,
    });
    let event = window.text("cpu-clock");
    for slot in 0..shape.services_per_host {
        let index = (host * shape.services_per_host + slot * 7) % shape.services;
        let mut labels = labels(&mut window, &services[usize::try_from(index).unwrap_or(0)], place);
        if shape.nameless_module > 0 && host == 2 {
            labels.extra = Some(window.text(r#"{"env":"test"}"#));
        }
        let service = &services[usize::try_from(index).unwrap_or(0)];
        let mut counts = BTreeMap::new();
        for _ in 0..WINDOW_SAMPLES / shape.services_per_host {
            *counts.entry(service.draw(random)).or_insert(0) += 1;
        }
        for (stack, samples) in counts {
            let sites = service.stacks[stack].iter().rev();
            let frames: Vec<StackFrame> =
                sites.map(|site| frame(&mut window, service, *site, shape)).collect();
            let stack = window.stack(&frames);
            window.add(&labels, event, None, stack, samples, samples * PERIOD_NS);
        }
    }
    window
}

fn labels(window: &mut SegmentBuilder, service: &Service, place: [u64; 2]) -> LabelSet {
    let [host, minute] = place;
    let name = &service.name;
    // A deployment at noon.
    let version = if minute < 12 * 60 { "1.4.2" } else { "1.5.0" };
    let generation = minute / (6 * 60);
    let container = format!("{name}{host:03}{generation}");
    let container: String =
        container.bytes().cycle().take(32).map(|b| format!("{b:02x}")).collect();
    let mut text = |text: &str| Some(window.text(text));
    LabelSet {
        service: text(name),
        version: text(version),
        container: text(&container),
        process: text(name),
        thread: text("worker-*"),
        unit: text("kubelet.service"),
        namespace: text("shop"),
        pod: text(&format!("{name}-{host:03}-{generation}")),
        owner: text(&format!("deployment/{name}")),
        image: text(&format!("registry.example/{name}:{version}")),
        extra: None,
    }
}

fn frame(
    window: &mut SegmentBuilder,
    service: &Service,
    site: CallSite,
    shape: &Shape,
) -> StackFrame {
    let function = &service.functions[site[0] as usize];
    let is_nameless = shape.nameless_module > 0 && function.module as u64 == shape.nameless_module;
    let [module, build_id] = &service.modules[function.module];
    StackFrame {
        function: (!is_nameless).then(|| window.text(&function.name)),
        file: (!is_nameless).then(|| window.text(&function.file)),
        line: (!is_nameless).then_some(10 + site[0] % 400 + site[1]),
        module: Some(window.text(module)),
        build_id: Some(window.text(build_id)),
        address: function.address + u64::from(site[1]) * 0x20,
    }
}
