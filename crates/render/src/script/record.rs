//! Records other than samples, in the format of `perf script`.

use tare_format::abi::bindings::PERF_RECORD_MISC_MMAP_DATA;
use tare_format::hex;
use tare_format::record::{
    BpfEvent, Cgroup, FileId, Ksymbol, Mmap, Namespaces, RawRecord, Record, Switch, Task, TextPoke,
    kind,
};

use super::digits::name;

/// Appends a record's kind and fields, and a line break.
pub fn record(text: &mut Vec<u8>, raw: &RawRecord<'_>, fields: &Record<'_>) {
    text.extend_from_slice(b"PERF_RECORD_");
    text.extend_from_slice(kind::name(raw.kind).unwrap_or("UNKNOWN").as_bytes());
    match fields {
        Record::Mmap(mmap) => write_map(text, raw.misc, mmap),
        Record::Comm(comm) => {
            text.extend_from_slice(if comm.is_exec { b" exec: " } else { b": " });
            name(text, comm.comm);
            text.extend_from_slice(format!(":{}/{}", comm.pid, comm.tid).as_bytes());
        }
        Record::Fork(task) | Record::Exit(task) => {
            let Task { pid, ppid, tid, ptid, .. } = task;
            text.extend_from_slice(format!("({pid}:{tid}):({ppid}:{ptid})").as_bytes());
        }
        Record::Switch(switch) => write_switch(text, switch),
        Record::Lost(lost) => text.extend_from_slice(format!(" lost {}", lost.lost).as_bytes()),
        Record::Namespaces(namespaces) => write_links(text, namespaces),
        Record::Ksymbol(Ksymbol { addr, len, ksym_type: kind, flags, name: symbol }) => {
            let fields = format!(" addr {addr:x} len {len} type {kind} flags {flags:#x} name ");
            text.extend_from_slice(fields.as_bytes());
            name(text, symbol);
        }
        Record::BpfEvent(BpfEvent { event_type: kind, flags, id, .. }) => {
            let fields = format!(" type {kind}, flags {flags}, id {id}");
            text.extend_from_slice(fields.as_bytes());
        }
        Record::TextPoke(TextPoke { addr, old, new }) => {
            let bytes =
                |code: &[u8]| code.iter().map(|byte| format!(" {byte:02x}")).collect::<String>();
            let old_len = old.len();
            let new_len = new.len();
            let fields = format!(" addr {addr:#x} old len {old_len} new len {new_len}");
            text.extend_from_slice(fields.as_bytes());
            let code = format!("\n  old bytes:{}\n  new bytes:{}", bytes(old), bytes(new));
            text.extend_from_slice(code.as_bytes());
        }
        Record::Cgroup(Cgroup { id, path }) => {
            text.extend_from_slice(format!(" cgroup: {id} ").as_bytes());
            name(text, path);
        }
        _ => {}
    }
    text.push(b'\n');
}

fn write_map(text: &mut Vec<u8>, misc: u16, mmap: &Mmap<'_>) {
    let Mmap { pid, tid, start, len, pgoff, .. } = mmap;
    text.extend_from_slice(
        format!(" {pid}/{tid}: [{}({}) @ {}", c_hex(*start), c_hex(*len), c_hex(*pgoff)).as_bytes(),
    );
    match mmap.file {
        FileId::None => {}
        FileId::Inode { major, minor, inode, generation } => {
            text.extend_from_slice(
                format!(" {major:02x}:{minor:02x} {inode} {generation}").as_bytes(),
            );
        }
        FileId::BuildId(id) => {
            text.extend_from_slice(format!(" <{}>", hex(id)).as_bytes());
        }
    }
    let flag = |is_set: bool, letter: char| if is_set { letter } else { '-' };
    if mmap.file == FileId::None {
        let is_data = u32::from(misc) & PERF_RECORD_MISC_MMAP_DATA != 0;
        text.extend_from_slice(if is_data { b"]: r " } else { b"]: x " });
    } else {
        let prot = mmap.prot;
        let is_shared = mmap.flags & 1 != 0;
        let letters = [
            flag(prot & 1 != 0, 'r'),
            flag(prot & 2 != 0, 'w'),
            flag(prot & 4 != 0, 'x'),
            if is_shared { 's' } else { 'p' },
        ];
        text.extend_from_slice(format!("]: {} ", letters.iter().collect::<String>()).as_bytes());
    }
    name(text, mmap.path);
}

/// Formats a number as C's `%#x` does, which prints 0 as `0`.
fn c_hex(number: u64) -> String {
    if number == 0 { "0".to_owned() } else { format!("{number:#x}") }
}

fn write_switch(text: &mut Vec<u8>, switch: &Switch) {
    let way = match (switch.is_out, switch.is_preempted) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    };
    text.extend_from_slice(format!(" {way}").as_bytes());
    if let Some((pid, tid)) = switch.other {
        text.extend_from_slice(
            format!("  {} pid/tid: {pid:5}/{tid:<5}", if switch.is_out { "next" } else { "prev" })
                .as_bytes(),
        );
    }
}

fn write_links(text: &mut Vec<u8>, namespaces: &Namespaces<'_>) {
    const NAMES: [&str; 8] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup", "time"];
    let links = namespaces.links();
    text.extend_from_slice(
        format!(" {}/{} - nr_namespaces: {}\n\t\t[", namespaces.pid, namespaces.tid, links.len())
            .as_bytes(),
    );
    let last = links.len().saturating_sub(1);
    for (at, link) in links.enumerate() {
        let end = match at {
            at if at == last => "]",
            at if at % 4 == 3 => ", \n\t\t ",
            _ => ", ",
        };
        text.extend_from_slice(
            format!(
                "{at}/{}: {}/{}{end}",
                NAMES.get(at).unwrap_or(&"unknown"),
                link.dev,
                c_hex(link.inode)
            )
            .as_bytes(),
        );
    }
}
