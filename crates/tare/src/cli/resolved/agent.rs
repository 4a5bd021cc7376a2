//! Options of `tare agent`: those of its file, then those of the command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_agent::config::{Config, Interval, Share, Size, ValueError};
use tare_agent::push::PushTarget;
use tare_format::abi::Flags;
use tare_kernel::host::Host;
use tare_record::RecorderOptions;
use tare_record::options::Budget;

use crate::cli::raw;
use crate::cli::resolved::record::RecordOptions;
use crate::exit::Refusal;

/// The file that is read if it exists.
const CONFIG: &str = "/etc/tare/agent.toml";

/// The value of `--call-graph`: the recorder unwinds copies of this size at most, and deeper stacks
/// with BPF.
const CALL_GRAPH: &str = "auto,16384";

/// Size of a ring buffer: room for a second of samples with copied stacks, at usual rates.
const RING: &str = "1M";

/// Options of `tare agent`.
#[derive(Debug)]
pub(crate) struct AgentOptions {
    /// The configuration.
    pub(crate) config: Config,
    /// Where it comes from; `None` without a file.
    pub(crate) file: Option<String>,
    /// Options of the recorder.
    pub(crate) recorder: RecorderOptions,
    /// Where agents of this host lock each other out; `None` if it isn't known.
    pub(crate) lock_folder: Option<PathBuf>,
    /// Time after which the agent ends.
    pub(crate) timeout: Option<Duration>,
}

impl AgentOptions {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub(crate) fn resolve(raw: &raw::AgentArgs, host: &Host) -> Result<Self, Refusal> {
        let file = raw.config.as_deref().or_else(|| {
            let default = Path::new(CONFIG);
            default.exists().then_some(default)
        });
        let mut config = file.map_or_else(|| Ok(Config::default()), read)?;
        add_typed(&mut config, raw)?;
        config.validate().map_err(|error| Refusal::usage(error.to_string()))?;
        let mut recorder = RecordOptions::resolve(record(&config), host)?.options;
        recorder.sampling.budget =
            Some(Budget { share: config.max_overhead.0, min_hz: config.min_rate });
        recorder.build_ids = false;
        // Stacks are known by the build ids of their files.
        recorder.sampling.tracking.insert(Flags::BUILD_ID);
        let file = file.map(|path| path.display().to_string());
        let lock_folder = lock_folder();
        Ok(Self { config, file, recorder, lock_folder, timeout: raw.end.duration() })
    }
}

/// Returns the folder that systemd made for the agent, else one that all agents of this user share.
fn lock_folder() -> Option<PathBuf> {
    let folder_of = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        // systemd separates several folders by colons.
        let first = value?.to_str()?.split(':').next().map(PathBuf::from);
        first.filter(|path| path.is_absolute())
    };
    let is_root = rustix::process::geteuid().is_root();
    let shared = || if is_root { Some("/run".into()) } else { folder_of("XDG_RUNTIME_DIR") };
    folder_of("RUNTIME_DIRECTORY").or_else(|| Some(shared()?.join("tare")))
}

fn read(path: &Path) -> Result<Config, Refusal> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refusal::usage(format!("--config {}: {error}", path.display())))?;
    Config::parse(&text).map_err(|error| Refusal::usage(format!("{}: {error}", path.display())))
}

fn add_typed(config: &mut Config, raw: &raw::AgentArgs) -> Result<(), Refusal> {
    fn set<T>(into: &mut T, typed: Option<T>) {
        if let Some(typed) = typed {
            *into = typed;
        }
    }
    set(&mut config.store, raw.store.clone());
    set(&mut config.spool.folder, raw.spool.clone());
    set(&mut config.spool.size, parsed("--spool-size", raw.spool_size.as_ref(), Size::parse)?);
    set(&mut config.window, parsed("--window", raw.window.as_ref(), Interval::parse)?);
    set(&mut config.frequency, raw.frequency);
    set(
        &mut config.max_overhead,
        parsed("--max-overhead", raw.max_overhead.as_ref(), Share::parse)?,
    );
    set(&mut config.min_rate, raw.min_rate);
    let age = parsed("--max-age", raw.max_age.as_ref(), Interval::parse)?;
    config.limits.age = age.or(config.limits.age);
    let size = parsed("--max-size", raw.max_size.as_ref(), Size::parse)?;
    config.limits.size = size.or(config.limits.size);
    config.cgroup = raw.cgroup.clone().or(config.cgroup.take());
    config.host = raw.host.clone().or(config.host.take());
    config.metrics = raw.metrics.or(config.metrics);
    config.metrics_public |= raw.metrics_public;
    config.off_cpu |= raw.off_cpu;
    config.keep_addresses |= raw.keep_addresses;
    config.labels.command_line |= raw.label_command_line;
    config.labels.environment.extend(raw.label_env.iter().cloned());
    for url in &raw.push {
        let target = PushTarget::from_url(url);
        config.push.push(target.map_err(|error| Refusal::usage(format!("--{error}")))?);
    }
    if !raw.events.events.is_empty() {
        config.events.clone_from(&raw.events.events);
    }
    Ok(())
}

fn parsed<T>(
    option: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<Option<T>, Refusal> {
    let refuse = |text: &String, error| Refusal::usage(format!("{option} {text}: {error}"));
    text.map(|text| parse(text).map_err(|error| refuse(text, error))).transpose()
}

/// Options of the `tare record` that records the same.
fn record(config: &Config) -> raw::RecordArgs {
    let mut record = raw::RecordArgs::default();
    record.events.list.events.clone_from(&config.events);
    let sampler = &mut record.sampling.sampler;
    sampler.frequency = Some(config.frequency.to_string());
    sampler.call_graph = Some(CALL_GRAPH.to_owned());
    sampler.all_cgroups = true;
    sampler.mmap_pages = Some(RING.to_owned());
    record.sampling.sample_cpu = true;
    record.off_cpu.off_cpu = config.off_cpu;
    let running = &mut record.target.attach.running;
    running.all_cpus = config.cgroup.is_none();
    running.cgroup.extend(config.cgroup.clone());
    record
}
