//! `tare export --format pprof`: addresses, mappings, lines and names, for pprof and `go build
//! -pgo`.

use std::path::Path;
use std::process::Command;

use crate::support::{status, stderr, tare};
use crate::symbols::compile;

/// Nearly all time is in line 4. In the file, `outer` has a mangled name.
const SOURCE: &str = r#"
volatile unsigned long n;
static inline __attribute__((always_inline)) void innermost(void) {
    for (long i = 0; i < 150000000; i++) n++;
}
void outer(void) __asm__("_ZN1a5outerEv");
__attribute__((noinline)) void outer(void) { innermost(); n = 1; }
int main(void) { outer(); return 0; }
"#;

/// A field of a protobuf message.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a protobuf message with their numbers, in order.
#[derive(Clone, Debug, Default)]
struct Message(Vec<(u64, Field)>);

impl Message {
    fn decode(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let number = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(number),
                2 => {
                    let (text, rest) = bytes.split_at(usize::try_from(number).unwrap());
                    bytes = rest;
                    Field::Bytes(text.to_vec())
                }
                kind => panic!("wire type {kind}"),
            };
            fields.push((tag >> 3, field));
        }
        Self(fields)
    }

    /// The last number of a field; 0 without one.
    fn number(&self, field: u64) -> u64 {
        let mut numbers = self.0.iter().rev().filter_map(|(at, value)| match value {
            Field::Number(number) if *at == field => Some(*number),
            _ => None,
        });
        numbers.next().unwrap_or(0)
    }

    fn texts(&self, field: u64) -> Vec<&[u8]> {
        let texts = self.0.iter().filter_map(|(at, value)| match value {
            Field::Bytes(bytes) if *at == field => Some(&bytes[..]),
            _ => None,
        });
        texts.collect()
    }

    fn messages(&self, field: u64) -> Vec<Self> {
        self.texts(field).into_iter().map(Self::decode).collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let [byte, rest @ ..] = *bytes else { panic!("the message is cut") };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// A profile whose messages' fields have the numbers of pprof's `profile.proto`.
struct PprofProfile {
    whole: Message,
    texts: Vec<String>,
}

impl PprofProfile {
    fn read(file: &Path) -> Self {
        let unpacked = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
        let whole = Message::decode(&unpacked.stdout);
        let texts = whole.texts(6).into_iter().map(|text| String::from_utf8_lossy(text).into());
        let texts = texts.collect();
        Self { whole, texts }
    }

    fn text(&self, message: &Message, field: u64) -> &str {
        &self.texts[usize::try_from(message.number(field)).unwrap()]
    }

    fn with_id(&self, field: u64, id: u64) -> Message {
        let messages = self.whole.messages(field);
        messages.into_iter().find(|message| message.number(1) == id).expect("the id is known")
    }
}

fn export(binary: &Path, record: &[&str]) -> Option<PprofProfile> {
    let folder = binary.parent().unwrap();
    let run = |words: &[&str]| {
        let mut command = tare();
        command.args(words).current_dir(folder);
        command.env_remove("HOME").env("XDG_CACHE_HOME", folder).output().unwrap()
    };
    let recorded =
        run(&[&["record", "-q", "-e", "cpu-clock"], record, &["--", "./nested"]].concat());
    if status(&recorded) != 0 {
        println!("skipped: can't record here: {}", stderr(&recorded));
        return None;
    }
    let exported = run(&["export", "--format", "pprof", "-o", "profile.pb.gz"]);
    assert_eq!(status(&exported), 0, "{}", stderr(&exported));
    Some(PprofProfile::read(&folder.join("profile.pb.gz")))
}

/// The build id of an ELF file, as `readelf` prints it.
fn build_id(binary: &Path) -> String {
    let notes = Command::new("readelf").arg("-n").arg(binary).output().unwrap();
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    id.unwrap_or_default().to_owned()
}

#[test]
fn pprof_has_addresses_in_mapped_files_with_lines_and_first_lines() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-g", "-fno-omit-frame-pointer", "-gno-statement-frontiers", "-Wl,--build-id"];
    let Some(binary) = compile(folder.path(), SOURCE, "nested", &flags) else { return };
    for record in [&["-g"][..], &[]] {
        let Some(profile) = export(&binary, record) else { return };
        let types = profile.whole.messages(1);
        let names: Vec<&str> = types.iter().map(|kind| profile.text(kind, 1)).collect();
        assert_eq!(names, ["samples", "cpu"]);
        // The program is the first mapping.
        let program = profile.with_id(3, 1);
        assert!(profile.text(&program, 5).ends_with("/nested"), "{}", profile.text(&program, 5));
        assert_eq!(profile.text(&program, 6), build_id(&binary));
        let [start, limit, offset] = [2, 3, 4].map(|field| program.number(field));
        assert!(start > 0 && limit > start && offset.is_multiple_of(4096), "{program:?}");
        assert_eq!([7, 8, 9, 10].map(|flag| program.number(flag)), [1; 4], "{program:?}");
        // Samples are at several addresses of the loop, each within the mapping.
        let locations = profile.whole.messages(4);
        let own = locations.iter().filter(|location| location.number(2) == 1);
        let addresses: Vec<u64> = own.map(|location| location.number(3)).collect();
        assert!(addresses.iter().all(|at| (start..limit).contains(at)), "{addresses:x?}");
        let in_loop = locations.iter().find(|location| {
            let lines = location.messages(4);
            lines.len() == 2 && lines[0].number(2) == 4
        });
        let lines = in_loop.expect("a sample in the loop").messages(4);
        let function = |at: usize| profile.with_id(5, lines[at].number(1));
        let [inner, outer] = [0, 1].map(function);
        assert_eq!((profile.text(&inner, 2), inner.number(5)), ("innermost", 3));
        assert_eq!((profile.text(&outer, 2), outer.number(5)), ("a::outer", 7));
        assert_eq!(profile.text(&outer, 3), "_ZN1a5outerEv");
        assert!(profile.text(&outer, 4).ends_with("/nested.c"));
    }
}
