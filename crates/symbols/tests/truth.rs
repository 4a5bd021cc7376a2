//! Compares functions, inlined functions and lines with those of LLVM's symbolizer, and those of
//! files whose debug info is elsewhere or compressed with those of the whole file.

use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tare_symbols::{Dso, DsoAddress, DsoKind, DsoTable, NameSource, SymbolOptions, Symbolizer};

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct pair { int a, b; };
static inline __attribute__((always_inline)) int square(int x) { return x * x + rand(); }
static inline int twice(int x) { return square(x) + square(x + 1); }
__attribute__((noinline)) static int order(const void *a, const void *b) {
    return ((const struct pair *)a)->a - ((const struct pair *)b)->a;
}
__attribute__((noinline)) int work(struct pair *p, int n) {
    for (int i = 0; i < n; i++) { p[i].a = twice(i); p[i].b = square(p[i].a); }
    qsort(p, n, sizeof *p, order);
    return p[0].a ^ p[n - 1].b;
}
int main(int argc, char **argv) {
    static struct pair p[1000];
    printf("%d\n", work(p, 500 + argc));
    return 0;
}
"#;

const CPP: &str = r#"
#include <algorithm>
#include <iostream>
#include <map>
#include <numeric>
#include <regex>
#include <string>
#include <vector>
namespace shapes {
template <int N> struct Box {
    std::map<int, std::string> names;
    std::vector<int> sizes;
    int fill(int x) {
        for (int i = 0; i < N; i++) { names[i * x] = std::to_string(i); sizes.push_back(i ^ x); }
        std::sort(sizes.begin(), sizes.end(), [](int a, int b) { return a % 7 < b % 7; });
        return std::accumulate(sizes.begin(), sizes.end(), 0) + names.size();
    }
};
template <int N> int all(int x) {
    if constexpr (N > 0) return Box<N>().fill(x) + all<N - 1>(x); else return 0;
}
}
int main(int argc, char **argv) {
    std::regex wanted("(a|b)*c");
    std::cout << shapes::all<6>(argc) << std::regex_search(std::string(argv[0]), wanted);
}
"#;

const RUST: &str = r#"
use std::collections::BTreeMap;
trait Shape { fn area(&self) -> u64; }
struct Square(u64);
impl Shape for Square { #[inline(always)] fn area(&self) -> u64 { self.0.wrapping_mul(self.0) } }
#[inline(never)]
fn sum(shapes: &[Box<dyn Shape>]) -> u64 { shapes.iter().map(|shape| shape.area()).sum() }
fn main() {
    let shapes: Vec<Box<dyn Shape>> = (0..100).map(|n| Box::new(Square(n)) as _).collect();
    let mut names = BTreeMap::new();
    for n in 0..sum(&shapes) % 100 { names.insert(n, format!("{n:?}")); }
    println!("{names:?}");
}
"#;

/// Runs a tool and returns its output; `None` if it isn't installed.
fn run(program: &str, args: &[&str], folder: &Path, input: &str) -> Option<String> {
    let mut child = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Addresses spread evenly over `.text`.
fn addresses(folder: &Path, file: &str) -> Option<Vec<u64>> {
    const COUNT: u64 = 500;
    let text = run("readelf", &["-SW", file], folder, "")?;
    let line = text.lines().find(|line| line.contains(" .text "))?;
    let words: Vec<&str> = line.split(" .text ").nth(1)?.split_whitespace().collect();
    let [start, bytes] =
        [1, 3].map(|at| u64::from_str_radix(words[at], 16).expect("as the test made it"));
    Some((0..COUNT).map(|at| start + bytes * at / COUNT).collect())
}

/// The frames of each address, as LLVM's symbolizer writes them.
fn ours(file: &Path, addresses: &[u64], threads: usize) -> Vec<String> {
    let options = SymbolOptions { demangle: false, ..SymbolOptions::default() };
    let mut dsos = DsoTable::default();
    let symbolizer = Symbolizer::new(options);
    let name = file.as_os_str().as_bytes().to_vec();
    let dso =
        dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).expect("as the test made it");
    let offset = |address| symbolizer.file_offset(&dsos, dso, address).expect("it is in .text");
    let asked: Vec<_> =
        addresses.iter().map(|at| DsoAddress { dso, address: offset(*at) }).collect();
    let frames =
        symbolizer.frames(&dsos, &asked, NonZeroUsize::new(threads).expect("as the test made it"));
    let lines = |place| {
        let mut text = String::new();
        for frame in frames.get(place) {
            let name = frame.name.unwrap_or("??");
            match frame.location {
                Some(at) => writeln!(text, "{name}\n{}:{}:{}", at.file, at.line, at.column),
                None => writeln!(text, "{name}\n??:0:0"),
            }
            .expect("as the test made it");
        }
        text
    };
    (0..frames.len()).map(lines).collect()
}

fn theirs(folder: &Path, file: &str, addresses: &[u64]) -> Option<Vec<String>> {
    let mut input = String::new();
    addresses
        .iter()
        .for_each(|address| writeln!(input, "{address:#x}").expect("as the test made it"));
    let object = format!("--obj={file}");
    let args = ["--no-demangle", "--functions=linkage", &object];
    let programs = ["llvm-symbolizer-19", "llvm-symbolizer"];
    let text = programs.iter().find_map(|program| run(program, &args, folder, &input))?;
    Some(text.split_terminator("\n\n").map(|answer| format!("{}\n", answer.trim_end())).collect())
}

/// Whether two answers agree. A function with several symbols may have either name, and the file of
/// a function without debug info may be missing here: LLVM takes it from the symbol table.
fn agree(ours: &str, theirs: &str, aliases: &dyn Fn(&str, &str) -> bool) -> bool {
    let ours: Vec<_> = ours.lines().collect();
    let theirs: Vec<_> = theirs.lines().collect();
    let [our_inner @ .., our_name, our_place] = &ours[..] else { return false };
    let [inner @ .., name, place] = &theirs[..] else { return false };
    let same_place = our_place == place || *our_place == "??:0:0" && place.ends_with(":0:0");
    our_inner == inner && (our_name == name || aliases(our_name, name)) && same_place
}

/// Compares 500 addresses of a file with LLVM's answers; `false` if a tool is missing.
fn compare(folder: &Path, file: &str) -> bool {
    let Some(addresses) = addresses(folder, file) else { return false };
    let Some(theirs) = theirs(folder, file, &addresses) else { return false };
    let ours = ours(&folder.join(file), &addresses, 2);
    let symbols = run("nm", &[file], folder, "").expect("nm is where readelf is");
    let at = |name: &str| {
        let line = symbols.lines().find(|line| line.rsplit(' ').next() == Some(name));
        line.and_then(|line| line.split(' ').next())
    };
    let aliases = |left: &str, right: &str| at(left).is_some() && at(left) == at(right);
    let mut differ = Vec::new();
    for ((address, ours), theirs) in addresses.iter().zip(&ours).zip(&theirs) {
        if !agree(ours, theirs, &aliases) {
            differ.push(format!("{file} {address:#x}\nours\n{ours}LLVM's\n{theirs}"));
        }
    }
    let inlined = ours.iter().filter(|answer| answer.lines().count() > 2).count();
    assert!(inlined > 20, "{file}: {inlined} of 500 addresses lie in inlined functions");
    assert!(differ.len() * 1000 <= addresses.len(), "{}", differ.join("\n"));
    true
}

fn folder_with(sources: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("as the test made it");
    for (name, source) in sources {
        std::fs::write(folder.path().join(name), source).expect("as the test made it");
    }
    folder
}

#[test]
fn answers_are_those_of_llvms_symbolizer() {
    let folder = folder_with(&[("t.c", C), ("t.cpp", CPP), ("t.rs", RUST)]);
    let builds: [(&str, &[&str], &str); 4] = [
        ("gcc", &["-O2", "-g", "-gdwarf-5", "t.c", "-o", "c5"], "c5"),
        ("gcc", &["-O2", "-g", "-gdwarf-4", "-gz=zlib", "t.c", "-o", "c4"], "c4"),
        ("g++", &["-O2", "-g", "-std=c++17", "t.cpp", "-o", "cpp"], "cpp"),
        ("rustc", &["-O", "-g", "t.rs", "-o", "rust"], "rust"),
    ];
    let mut compared = 0;
    for (compiler, args, file) in builds {
        if run(compiler, args, folder.path(), "").is_some() && compare(folder.path(), file) {
            compared += 1;
        } else {
            println!("skipped: {file} needs {compiler}, readelf and llvm-symbolizer-19");
        }
    }
    println!("{compared} of 4 binaries compared");
}

/// Compares answers, and shows the first that differs.
fn same(found: &[String], expected: &[String], what: &str) {
    let differs = found.iter().zip(expected).find(|(found, expected)| found != expected);
    assert!(found.len() == expected.len() && differs.is_none(), "{what}: {differs:?}");
}

/// Answers stay the same if the debug info is moved to another file or compressed.
#[test]
fn debug_info_elsewhere_says_the_same() {
    let folder = folder_with(&[("t.cpp", CPP)]);
    let path = folder.path();
    let sh = |line: &str| run("sh", &["-ec", line], path, "");
    if run("g++", &["-O2", "-g", "-std=c++17", "t.cpp", "-o", "whole"], path, "").is_none() {
        return println!("skipped: no g++");
    }
    let Some(addresses) = addresses(path, "whole") else {
        return println!("skipped: no readelf");
    };
    let expected = ours(&path.join("whole"), &addresses, 1);
    assert!(expected.iter().filter(|answer| answer.contains("stl_")).count() > 20);
    same(&ours(&path.join("whole"), &addresses, 4), &expected, "by more threads");
    let debug = "objcopy --only-keep-debug whole x.debug && strip -o stripped whole";
    sh(&format!("{debug} && objcopy --add-gnu-debuglink=x.debug stripped"))
        .expect("as the test made it");
    same(&ours(&path.join("stripped"), &addresses, 1), &expected, "through a debug link");
    for kind in ["zlib", "zlib-gnu", "zstd"] {
        let line = format!("objcopy --compress-debug-sections={kind} whole {kind} 2>&1 || echo no");
        if sh(&line).expect("as the test made it").contains("no") {
            println!("skipped: objcopy has no {kind}");
            continue;
        }
        same(&ours(&path.join(kind), &addresses, 1), &expected, kind);
    }
    if sh("command -v dwz || :").expect("as the test made it").is_empty() {
        return println!("skipped: no dwz");
    }
    sh("cp whole one && cp whole two && dwz -m shared one two && objcopy one three")
        .expect("as the test made it");
    same(&ours(&path.join("one"), &addresses, 1), &expected, "with a file that two share");
    std::fs::remove_file(path.join("shared")).expect("as the test made it");
    assert_ne!(ours(&path.join("one"), &addresses, 1), expected, "without it names are missing");
}

/// Split debug info is in a file of its unit, or in a package.
#[test]
fn split_debug_info_says_the_same() {
    let folder = folder_with(&[("t.cpp", CPP)]);
    let path = folder.path();
    for version in ["4", "5"] {
        let args = |split: &'static str, out: &'static str| {
            ["-O2", "-g", "-std=c++17", split, "t.cpp", "-o", out].map(str::to_owned)
        };
        let build = |split, out| {
            let args = [&args(split, out)[..], &[format!("-gdwarf-{version}")]].concat();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            run("g++", &args, path, "")
        };
        if build("-g", "whole").is_none() {
            return println!("skipped: no g++");
        }
        build("-gsplit-dwarf", "split").expect("as the test made it");
        let Some(addresses) = addresses(path, "whole") else {
            return println!("skipped: no readelf");
        };
        let expected = ours(&path.join("whole"), &addresses, 1);
        same(&ours(&path.join("split"), &addresses, 1), &expected, version);
        // Some versions of dwp crash on DWARF 5.
        let pack = "rm -f split.dwp; dwp -e split -o split.dwp 2>/dev/null && echo packed || :";
        if run("sh", &["-c", pack], path, "").is_some_and(|said| !said.is_empty()) {
            run("sh", &["-c", "rm -f *.dwo"], path, "").expect("as the test made it");
            same(
                &ours(&path.join("split"), &addresses, 1),
                &expected,
                &format!("package {version}"),
            );
        } else {
            println!("skipped: no dwp for DWARF {version}");
        }
    }
}

/// MiniDebugInfo has the functions of a stripped file that no other file calls.
#[test]
fn stripped_files_have_names_in_mini_debug_info() {
    let folder = folder_with(&[("t.c", C)]);
    let path = folder.path();
    let steps = "gcc -O2 t.c -o whole && nm whole | grep ' T ' | cut -d' ' -f3 | sort > dynamic \
                 && objcopy --only-keep-debug whole keep && objcopy -S --remove-section .comment \
                 keep mini && xz -k mini && strip -o stripped whole \
                 && objcopy --add-section .gnu_debugdata=mini.xz stripped";
    let keep = steps.replace("objcopy -S --remove-section .comment keep mini", "cp keep mini");
    if run("sh", &["-c", "command -v gcc && command -v xz || :"], path, "")
        .expect("as the test made it")
        .lines()
        .count()
        < 2
    {
        return println!("skipped: no gcc or no xz");
    }
    run("sh", &["-ec", &keep], path, "").expect("as the test made it");
    let symbols = run("nm", &["whole"], path, "").expect("as the test made it");
    let line = symbols.lines().find(|line| line.ends_with(" t order")).expect("a static function");
    let address = u64::from_str_radix(line.split(' ').next().expect("as the test made it"), 16)
        .expect("as the test made it");
    let mut dsos = DsoTable::default();
    let symbolizer = Symbolizer::new(SymbolOptions::default());
    let name = path.join("stripped").as_os_str().as_bytes().to_vec();
    let dso =
        dsos.intern(Dso { kind: DsoKind::Elf, name, build_id: None }).expect("as the test made it");
    let offset = symbolizer.file_offset(&dsos, dso, address).expect("as the test made it");
    let symbol = symbolizer.find(&dsos, dso, offset).expect("as the test made it");
    assert_eq!(symbolizer.name(symbol), "order");
    assert_eq!(symbolizer.name_source(symbol), Some(NameSource::MiniDebugInfo));
}

const GO: &str = r#"
package main

type pair struct{ a, b int }

func square(x int) int { return x*x + 1 }
func twice(x int) int  { return square(x) + square(x+1) }

//go:noinline
func work(all []pair) int {
	sum := 0
	for i := range all {
		all[i].a = twice(i)
		sum += square(all[i].a)
	}
	return sum
}
func main() { println(work(make([]pair, 1000))) }
"#;

/// A Go program without symbols and debug info still has its runtime's function tables.
#[test]
fn stripped_go_programs_say_the_same() {
    let folder = folder_with(&[("t.go", GO)]);
    let path = folder.path();
    let build = |more: &str| run("sh", &["-c", &format!("go build {more} t.go || :")], path, "");
    for (name, mode) in [("plain", ""), ("pie", "-buildmode=pie")] {
        build(&format!("{mode} -o {name}")).expect("there is a shell");
        build(&format!("{mode} -ldflags='-s -w' -o {name}.stripped")).expect("there is a shell");
        let stripped = path.join(format!("{name}.stripped"));
        let Some(addresses) = addresses(path, name).filter(|_| stripped.exists()) else {
            return println!("skipped: no go or no readelf");
        };
        let expected = ours(&path.join(name), &addresses, 1);
        let found = ours(&stripped, &addresses, 1);
        // Symbols end before the padding between functions, those of assembly functions end with
        // `.abi0`, and debug info calls the file of generated code `./<autogenerated>`.
        let usual = |text: &str| text.replace("./<auto", "<auto").replacen(".abi0\n", "\n", 1);
        let named: Vec<_> =
            expected.iter().zip(&found).filter(|(named, _)| !named.starts_with("??")).collect();
        let differ = named.iter().filter(|(named, found)| usual(named) != **found);
        let inlined = found.iter().filter(|answer| answer.lines().count() > 2).count();
        assert!(named.len() > 400 && inlined > 50, "{} named, {inlined} inlined", named.len());
        assert!(differ.clone().count() <= named.len() / 100, "{:#?}", differ.collect::<Vec<_>>());
    }
}
