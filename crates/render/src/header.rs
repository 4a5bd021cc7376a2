//! A recording's header, its machine, session and events, as comment lines.

use std::io::{self, Write};

use tare_format::abi::{Attr, Sampling};
use tare_format::file::features::{
    ARCH, CPUDESC, CPUID, Compression, HOSTNAME, OSRELEASE, TOTAL_MEM, VERSION,
};
use tare_format::file::{Description, Features, RecordedEvent};
use tare_format::{hex, printable};

/// Writes a recording's machine, session and events, which have these `names`; with `is_full` also
/// the long parts, such as the topology and build ids.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn header(
    out: &mut dyn Write,
    description: &Description,
    names: &[Vec<u8>],
    is_full: bool,
) -> io::Result<()> {
    let features = description.features();
    let text = |out: &mut dyn Write, title: &str, feature| match features.text(feature) {
        Ok(text) => writeln!(out, "# {title} : {}", printable(text)),
        Err(_) => Ok(()),
    };
    text(out, "hostname", HOSTNAME)?;
    text(out, "os release", OSRELEASE)?;
    text(out, "perf version", VERSION)?;
    text(out, "arch", ARCH)?;
    if let Ok((available, online)) = features.cpus() {
        writeln!(out, "# nrcpus online : {online}\n# nrcpus avail : {available}")?;
    }
    text(out, "cpudesc", CPUDESC)?;
    text(out, "cpuid", CPUID)?;
    if let Ok(kib) = features.number(TOTAL_MEM) {
        writeln!(out, "# total memory : {kib} kB")?;
    }
    if let Ok(words) = features.cmdline() {
        let words: Vec<_> = words.into_iter().map(printable).collect();
        writeln!(out, "# cmdline : {} ", words.join(" "))?;
    }
    for (described, name) in description.events().iter().zip(names) {
        writeln!(out, "# {}", format_event(described, name))?;
    }
    if let Ok(pmus) = features.pmu_mappings() {
        let pmus: Vec<_> = pmus
            .into_iter()
            .map(|(number, name)| format!("{} = {number}", printable(name)))
            .collect();
        writeln!(out, "# pmu mappings: {}", pmus.join(", "))?;
    }
    if let Ok((first_ns, last_ns)) = features.sample_time_ns() {
        let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000);
        writeln!(
            out,
            "# time of first sample : {}\n# time of last sample : {}",
            seconds(first_ns),
            seconds(last_ns)
        )?;
        writeln!(
            out,
            "# sample duration : {:10.3} ms",
            last_ns.saturating_sub(first_ns) as f64 / 1e6
        )?;
    }
    if let Ok(Compression { kind, level, ratio, .. }) = features.compression() {
        let name = if kind == 1 { "Zstd" } else { "Unknown" };
        writeln!(out, "# compressed : {name}, level = {level}, ratio = {ratio}")?;
    }
    if is_full { write_long_parts(out, features) } else { Ok(()) }
}

/// Writes the parts that can be long.
fn write_long_parts(out: &mut dyn Write, features: &Features) -> io::Result<()> {
    if let Ok(topology) = features.cpu_topology() {
        for (title, lists) in
            [("sibling sockets", &topology.sockets), ("sibling threads", &topology.cores)]
        {
            lists.iter().try_for_each(|list| writeln!(out, "# {title} : {}", printable(list)))?;
        }
        for (cpu, place) in topology.cpus.iter().enumerate() {
            writeln!(out, "# CPU {cpu}: Core ID {}, Socket ID {}", place.core, place.socket)?;
        }
    }
    for node in features.numa_topology().unwrap_or_default() {
        let total = node.total_kib;
        let free = node.free_kib;
        writeln!(
            out,
            "# node{} meminfo : total = {total} kB, free = {free} kB\n# node{} cpu list : {}",
            node.node,
            node.node,
            printable(node.cpus)
        )?;
    }
    for cache in features.caches().unwrap_or_default() {
        let kind = printable(cache.kind);
        let size = printable(cache.size);
        let cpus = printable(cache.cpus);
        writeln!(out, "# L{} {kind:<15} {size} [{cpus}]", cache.level)?;
    }
    for group in features.group_desc().unwrap_or_default() {
        writeln!(
            out,
            "# group: {} with {} members from event {} on",
            printable(group.name),
            group.members,
            group.leader
        )?;
    }
    if let Ok(clock) = features.clock_data() {
        let wall_clock_ns = clock.wall_clock_ns;
        let clock_ns = clock.clock_ns;
        writeln!(
            out,
            "# clock {} was at {clock_ns} ns when the time of day was {wall_clock_ns} ns",
            clock.clockid
        )?;
    }
    if let Ok(build_ids) = features.build_ids() {
        for id in build_ids {
            writeln!(out, "# build id {} {}", hex(id.build_id), printable(id.path))?;
        }
    }
    Ok(())
}

/// Formats an event's attributes by the kernel's names; zeros are left out.
fn format_event(event: &RecordedEvent, name: &[u8]) -> String {
    let Attr {
        kind,
        config,
        config1,
        config2,
        sampling,
        sample_type,
        read_format,
        flags,
        precise_ip,
        ..
    } = &event.attr;
    let mut words = vec![format!("event : name = {}", printable(name))];
    if !event.ids.is_empty() {
        let ids: Vec<_> = event.ids.iter().take(16).map(u64::to_string).collect();
        let more = if event.ids.len() > ids.len() {
            format!(", and {} more", event.ids.len() - ids.len())
        } else {
            String::new()
        };
        words.push(format!("id = {{ {}{more} }}", ids.join(", ")));
    }
    words.push(format!("type = {kind}"));
    let hexadecimal = [
        ("config", *config),
        ("config1", *config1),
        ("config2", *config2),
        ("sample_type", *sample_type),
    ];
    words.extend(
        hexadecimal
            .into_iter()
            .filter(|(_, value)| *value != 0)
            .map(|(name, value)| format!("{name} = {value:#x}")),
    );
    match sampling {
        Sampling::None => {}
        Sampling::Period(period) => words.push(format!("sample_period = {period}")),
        Sampling::Frequency(hertz) => words.push(format!("sample_freq = {hertz}")),
    }
    if *precise_ip > 0 {
        words.push(format!("precise_ip = {precise_ip}"));
    }
    let names = read_format.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("|");
    words.extend((!names.is_empty()).then(|| format!("read_format = {names}")));
    words.extend(flags.iter_names().map(|(name, _)| format!("{} = 1", name.to_lowercase())));
    words.join(", ")
}
