//! vmlinux and modules of a kernel that doesn't run here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{stderr, tare};
use crate::symbols::{build_id, compile, run};
use crate::written::WrittenKernel;

const IMAGE: &str = r"
volatile unsigned long n;
static inline __attribute__((always_inline)) void count_up(unsigned long by) { n += by; n ^= by; }
void do_work(unsigned long by) {
    count_up(by);
    n *= 3;
    count_up(by + 1);
}
void _start(void) { do_work(1); }
";

/// Code in three sections, one of which the kernel frees after the module has started.
const MODULE: &str = r#"
volatile unsigned long m;
static inline __attribute__((always_inline)) void step(unsigned long by) { m += by; m ^= by; }
__attribute__((section(".init.text"))) void module_start(void) { m = 7; }
void module_work(unsigned long by) {
    step(by);
    m *= 5;
}
__attribute__((section(".text.other"))) void module_other(unsigned long by) { step(by + 2); }
"#;

const RELEASE: &str = "9.9.9-test";

/// The image's link address, its offset at boot, and the module's address.
const LINKED: u64 = 0x8100_0000;
const MOVED: u64 = 0x1230_0000;
const BASE: u64 = 0xffff_ffff_c0a0_0000;

/// A folder with a machine's files, and a recording of that machine.
struct MachineFolder {
    folder: tempfile::TempDir,
    file: PathBuf,
    vmlinux: PathBuf,
    module: PathBuf,
}

impl MachineFolder {
    /// Compiles image and module and writes a recording with a sample at every byte of their
    /// functions, except the one that the kernel frees. Without a compiler, prints the reason and
    /// returns `None`.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let text = format!("-Wl,-Ttext={LINKED:#x}");
        let symbol = format!("-Wl,--defsym=_text={LINKED:#x}");
        let flags = [
            "-g",
            "-ffreestanding",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-fno-pie",
            "-Wl,--build-id=sha1",
            &text,
            &symbol,
        ];
        let vmlinux = compile(path, IMAGE, "vmlinux", &flags)?;
        let flags = ["-g", "-ffreestanding", "-nostdlib", "-fno-pie", "-c"];
        compile(path, MODULE, "module", &flags)?;
        run("ld", &["-r", "--build-id=sha1", "-o", "my-mod.ko", "module"], path);
        let file = path.join("perf.data");
        let module = path.join("my-mod.ko");
        let machine = Self { folder, file, vmlinux, module };
        let kernel = build_id(&machine.vmlinux);
        machine.write(&kernel, 0);
        Some(machine)
    }

    /// Writes the recording as if the loader left `gap` bytes before the module's last section.
    fn write(&self, kernel_id: &str, gap: u64) {
        let text = LINKED + MOVED;
        let image =
            self.functions(&self.vmlinux).into_iter().map(|(_, at, size)| (at + MOVED, size));
        let module = self.functions(&self.module).into_iter().filter_map(|(name, at, size)| {
            let gap = if name == "module_other" { gap } else { 0 };
            Some((self.loaded(&name, at)? + gap, size))
        });
        let addresses = image.chain(module).flat_map(|(start, size)| start..start + size);
        let id = build_id(&self.module);
        WrittenKernel {
            release: RELEASE,
            mappings: vec![
                ("[kernel.kallsyms]_text", kernel_id, text, 0x100_0000, text),
                ("/lib/modules/9.9.9-test/kernel/my-mod.ko", &id, BASE, 0x10000, 0),
            ],
            addresses: addresses.collect(),
        }
        .write(&self.file);
    }

    /// Name, address and size of each function.
    fn functions(&self, file: &Path) -> Vec<(String, u64, u64)> {
        let text = output("nm", &["-S", file.to_str().unwrap()]);
        let number = |digits| u64::from_str_radix(digits, 16).unwrap();
        let lines = text.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [at, size, "T" | "t", name] = words[..] else { return None };
            Some((name.to_owned(), number(at), number(size)))
        });
        lines.collect()
    }

    /// The kernel's address of a function of the module, whose code sections are loaded one after
    /// the other; `None` for the function that the kernel frees.
    fn loaded(&self, name: &str, at: u64) -> Option<u64> {
        if name == "module_start" {
            return None;
        }
        let text = output("objdump", &["-h", self.module.to_str().unwrap()]);
        let section = |name: &str| {
            let line =
                text.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let align: u32 = words[6].strip_prefix("2**").unwrap().parse().unwrap();
            (u64::from_str_radix(words[2], 16).unwrap(), 1_u64 << align)
        };
        let (text_bytes, _) = section(".text");
        let (_, align) = section(".text.other");
        let other = (BASE + text_bytes).next_multiple_of(align);
        Some(if name == "module_other" { other + at } else { BASE + at })
    }

    fn put(&self, from: &Path, at: &str) {
        let at = self.folder.path().join("root").join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::copy(from, at).unwrap();
    }

    fn tare(&self, words: &[&str]) -> Output {
        let mut tare = tare();
        tare.arg(words[0])
            .arg("-i")
            .arg(&self.file)
            .arg("--symfs")
            .arg(self.folder.path().join("root"));
        tare.args(&words[1..]).env_remove("HOME").env_remove("XDG_CACHE_HOME").output().unwrap()
    }

    /// Each sample's address, function and line.
    fn lines(&self, options: &[&str]) -> Vec<(u64, String, String)> {
        let words = [&["script", "-F", "ip,sym,srcline", "--no-inline", "-G"], options].concat();
        let output = self.tare(&words);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<(u64, String, String)> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap();
            match (words.next(), found.last_mut()) {
                (Some(name), _) => {
                    found.push((
                        u64::from_str_radix(first, 16).unwrap(),
                        name.into(),
                        String::new(),
                    ));
                }
                (None, Some(last)) => last.2 = first.to_owned(),
                (None, None) => {}
            }
        }
        found
    }

    /// Address, function and line of each byte of image and module, according to binutils.
    fn expected(&self) -> Vec<(u64, String, String)> {
        let mut expected = Vec::new();
        for (name, at, size) in self.functions(&self.vmlinux) {
            let of = |at: u64| (at + MOVED, name.clone(), addr2line(&self.vmlinux, None, at));
            expected.extend((at..at + size).map(of));
        }
        for (name, at, size) in self.functions(&self.module) {
            let section = if name == "module_other" { ".text.other" } else { ".text" };
            for address in at..at + size {
                if let Some(loaded) = self.loaded(&name, address) {
                    let line = addr2line(&self.module, Some(section), address);
                    expected.push((loaded, name.clone(), line));
                }
            }
        }
        expected
    }
}

fn output(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("binutils are there");
    assert!(output.status.success(), "{program} {words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn addr2line(file: &Path, section: Option<&str>, at: u64) -> String {
    let mut words = vec!["-e", file.to_str().unwrap()];
    section.iter().for_each(|section| words.extend(["-j", section]));
    let at = format!("{at:x}");
    words.push(&at);
    let text = output("addr2line", &words);
    let line = text.split_whitespace().next().unwrap();
    line.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn functions_and_lines_are_those_of_vmlinux_and_of_the_module() {
    let Some(machine) = MachineFolder::new() else { return };
    machine.put(&machine.module, "lib/modules/9.9.9-test/kernel/my-mod.ko");
    let expected = machine.expected();
    assert!(expected.len() > 100, "{expected:?}");
    let vmlinux = machine.vmlinux.to_str().unwrap().to_owned();
    assert_eq!(machine.lines(&["-k", &vmlinux]), expected);
    // tare finds it in a folder for kernel debug files.
    machine.put(&machine.vmlinux, "usr/lib/debug/boot/vmlinux-9.9.9-test");
    assert_eq!(machine.lines(&[]), expected);
    std::fs::remove_dir_all(machine.folder.path().join("root/usr")).unwrap();
    assert!(machine.lines(&[]) != expected);
    let id = build_id(&machine.vmlinux);
    let kept = format!("kept/.build-id/{}/{}/elf", &id[..2], &id[2..]);
    machine.put(&machine.vmlinux, &kept);
    let kept = machine.folder.path().join("root/kept");
    assert_eq!(machine.lines(&["--buildid-dir", kept.to_str().unwrap()]), expected);
}

#[test]
fn every_command_takes_a_vmlinux() {
    let Some(machine) = MachineFolder::new() else { return };
    let vmlinux = machine.vmlinux.to_str().unwrap();
    for words in [
        &["report", "--stdio", "--sort", "sym,srcline"][..],
        &["script", "--inline"],
        &["annotate", "--stdio"],
        &["flame", "-o", "-"],
        &["export", "-f", "folded", "-o", "-"],
    ] {
        for option in ["-k", "--vmlinux"] {
            let words = [words, &[option, vmlinux]].concat();
            let output = machine.tare(&words);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{words:?}: {}", stderr(&output));
            assert!(text.contains("do_work"), "{words:?}: {text}");
        }
    }
    let text = machine.tare(&["script", "--inline", "-k", vmlinux]).stdout;
    let text = String::from_utf8(text).unwrap();
    let inlined = |line: &str| line.contains(" count_up+0x") && line.ends_with(" (inlined)");
    assert!(text.lines().any(inlined), "{text}");
    let text = machine.tare(&["annotate", "-k", vmlinux, "-s", "do_work"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("ret") && text.contains("n *= 3"), "{text}");
}

#[test]
fn a_vmlinux_of_another_build_is_refused() {
    let Some(machine) = MachineFolder::new() else { return };
    let other = "00112233445566778899aabbccddeeff00112233";
    machine.write(other, 0);
    let vmlinux = machine.vmlinux.to_str().unwrap();
    let output = machine.tare(&["report", "-k", vmlinux]);
    let why = stderr(&output);
    assert_eq!((output.status.code(), why.lines().count()), (Some(1), 1), "{why}");
    assert!(why.contains("another kernel than the recorded one"), "{why}");
    machine.put(&machine.vmlinux, "usr/lib/debug/boot/vmlinux-9.9.9-test");
    let lines = machine.lines(&[]);
    assert!(lines.iter().all(|(_, name, _)| name != "do_work"), "{lines:?}");
    for (content, words) in [(&b""[..], "not a whole ELF file"), (b"\x7fELF", "not a whole")] {
        let file = machine.folder.path().join("broken");
        std::fs::write(&file, content).unwrap();
        let output = machine.tare(&["report", "-k", file.to_str().unwrap()]);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let output = machine.tare(&["report", "-k", "/nowhere/vmlinux"]);
    assert!(stderr(&output).contains("/nowhere/vmlinux: "), "{}", stderr(&output));
}

/// A module as distributions ship it: compressed, listed by depmod, with its debug file elsewhere.
#[test]
fn modules_are_read_compressed_and_have_debug_files() {
    let Some(machine) = MachineFolder::new() else { return };
    let folder = machine.folder.path();
    let expected: Vec<_> = machine.expected().into_iter().filter(|(at, ..)| *at >= BASE).collect();
    run("objcopy", &["--only-keep-debug", "my-mod.ko", "my-mod.debug"], folder);
    run("strip", &["--strip-debug", "my-mod.ko"], folder);
    let root = folder.join("root");
    std::fs::create_dir_all(root.join("lib/modules/9.9.9-test/other")).unwrap();
    let of_module = |found: Vec<(u64, String, String)>| -> Vec<_> {
        found.into_iter().filter(|(at, ..)| *at >= BASE).collect()
    };
    for (program, words, end) in [
        ("xz", &["--check=crc32", "--lzma2=dict=1MiB", "-k"][..], "xz"),
        ("zstd", &["-q", "-k"], "zst"),
        ("gzip", &["-k"], "gz"),
    ] {
        let packed = folder.join(format!("my-mod.ko.{end}"));
        if !Command::new(program)
            .args(words)
            .arg(&machine.module)
            .status()
            .is_ok_and(|s| s.success())
        {
            println!("skipped: no {program}");
            continue;
        }
        let path = format!("lib/modules/9.9.9-test/other/my-mod.ko.{end}");
        machine.put(&packed, &path);
        let list = format!("kernel/x.ko:\nother/my-mod.ko.{end}: kernel/x.ko\n");
        std::fs::write(root.join("lib/modules/9.9.9-test/modules.dep"), list).unwrap();
        let found = of_module(machine.lines(&[]));
        assert_eq!(found.len(), expected.len(), "{end}");
        assert!(
            found.iter().zip(&expected).all(|(a, b)| a.1 == b.1 && a.2.is_empty()),
            "{found:?}"
        );
        for debug in [
            "usr/lib/debug/lib/modules/9.9.9-test/other/my-mod.ko",
            "usr/lib/debug/usr/lib/modules/9.9.9-test/other/my-mod.ko.debug",
        ] {
            machine.put(&folder.join("my-mod.debug"), debug);
            assert_eq!(of_module(machine.lines(&[])), expected, "{end} {debug}");
            std::fs::remove_file(root.join(debug)).unwrap();
        }
        std::fs::remove_file(root.join(path)).unwrap();
    }
    // A damaged file is ignored.
    let path = root.join("lib/modules/9.9.9-test/other/my-mod.ko.xz");
    std::fs::write(&path, b"\xfd7zXZ\0 and no more").unwrap();
    assert!(of_module(machine.lines(&[])).iter().all(|(_, name, _)| name.starts_with('[')));
}

/// The loader left a gap between two sections. kallsyms has the addresses of their functions.
#[test]
fn a_running_kernels_list_says_where_a_modules_sections_lie() {
    let Some(machine) = MachineFolder::new() else { return };
    let root = machine.folder.path().join("root");
    let id = build_id(&machine.module);
    machine.put(&machine.module, "lib/modules/9.9.9-test/kernel/my-mod.ko");
    let expected: Vec<_> = machine.expected().into_iter().filter(|(at, ..)| *at >= BASE).collect();
    // At this boot the module has another address, and its second section lies 0x100 higher.
    let now = 0x10_0000;
    let moved = |name: &str, at: u64| at + now + if name == "module_other" { 0x100 } else { 0 };
    let symbols: Vec<String> = machine
        .functions(&machine.module)
        .iter()
        .filter_map(|(name, at, _)| Some((name, moved(name, machine.loaded(name, *at)?))))
        .map(|(name, at)| format!("{at:016x} t {name}\t[my_mod]\n"))
        .collect();
    let note = |id: &str| {
        let bytes = (0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap());
        let front = [4_u32, 20, 3].map(u32::to_ne_bytes).concat();
        [front, b"GNU\0".to_vec(), bytes.collect()].concat()
    };
    let text = format!("{:016x} T _text\n{}", LINKED + MOVED, symbols.concat());
    let kernel = build_id(&machine.vmlinux);
    for (path, content) in [
        ("proc/kallsyms", text.into_bytes()),
        ("proc/modules", format!("my_mod 8192 0 - Live {:#x}\n", BASE + now).into_bytes()),
        ("sys/kernel/notes", note(&kernel)),
        ("sys/module/my_mod/notes/.note.gnu.build-id", note(&id)),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    machine.write(&kernel, 0x100);
    let found: Vec<_> = machine.lines(&[]).into_iter().filter(|(at, ..)| *at >= BASE).collect();
    let wanted = expected.into_iter().map(|(at, name, line)| (moved(&name, at) - now, name, line));
    assert_eq!(found, wanted.collect::<Vec<_>>());
}
