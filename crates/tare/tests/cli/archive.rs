//! `tare archive`, and the commands that read archives.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::support::{ProcessGuard, is_root, signal, stderr, tare, wait_until};
use crate::symbols::{SPIN, build_id, compile};

/// A folder for programs, their recording and its archive.
struct RecordedProgram {
    folder: tempfile::TempDir,
}

const LINE: &str = "./spin; ./plain";

impl RecordedProgram {
    /// Records a stripped program, whose debug file is in a folder that must be named, and a
    /// program without a build id.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let binary = compile(path, SPIN, "spin", &["-g", "-Wl,--build-id=sha1"])?;
        let plain = SPIN.replace("hot_function", "plain_function");
        compile(path, &plain, "plain", &["-Wl,--build-id=none"]).unwrap();
        let id = build_id(&binary);
        let (front, rest) = id.split_at(2);
        let recorded = Self { folder };
        recorded.sh(&format!(
            "mkdir -p debug/.build-id/{front} && objcopy --only-keep-debug spin debug/.build-id/{front}/{rest}.debug && strip spin"
        ));
        let mut record = tare();
        record.args(["record", "-q", "-g", "-e", "cpu-clock", "-o", "perf.data", "--", "sh", "-c"]);
        let output = record.arg(LINE).current_dir(recorded.path()).output().unwrap();
        if !output.status.success() {
            println!("skipped: can't record here: {}", stderr(&output));
            return None;
        }
        Some(recorded)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn sh(&self, line: &str) -> Output {
        let output = Command::new("sh").args(["-ec", line]).current_dir(self.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        output
    }

    fn tare(&self, line: &str) -> Output {
        let mut tare = tare();
        tare.args(line.split(' ')).current_dir(self.path()).env_remove("HOME");
        tare.env("TMPDIR", self.path()).output().unwrap()
    }

    /// Packs the recording and returns what tare prints on stderr.
    fn archive(&self) -> String {
        let output = self.tare("archive perf.data -o all.tar.zst --debug-dir debug");
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    }

    /// Runs tare in a root file system that holds only tare, its libraries and the
    /// archive.
    fn elsewhere(&self, line: &str) -> Output {
        let root = self.path().join("elsewhere");
        if !root.exists() {
            let tare = env!("CARGO_BIN_EXE_tare");
            // Under other paths than when the programs were recorded.
            self.sh(&format!(
                "mkdir -p elsewhere/x elsewhere/tmp; cp {tare} elsewhere/x/tare; cp $(ldd {tare} | grep -o '/[^ ]*') elsewhere/x; cp all.tar.zst elsewhere"
            ));
        }
        let loader = std::fs::read_dir(root.join("x")).unwrap().flatten();
        let mut loader = loader.filter(|file| file.file_name().to_string_lossy().starts_with("ld"));
        let loader = Path::new("/x").join(loader.next().expect("a loader").file_name());
        let mut chroot = Command::new("chroot");
        chroot.arg(&root).arg(loader).args(["--library-path", "/x", "/x/tare"]);
        chroot.args(line.split(' ')).env_clear();
        chroot.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").output().unwrap()
    }

    fn left(&self) -> Vec<PathBuf> {
        let left = std::fs::read_dir(self.path()).unwrap().flatten().map(|file| file.path());
        left.filter(|path| path.to_string_lossy().contains("tare-archive")).collect()
    }
}

#[test]
fn an_archive_gives_the_same_report_where_nothing_else_is() {
    let Some(recorded) = RecordedProgram::new() else { return };
    let said = recorded.archive();
    assert!(said.contains("files that name its addresses") && said.lines().count() == 1, "{said}");
    assert_eq!(recorded.path().join("all.tar.zst").metadata().unwrap().mode() & 0o777, 0o600);
    for line in
        ["report", "report --no-children -g none --sort dso,sym", "script -F ip,sym,dso,sym"]
    {
        let here = recorded.tare(&format!("{line} -i perf.data --debug-dir debug"));
        let text = String::from_utf8_lossy(&here.stdout).into_owned();
        assert!(text.contains("hot_function") && text.contains("plain_function"), "{line}");
        let archived = recorded.tare(&format!("{line} -i all.tar.zst"));
        assert!(archived.stdout == here.stdout, "{line}: {}", stderr(&archived));
        if is_root() {
            let elsewhere = recorded.elsewhere(&format!("{line} -i all.tar.zst"));
            let theirs = String::from_utf8_lossy(&elsewhere.stdout).into_owned();
            assert!(theirs == text, "{line}: {text}\n{theirs}\n{}", stderr(&elsewhere));
        }
    }
    assert_eq!(recorded.left(), [] as [PathBuf; 0], "unpacked files are removed");
    let other = RecordedProgram::new().unwrap();
    other.sh("mv perf.data other.data; strip plain");
    let plain = other.tare("report -i other.data");
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("hot_function"), "the test can fail");
}

#[test]
fn perf_reads_what_tar_unpacks() {
    let Some(recorded) = RecordedProgram::new() else { return };
    recorded.archive();
    recorded.sh("rm -r spin debug; mkdir unpacked; tar --zstd -xf all.tar.zst -C unpacked");
    let mut perf = Command::new("perf");
    perf.args(["--buildid-dir", "unpacked/.debug", "report", "--stdio", "-i"]);
    perf.arg("unpacked/perf.data").current_dir(recorded.path()).env("HOME", recorded.path());
    match perf.output() {
        Err(_) => println!("skipped: no perf"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains("hot_function"), "{text} {}", stderr(&output));
        }
    }
}

#[test]
fn hostile_archives_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = RecordedProgram { folder };
    recorded.sh("mkdir root; echo x > outside; echo x > root/file; echo x > perf.data");
    let tar = "tar --zstd -cPf bad.tar.zst";
    for (what, make) in [
        ("a folder above", format!("{tar} --transform 's|outside|root/../../outside2|' outside")),
        ("an absolute name", format!("{tar} --transform 's|outside|/tmp/tare-outside|' outside")),
        ("another folder", format!("{tar} outside")),
        ("a link", format!("ln -s /etc root/link; {tar} perf.data root/link")),
        ("a hard link", format!("ln -f perf.data root/hard; {tar} perf.data root/hard")),
        ("a FIFO", format!("mkfifo root/fifo; {tar} perf.data root/fifo")),
        ("a file twice", format!("{tar} perf.data perf.data --hard-dereference")),
        ("no recording", format!("{tar} root/file")),
        (
            "a bomb",
            format!(
                "head -c 900M /dev/zero | tr '\\0' a > root/same; {tar} perf.data root/same; rm root/same"
            ),
        ),
        (
            "folders in folders",
            format!(
                "mkdir -p root/$(yes a | head -100 | paste -sd/); \
                 touch root/$(yes a | head -100 | paste -sd/)/x; {tar} perf.data root; rm -r root/a"
            ),
        ),
        (
            "many folders",
            format!(
                "seq 6000 | sed 's|.*|root/many/&|' | xargs mkdir -p; \
                 seq 6000 | sed 's|.*|root/many/&/x|' | xargs touch; \
                 {tar} perf.data root; rm -r root/many"
            ),
        ),
        (
            "cut short",
            format!(
                "head -c 100000 /dev/urandom > perf.data; {tar} perf.data; truncate -s 5000 bad.tar.zst"
            ),
        ),
        ("garbage", "printf '\\050\\265\\057\\375garbage that goes on' > bad.tar.zst".to_owned()),
        ("no tar", "head -c 5000 /dev/urandom | zstd -qf -o bad.tar.zst".to_owned()),
    ] {
        recorded.sh(&format!("rm -f bad.tar.zst root/link root/hard root/fifo; {make}"));
        let output = recorded.tare("report -i bad.tar.zst");
        assert_eq!(output.status.code(), Some(1), "{what}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.starts_with("tare: bad.tar.zst: ") && said.lines().count() == 1, "{said}");
        assert_eq!(recorded.left(), [] as [PathBuf; 0], "{what}");
        assert!(!recorded.path().join("outside2").exists(), "{what}");
        assert!(!Path::new("/tmp/tare-outside").exists(), "{what}");
    }
}

#[test]
fn what_a_killed_reader_left_is_removed_by_the_next() {
    let Some(recorded) = RecordedProgram::new() else { return };
    recorded.archive();
    let uid = rustix::process::geteuid().as_raw();
    recorded.sh(&format!("mkdir -m 700 tare-archive.{uid}.1.0 tare-archive.{uid}.2.0"));
    recorded.sh(&format!("touch tare-archive.{uid}.1.0/lock tare-archive.{uid}.2.0/lock"));
    let locked = recorded.path().join(format!("tare-archive.{uid}.2.0"));
    let lock = std::fs::File::open(locked.join("lock")).unwrap();
    lock.lock().unwrap();
    let output = recorded.tare("report -i all.tar.zst");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(recorded.left(), [locked], "one is in use");
}

/// A program whose hot loop is in an inlined function.
const INLINED: &str = r"
volatile unsigned long n;
static inline __attribute__((always_inline)) void hot_inside(void) {
    for (long i = 0; i < 300000000; i++) n++;
}
__attribute__((noinline)) void hot_function(void) { hot_inside(); n = 0; }
int main(void) { hot_function(); return 0; }
";

/// Returns the output of `script --inline` and `annotate`, without the header lines, which depend
/// on the program's path.
#[test]
fn signals_remove_the_unpacked_archive() {
    let Some(recorded) = RecordedProgram::new() else { return };
    recorded.archive();
    let unpacked = recorded.path().join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    let left = || std::fs::read_dir(&unpacked).unwrap().count();
    for number in [Signal::INT, Signal::TERM, Signal::HUP] {
        // It blocks in the middle of its output: the pipe has no reader.
        let mut script = tare();
        script.args(["script", "-F", "+srcline", "-i", "all.tar.zst"]).env("TMPDIR", &unpacked);
        let script = script.current_dir(recorded.path()).env_remove("HOME").stdout(Stdio::piped());
        let mut script = ProcessGuard::spawn(script.stderr(Stdio::null()));
        let pipe = script.take_stdout();
        rustix::pipe::fcntl_setpipe_size(&pipe, 4096).unwrap();
        wait_until("a full pipe", || rustix::io::ioctl_fionread(&pipe).unwrap() >= 4096);
        assert_eq!(left(), 1);
        signal(&script, number);
        script.wait_for_exit();
        let status = script.wait().unwrap();
        assert_eq!((status.signal(), left()), (Some(number.as_raw()), 0));
        drop(pipe);
    }
}

fn lines_and_sources(recorded: &RecordedProgram, input: &str) -> [String; 2] {
    ["script --inline -F ip,sym,srcline", "annotate -s hot_function"].map(|line| {
        let output = recorded.tare(&format!("{line} --no-cache -i {input}"));
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_kept = |line: &&str| !line.contains("Percent |") && !line.starts_with("---");
        text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
    })
}

#[test]
fn an_archive_has_split_and_shared_debug_info_and_source_files() {
    for (flags, command, deleted) in [
        (&["-g", "-gsplit-dwarf"][..], "true", "*.dwo"),
        (&["-g", "-gsplit-dwarf"], "dwp -e spin && rm *.dwo", "*.dwp"),
        (&["-g"], "cp spin other && dwz -m shared spin other", "shared other"),
    ] {
        let recorded = RecordedProgram { folder: tempfile::tempdir().unwrap() };
        let path = recorded.path();
        let flags = [flags, &["-Wl,--build-id=sha1"]].concat();
        let Some(_) = compile(path, INLINED, "spin", &flags) else { return };
        let output = Command::new("sh").args(["-c", command]).current_dir(path).output().unwrap();
        if !output.status.success() {
            println!("skipped: {command}: {}", stderr(&output));
            continue;
        }
        let output = recorded.tare("record -q -g -e cpu-clock -o perf.data -- ./spin");
        if !output.status.success() {
            return println!("skipped: can't record here: {}", stderr(&output));
        }
        let here = lines_and_sources(&recorded, "perf.data");
        assert!(here[0].contains("hot_inside") && here[0].contains("spin.c:4"), "{}", here[0]);
        assert!(here[1].contains("i < 300000000; i++) n++;"), "{}", here[1]);
        for line in
            ["archive perf.data -o all.tar.zst", "archive perf.data -o none.tar.zst --no-source"]
        {
            let output = recorded.tare(line);
            assert!(output.status.success(), "{line}: {}", stderr(&output));
        }
        recorded.sh(&format!("rm {deleted}; rm spin spin.c"));
        assert_eq!(lines_and_sources(&recorded, "all.tar.zst"), here, "{command}");
        let without = lines_and_sources(&recorded, "none.tar.zst");
        assert!(!without[1].contains("i < 300000000"), "{command}: {}", without[1]);
    }
}

#[test]
fn a_program_cannot_have_other_files_archived_as_its_sources() {
    let recorded = RecordedProgram { folder: tempfile::tempdir().unwrap() };
    let secret = recorded.path().join("secret");
    std::fs::write(&secret, "key\n".repeat(50)).unwrap();
    let source = format!("#line 1 \"{}\"\n{INLINED}", secret.display());
    let Some(_) = compile(recorded.path(), &source, "spin", &["-g"]) else { return };
    let output = recorded.tare("record -q -g -e cpu-clock -o perf.data -- ./spin");
    if !output.status.success() {
        return println!("skipped: can't record here: {}", stderr(&output));
    }
    let output = recorded.tare("archive perf.data -o all.tar.zst");
    assert!(output.status.success(), "{}", stderr(&output));
    let list = recorded.sh("tar --zstd -tf all.tar.zst").stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    assert!(list.contains("perf.data") && !list.contains("secret"), "{list}");
    let shown = lines_and_sources(&recorded, "perf.data");
    assert!(!shown[1].contains("key"), "{}", shown[1]);
}

/// A program names its split debug info, and can put a link beside itself.
#[test]
fn a_program_cannot_have_other_files_archived_as_its_debug_info() {
    for flags in [&["-g", "-gsplit-dwarf"][..], &["-g"]] {
        let recorded = RecordedProgram { folder: tempfile::tempdir().unwrap() };
        let path = recorded.path();
        let Some(_) = compile(path, INLINED, "spin", flags) else { return };
        std::fs::write(path.join("secret"), "key\n".repeat(50)).unwrap();
        recorded.sh(
            "for dwo in *.dwo; do [ -e $dwo ] && ln -sf secret $dwo; done; ln -s secret spin.dwp",
        );
        let output = recorded.tare("record -q -g -e cpu-clock -o perf.data -- ./spin");
        if !output.status.success() {
            return println!("skipped: can't record here: {}", stderr(&output));
        }
        let output = recorded.tare("archive perf.data -o all.tar.zst");
        assert!(output.status.success(), "{}", stderr(&output));
        let unpacked =
            recorded.sh("tar --zstd -xOf all.tar.zst | grep -a -c '^key$' || true").stdout;
        assert_eq!(String::from_utf8_lossy(&unpacked).trim(), "0", "{flags:?}");
    }
}

/// A program of 20 kB of blocks and 700 MB of length.
#[test]
fn an_archive_of_a_sparse_program_can_be_read() {
    let Some(recorded) = RecordedProgram::new() else { return };
    recorded.sh("truncate -s 700M plain");
    let output = recorded.tare("record -q -e cpu-clock -o perf.data -- ./plain");
    assert!(output.status.success(), "{}", stderr(&output));
    recorded.archive();
    recorded.sh("rm plain");
    let output = recorded.tare("report -i all.tar.zst --stdio");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("plain_function"), "{text}");
    assert_eq!(recorded.left(), [] as [PathBuf; 0]);
}
