//! Hostile files in place of a perf map, as the recorded program, and from a debuginfod: tare
//! finishes and gives a reason.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{ProcessGuard, stderr, tare, wait_until};
use crate::symbols::{SPIN, compile, record, record_jit, run};

/// Debug info whose functions refer to each other and to themselves as origin.
const CYCLIC: &str = r#"
__asm__(
".section .debug_abbrev,\"\",@progbits\n"
".Labbrev:\n"
".byte 1,0x11,1, 0x11,1, 0x12,7, 0,0\n"
".byte 2,0x2e,1, 0x11,1, 0x12,7, 0x31,0x13, 0,0\n"
".byte 3,0x1d,0, 0x11,1, 0x12,7, 0x31,0x13, 0,0\n"
".byte 0\n"
".section .debug_info,\"\",@progbits\n"
".Lunit: .long .Lend - .Lversion\n"
".Lversion: .2byte 4\n .long .Labbrev\n .byte 8\n"
" .byte 1\n .8byte hot_function, 4096\n"
".Louter: .byte 2\n .8byte hot_function, 4096\n .long .Louter - .Lunit\n"
".Lone: .byte 3\n .8byte hot_function, 4096\n .long .Lother - .Lunit\n"
".Lother: .byte 3\n .8byte hot_function, 4096\n .long .Lone - .Lunit\n"
" .byte 0, 0\n"
".Lend:\n"
".text\n");
"#;

/// Reads a recording with a limit of one minute and 1 GiB of address space.
fn read(words: &str, file: &Path, environment: &[(&str, &str)]) -> Output {
    let tare = env!("CARGO_BIN_EXE_tare");
    let line = format!("ulimit -v 1048576; exec timeout -s KILL 60 {tare} {words} -i \"$1\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, "sh"]).arg(file).stdin(Stdio::null());
    shell.env_remove("HOME").env_remove("DEBUGINFOD_URLS").envs(environment.iter().copied());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{words}: {output:?}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_fifo_stands_in_place_of_a_perf_map() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, pid, _)) = record_jit(folder.path()) else { return };
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    run("mkfifo", &[&format!("tmp/perf-{pid}.map")], folder.path());
    let symfs = folder.path().display();
    let said = text(&read(&format!("script --json --symfs {symfs}"), &file, &[]));
    assert!(said.contains("it must be a regular file"), "{said:.2000}");
}

/// The program runs normally, because the kernel doesn't load the hostile sections.
#[test]
fn the_recorded_programs_symbols_share_a_long_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(binary) = compile(folder.path(), SPIN, "spin", &["-no-pie"]) else { return };
    let mut bytes = std::fs::read(&binary).unwrap();
    damage_symbols(&mut bytes);
    std::fs::write(&binary, bytes).unwrap();
    let file = folder.path().join("perf.data");
    if record(&binary, &file).is_none() {
        return;
    }
    for words in [
        "report --stdio --no-cache",
        "script --no-demangle --no-cache",
        "report --json --no-demangle --no-cache --inline",
    ] {
        let said = text(&read(words, &file, &[]));
        assert!(said.contains("xxxxxxxxxxxxxxxx"), "{words}: {said:.2000}");
        let longest = said.lines().map(str::len).max().unwrap_or(0);
        assert!(longest < 1 << 20, "{words}: a line of {longest} bytes");
    }
}

/// Thousands of symbols whose names are suffixes of one name of 1 MiB, in a table that claims
/// entries of the largest size.
fn damage_symbols(file: &mut Vec<u8>) {
    const SYMTAB: u32 = 2;
    let word = |file: &[u8], at: usize| u64::from_le_bytes(*file[at..].first_chunk().unwrap());
    let half = |file: &[u8], at: usize| u32::from_le_bytes(*file[at..].first_chunk().unwrap());
    let entry = word(file, 24);
    let headers = usize::try_from(word(file, 40)).unwrap();
    let is_table = |at: &usize| half(file, at + 4) == SYMTAB;
    let table = (headers..).step_by(64).take(64).find(is_table).expect("a table of symbols");
    let names = headers + 64 * half(file, table + 40) as usize;
    let mut put = |header: usize, bytes: &[u8]| {
        let place = [file.len() as u64, bytes.len() as u64].map(u64::to_le_bytes).concat();
        file[header + 24..header + 40].copy_from_slice(&place);
        file.extend(bytes);
    };
    let symbol = |number: u32| {
        // A global function in the first section.
        let front = u64::from(number) | 0x12 << 32 | 1 << 48;
        [front, entry - 0x1000 + u64::from(number % 0x4000), 1 << 20].map(u64::to_le_bytes).concat()
    };
    put(table, &(1..16_500).flat_map(symbol).collect::<Vec<_>>());
    put(names, &[&[0][..], &[b'x'; 1 << 20], &[0]].concat());
    file[table + 56..table + 64].copy_from_slice(&u64::MAX.to_le_bytes());
}

#[test]
fn the_recorded_programs_debug_info_goes_round_in_circles() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!("{SPIN}{CYCLIC}");
    let Some(binary) = compile(folder.path(), &source, "spin", &["-no-pie"]) else { return };
    let file = folder.path().join("perf.data");
    if record(&binary, &file).is_none() {
        return;
    }
    for words in ["report --stdio --inline", "report --stdio --sort srcline,sym", "script --inline"]
    {
        let said = text(&read(&format!("{words} --no-cache"), &file, &[]));
        assert!(said.contains("hot_function"), "{words}: {said}");
    }
}

/// A server that answers every request with zeros without end.
#[test]
fn a_debuginfod_sends_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-Wl,--build-id=sha1", "-s"];
    let Some(binary) = compile(folder.path(), SPIN, "spin", &flags) else { return };
    let file = folder.path().join("perf.data");
    if record(&binary, &file).is_none() {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming().flatten() {
            std::thread::spawn(move || send_for_ever(stream));
        }
    });
    let cache = folder.path().join("cache");
    let environment = [
        ("DEBUGINFOD_URLS", url.as_str()),
        ("DEBUGINFOD_CACHE_PATH", cache.to_str().unwrap()),
        ("DEBUGINFOD_MAXSIZE", "1000000"),
    ];
    let output = read("report --stdio", &file, &environment);
    let said = stderr(&output);
    assert!(said.contains("DEBUGINFOD_MAXSIZE") && said.lines().count() == 1, "{said}");
    let kept = walk(&cache);
    assert!(kept <= 1_000_000, "{kept} bytes are kept");
}

/// Sends until the reader is gone.
fn send_for_ever(mut stream: TcpStream) {
    let asked = stream.read(&mut [0; 4096]);
    let begun = asked.and_then(|_| stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
    while begun.is_ok() && stream.write_all(&[0; 1 << 16]).is_ok() {}
}

/// Total size of the files below a folder.
fn walk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => walk(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// A mapped file that is truncated while it is read raises SIGBUS. Each command that reads symbols
/// catches it before it opens the recording, here a FIFO.
#[test]
fn every_reader_survives_the_truncation_of_a_mapped_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run("mkfifo", &["fifo"], folder);
    for words in [
        &["report", "--stdio", "-i", "fifo"][..],
        &["script", "-i", "fifo"],
        &["annotate", "--stdio", "-i", "fifo", "-s", "main"],
        &["flame", "-i", "fifo", "-o", "x.html"],
        &["export", "-i", "fifo", "-f", "folded", "-o", "x"],
        &["diff", "fifo", "fifo"],
        &["archive", "fifo", "-o", "x.tar.zst"],
    ] {
        let mut command = tare();
        command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let process = ProcessGuard::spawn(command.stderr(Stdio::null()));
        let path = format!("/proc/{}/status", process.id());
        let is_caught = || {
            let status = std::fs::read_to_string(&path).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            let bus = 1 << (rustix::process::Signal::BUS.as_raw() - 1);
            caught.is_some_and(|caught| caught & bus != 0)
        };
        wait_until(&format!("{words:?} catches SIGBUS"), is_caught);
    }
}
