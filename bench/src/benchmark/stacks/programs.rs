//! Debian's own programs: the share of whole chains beside frame pointers, chains beside those that
//! are unwound at report time.

use std::path::Path;

use serde_json::{Value, json};

use super::chains::{self, ChainCounts, SampleChain};
use super::equal::{self, EqualChains};
use super::{finding, words};
use crate::report::{Bound, Report};
use crate::run::{run_for_output, succeed};
use crate::scratch::Scratch;

/// A program, and a shell command that keeps it busy for some seconds.
struct BusyProgram {
    name: &'static str,
    /// The name of its threads.
    comm: &'static str,
    command: &'static str,
    /// Least share of chains that reach the start of their thread.
    whole: f64,
}

const PROGRAMS: [BusyProgram; 10] = [
    BusyProgram {
        name: "g++",
        comm: "cc1plus",
        command: "printf '#include <regex>\\n#include <map>\\nint main() { std::map<int, std::regex> all; return std::regex_match(\"a\", all[1]); }\\n' | g++ -O2 -x c++ -o /dev/null -",
        whole: 0.99,
    },
    BusyProgram {
        name: "sqlite3",
        comm: "sqlite3",
        command: "sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) select sum(length(hex(i)) * i) from n order by 1; create table t as with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select i, random() r from n; select count(*) from t a join t b on a.i = b.r;'",
        whole: 0.99,
    },
    BusyProgram {
        name: "xz",
        comm: "xz",
        command: "seq 1 300000 | xz -6 -T1 | wc -c",
        whole: 0.99,
    },
    BusyProgram {
        name: "/usr/bin/python3",
        comm: "python3",
        command: "/usr/bin/python3 -c \"import json, re; print(sum(len(re.sub('a+', 'b', json.dumps(list(range(i % 500))))) for i in range(40000)))\"",
        whole: 0.99,
    },
    BusyProgram {
        name: "perl",
        comm: "perl",
        command: "perl -e 'my %h; for my $i (1 .. 5000000) { $h{$i % 5000} .= chr(65 + $i % 26) } my $n = 0; for (values %h) { $n++ while /[AEI]+/g } print $n, \"\\n\"'",
        whole: 0.99,
    },
    BusyProgram {
        name: "git",
        comm: "git",
        command: "git log --stat -p -n 500 | wc -c",
        whole: 0.99,
    },
    BusyProgram {
        name: "x264",
        comm: "x264",
        command: "d=$(mktemp -d); head -c 8294400 /dev/urandom >$d/i420; x264 --demuxer raw --input-res 640x360 --fps 25 --quiet -o /dev/null $d/i420; rm -r $d",
        whole: 0.97,
    },
    BusyProgram {
        name: "postgres",
        comm: "postgres",
        command: "d=$(mktemp -d); chown 65534 $d; p=$(ls -d /usr/lib/postgresql/*/bin | tail -1); setpriv --reuid 65534 --clear-groups sh -c \"$p/initdb -D $d/db >/dev/null && echo 'select sum(length(md5(i::text))) from generate_series(1, 1500000) i;' | $p/postgres --single -D $d/db postgres >/dev/null\"; rm -r $d",
        whole: 0.99,
    },
    BusyProgram {
        name: "nginx",
        comm: "nginx",
        command: r#"d=$(mktemp -d); seq 1 60000 >$d/n.txt; chmod 755 $d
printf 'daemon off; master_process off; pid %s/pid; error_log stderr crit; events {} http { access_log off; gzip on; gzip_types *; client_body_temp_path %s/1; proxy_temp_path %s/2; fastcgi_temp_path %s/3; uwsgi_temp_path %s/4; scgi_temp_path %s/5; server { listen unix:%s/socket; root %s; } }' $d $d $d $d $d $d $d $d >$d/conf
nginx -c $d/conf & server=$!
python3 -c "
import socket, sys, time
for i in range(100):
    s = socket.socket(socket.AF_UNIX)
    for wait in range(100):
        try:
            s.connect(sys.argv[1])
            break
        except OSError:
            time.sleep(0.1)
    s.sendall(b'GET /n.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n')
    while s.recv(65536): pass
" $d/socket
kill $server; wait $server; rm -r $d"#,
        whole: 0.99,
    },
    BusyProgram {
        name: "node",
        comm: "node",
        command: "node -e 'let s = 0; for (let i = 0; i < 2e6; i++) s += JSON.stringify({ a: [i, i], b: String(i) }).length; console.log(s)'",
        whole: 0.97,
    },
];

/// The programs' names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.comm)
}

/// Fewest samples that are judged.
const SAMPLES: u64 = 100;

/// Least share of samples whose chains equal those of copies that are unwound at report time.
const EQUAL: f64 = 0.995;

/// How each program is recorded: unwound, by frame pointers, and with the largest copies.
const MODES: [&str; 3] = ["auto", "fp", "dwarf,65528"];

/// Records each program that is installed.
pub(super) fn measure(scratch: &Scratch<'_>, report: &mut Report) -> anyhow::Result<Value> {
    let mut raw = Vec::new();
    let has_case = |name| scratch.setting.has_case(name);
    for program in PROGRAMS.iter().filter(|one| has_case(super::PROGRAMS) || has_case(one.comm)) {
        let name = program.name;
        let find = format!("command -v {name} || ls /usr/lib/postgresql/*/bin/{name}");
        if succeed(&words(&["sh", "-c", &find])).is_err() {
            report.table.push(format!("{name}: skipped: not installed"));
            continue;
        }
        match record(scratch, program) {
            Ok(recorded) => raw.push(recorded.report(program, report)),
            Err(why) => report.table.push(format!("{name}: skipped: {why:#}")),
        }
    }
    Ok(json!(raw))
}

/// Figures of a program's recordings.
struct ProgramChains {
    auto: ChainCounts,
    fp: ChainCounts,
    equal: EqualChains,
    /// Bytes of the file per sample, in the order of [`MODES`].
    bytes: [f64; MODES.len()],
}

fn record(scratch: &Scratch<'_>, program: &BusyProgram) -> anyhow::Result<ProgramChains> {
    let mut bytes = [0.0; MODES.len()];
    let mut counts = [ChainCounts::default(); 2];
    let mut equal = EqualChains::default();
    for (at, how) in MODES.into_iter().enumerate() {
        let file = scratch.path("program.data");
        record_as(scratch, program.command, how, &file)?;
        let samples = chains::read(scratch, &file)?;
        bytes[at] = std::fs::metadata(&file)?.len() as f64 / samples.len().max(1) as f64;
        let own = |sample: &&SampleChain| sample.comm == program.comm;
        if let Some(counts) = counts.get_mut(at) {
            *counts = ChainCounts::count(samples.iter().filter(own));
        }
        if how == "dwarf,65528" {
            equal = equal::compare(scratch, &file, program.comm)?;
        }
        std::fs::remove_file(file)?;
    }
    let [auto, fp] = counts;
    Ok(ProgramChains { auto, fp, equal, bytes })
}

/// Records a shell command. Its exit status doesn't matter: a server is ended by a signal.
fn record_as(scratch: &Scratch<'_>, command: &str, how: &str, file: &Path) -> anyhow::Result<()> {
    let into = file.display().to_string();
    let tare = scratch.setting.tare();
    let record = [&tare, "record", "-q", "-F", "999", "-e", "cpu-clock", "--call-graph", how];
    let done =
        run_for_output(&words(&[&record[..], &["-o", &into, "--", "sh", "-c", command]].concat()))?;
    anyhow::ensure!(file.exists(), "nothing was recorded: {}", done.stderr);
    Ok(())
}

impl ProgramChains {
    fn report(&self, program: &BusyProgram, report: &mut Report) -> Value {
        let Self { auto, fp, equal, bytes } = self;
        let name = program.name;
        let equal_share = equal.equal as f64 / equal.samples.max(1) as f64;
        report.table.push(format!(
            "{name}: {} chains, {:.1} frames each; {:.2}% reach the start, by frame pointers \
             {:.2}%; {:.2}% of {} equal those unwound at report time; {:.0} bytes a sample",
            auto.chains,
            auto.frames_each(),
            100.0 * auto.whole_share(),
            100.0 * fp.whole_share(),
            100.0 * equal_share,
            equal.samples,
            bytes[0],
        ));
        if auto.chains >= SAMPLES {
            let of = |what: &str| format!("{name}: {what}");
            report.findings.extend([
                finding(
                    of("user chains that reach the start of the thread"),
                    auto.whole_share(),
                    Bound::AtLeast(program.whole),
                ),
                finding(
                    of("chains equal to those unwound at report time"),
                    equal_share,
                    Bound::AtLeast(EQUAL),
                ),
            ]);
        } else {
            report.table.push(format!("{name}: not judged: fewer than {SAMPLES} samples"));
        }
        json!({
            "name": name, "chains": auto.chains, "frames": auto.frames, "whole": auto.whole,
            "fp": [fp.chains, fp.whole], "equal": [equal.samples, equal.equal],
            "bytes_per_sample": bytes,
        })
    }
}
