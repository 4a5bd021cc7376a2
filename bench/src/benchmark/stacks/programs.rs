//! Debian's own programs: the share of whole chains, beside frame pointers, and the size of files
//! beside copies of stacks.

use std::path::Path;

use serde_json::{Value, json};

use super::finding;
use crate::report::{Bound, Report};
use crate::run::succeed;
use crate::scratch::Scratch;

/// A program, and a shell command that keeps it busy for some seconds.
struct BusyProgram {
    name: &'static str,
    command: &'static str,
    /// Least share of chains that reach the start of their thread.
    whole: f64,
}

const PROGRAMS: [BusyProgram; 9] = [
    BusyProgram {
        name: "g++",
        command: "printf '#include <regex>\\n#include <map>\\nint main() { std::map<int, std::regex> all; return std::regex_match(\"a\", all[1]); }\\n' | g++ -O2 -x c++ -o /dev/null -",
        whole: 0.99,
    },
    BusyProgram {
        name: "sqlite3",
        command: "sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) select sum(length(hex(i)) * i) from n order by 1; create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select i, random() r from n; select count(*) from t a join t b on a.i = b.r;'",
        whole: 0.99,
    },
    BusyProgram { name: "xz", command: "seq 1 1200000 | xz -6 -T1 | wc -c", whole: 0.99 },
    BusyProgram {
        name: "python3",
        command: "/usr/bin/python3 -c \"import json, re; print(sum(len(re.sub('a+', 'b', json.dumps(list(range(i % 500))))) for i in range(6000)))\"",
        whole: 0.99,
    },
    BusyProgram {
        name: "perl",
        command: "perl -e 'my %h; for my $i (1 .. 1200000) { $h{$i % 5000} .= chr(65 + $i % 26) } my $n = 0; for (values %h) { $n++ while /[AEI]+/g } print $n, \"\\n\"'",
        whole: 0.99,
    },
    BusyProgram { name: "git", command: "git log --stat -p -n 300 | wc -c", whole: 0.99 },
    BusyProgram {
        name: "postgres",
        command: "d=$(mktemp -d) && chown 65534 $d && p=$(ls -d /usr/lib/postgresql/*/bin | tail -1) && setpriv --reuid 65534 --clear-groups sh -c \"$p/initdb -D $d/db >/dev/null && echo 'select sum(length(md5(i::text))) from generate_series(1, 800000) i;' | $p/postgres --single -D $d/db postgres >/dev/null\"; rm -rf $d",
        whole: 0.99,
    },
    BusyProgram {
        name: "nginx",
        command: "for i in 1 2 3 4 5 6 7 8; do nginx -t -c /etc/nginx/nginx.conf 2>/dev/null; done; nginx -T 2>/dev/null | wc -c",
        whole: 0.99,
    },
    BusyProgram {
        name: "node",
        command: "node -e 'let s = 0; for (let i = 0; i < 3e5; i++) s += JSON.stringify({ a: [i, i], b: String(i) }).length; console.log(s)'",
        whole: 0.97,
    },
];

/// Names of the functions in which threads start.
const STARTS: [&str; 6] = ["_start", "clone3", "__clone3", "__clone", "clone", "_dl_start_user"];

/// Fewest samples that are judged.
const SAMPLES: u64 = 100;

/// Records each program that is installed.
pub(super) fn measure(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut raw = Vec::new();
    for program in &PROGRAMS {
        let tool = program.name;
        if succeed(&words(&[
            "sh",
            "-c",
            &format!("command -v {tool} || ls /usr/lib/postgresql/*/bin/{tool}"),
        ]))
        .is_err()
        {
            report.table.push(format!("{tool}: skipped: not installed"));
            continue;
        }
        raw.push(one(scratch, program, report)?);
    }
    Ok(json!(raw))
}

fn one(scratch: &Scratch<'_>, program: &BusyProgram, report: &mut Report) -> anyhow::Result<Value> {
    let file = |how: &str| scratch.path(&format!("{}-{how}.data", program.name));
    let mut bytes = Vec::new();
    for how in ["auto", "fp", "dwarf,65528"] {
        let into = file(how).display().to_string();
        let tare = scratch.setting.tare();
        let record = [&tare, "record", "-q", "-F", "999", "-e", "cpu-clock", "--call-graph", how];
        let run = ["-o", &into, "--", "sh", "-c", program.command];
        succeed(&words(&[&record[..], &run].concat()))?;
        bytes.push(std::fs::metadata(&into)?.len());
    }
    let [auto, fp] = [chains(scratch, &file("auto"))?, chains(scratch, &file("fp"))?];
    let name = program.name;
    report.table.push(format!(
        "{name}: {} chains, {:.1} frames each; {:.2}% reach the start, by frame pointers {:.2}%; {} bytes a sample, with copies {}",
        auto.number,
        auto.frames as f64 / auto.number.max(1) as f64,
        100.0 * auto.whole_share(),
        100.0 * fp.whole_share(),
        bytes[0] / auto.number.max(1),
        bytes[2] / auto.number.max(1),
    ));
    if auto.number >= SAMPLES {
        let whole = finding(
            format!("{name}: user chains that reach the start of the thread"),
            auto.whole_share(),
            Bound::AtLeast(program.whole),
        );
        let size = finding(
            format!("{name}: bytes of the file, unwound/copies"),
            bytes[0] as f64 / bytes[2] as f64,
            Bound::AtMost(0.05),
        );
        report.findings.extend([whole, size]);
    }
    for how in ["auto", "fp", "dwarf,65528"] {
        std::fs::remove_file(file(how))?;
    }
    Ok(json!({
        "name": name, "chains": auto.number, "frames": auto.frames, "whole": auto.whole,
        "fp": [fp.number, fp.whole], "bytes": bytes,
    }))
}

/// The user chains of a recording.
#[derive(Default)]
struct UserChains {
    number: u64,
    /// Number of chains whose outermost function starts threads.
    whole: u64,
    /// Number of frames in all of them.
    frames: u64,
}

impl UserChains {
    fn whole_share(&self) -> f64 {
        self.whole as f64 / self.number.max(1) as f64
    }
}

/// Reads the user chains of a recording with `tare script`: a line per frame, an empty line between
/// samples. Frames of the kernel are in the upper half of the address space.
fn chains(scratch: &Scratch<'_>, file: &Path) -> anyhow::Result<UserChains> {
    let file = file.display().to_string();
    let tare = scratch.setting.tare();
    let text = succeed(&words(&[&tare, "script", "-F", "ip,sym,dso", "-i", &file]))?.stdout;
    let mut chains = UserChains::default();
    for sample in text.split("\n\n") {
        let frames = sample.lines().filter_map(|line| line.trim().split_once(' '));
        let user: Vec<&str> = frames
            .filter(|(ip, _)| u64::from_str_radix(ip, 16).is_ok_and(|ip| ip < 1 << 63))
            .map(|(_, rest)| rest)
            .collect();
        let Some(last) = user.last() else { continue };
        chains.number += 1;
        chains.frames += user.len() as u64;
        chains.whole += u64::from(is_start(last));
    }
    Ok(chains)
}

/// Whether threads start in a frame: by its function's name, or as the first function of the
/// dynamic linker, which has no name in stripped files.
fn is_start(frame: &str) -> bool {
    let name = frame.split(' ').next().unwrap_or_default();
    STARTS.contains(&name.split('@').next().unwrap_or_default())
        || frame.contains("/ld-linux") && name != "[unknown]"
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
