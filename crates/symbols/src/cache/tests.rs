use std::os::unix::fs::MetadataExt;

use super::*;
use crate::answers::{AnswerFrame, Answers};
use crate::name_source::NameSource;
use crate::table::{NewSymbol, SymbolTableBuilder};
use crate::texts::Texts;

fn cache(folder: &Path, max_bytes: u64) -> SymbolCache {
    let uid = folder.metadata().unwrap().uid();
    SymbolCache { folder: folder.into(), max_bytes, uid }
}

fn id(byte: u8) -> BuildId {
    BuildId::new(&[byte; 20]).unwrap()
}

fn table(symbols: u64) -> SymbolTable {
    let mut builder = SymbolTableBuilder::new(NameSource::Symtab);
    for at in 0..symbols {
        let name = format!("function_{at}_{}", "x".repeat(usize::try_from(at % 300).unwrap()));
        assert!(builder.add(NewSymbol::function(at * 16, 8 + at % 16), name.as_bytes()));
    }
    builder.build(true)
}

#[test]
fn kept_symbols_equal_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    let table = table(20_000);
    cache.keep_table(id(1), true, &table);
    let kept = cache.table(id(1), true).unwrap();
    for address in (0..20_100 * 16).step_by(7) {
        let found = kept.find(address);
        let expected = table.find(address);
        assert_eq!(found, expected, "{address}");
        if let Some(found) = found {
            assert_eq!(kept.name(found.number), table.name(found.number));
        }
    }
    assert!(cache.table(id(2), true).is_none() && cache.table(id(1), false).is_none());
    cache.remove_table(id(1), true);
    assert!(cache.table(id(1), true).is_none());
    cache.keep_table(id(3), true, &self::table(100));
    assert!(cache.table(id(3), true).is_none(), "few symbols");
}

/// Two frames per address, one of them inlined; every third address has none.
fn answers(addresses: &[u64]) -> Answers {
    let mut answers = Answers::new(Texts::new(1 << 20));
    for address in addresses {
        let name = Some(answers.texts.add(format!("name {address}").as_bytes()));
        let file = Some(answers.texts.add(b"/a/file.rs"));
        let line = u32::try_from(*address).unwrap();
        let column = 7;
        let first_line = line / 2;
        let inner = AnswerFrame { name, file, line, column, first_line, is_inlined: true };
        let outer =
            AnswerFrame { name: None, file, line, column: 0, first_line: 0, is_inlined: false };
        answers.push(if address % 3 == 0 { vec![] } else { vec![inner, outer] });
    }
    answers
}

fn keep(cache: &SymbolCache, addresses: &[u64]) {
    let answers = answers(addresses);
    let mut new = NewAnswers::default();
    for (number, address) in addresses.iter().enumerate() {
        new.add(*address, &answers, number);
    }
    cache.keep_answers(id(1), new);
}

/// The frames of an address as text.
fn words(answers: &Answers, number: usize) -> Vec<String> {
    let text = |id| answers.texts.get(id).to_owned();
    let frames = answers.get(number).iter();
    let words = |frame: &AnswerFrame| {
        let name = frame.name.map(text);
        let file = frame.file.map(text);
        format!("{name:?} {file:?} {} {} {}", frame.line, frame.column, frame.is_inlined)
    };
    frames.map(words).collect()
}

#[test]
fn keeps_answers_of_several_runs() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    let all: Vec<u64> = (0..5000).collect();
    keep(&cache, &all[1000..3000]);
    keep(&cache, &all[2000..]);
    let kept = cache.answers(id(1)).unwrap();
    let merge = AnswerMerge::look_up(Some(&kept), &all);
    assert_eq!(merge.missing(&all), all[..1000]);
    let merged = merge.finish(None).unwrap();
    let expected = answers(&all[1000..]);
    for number in 0..4000 {
        assert_eq!(words(&merged, 1000 + number), words(&expected, number));
    }
    assert!((0..1000).all(|number| merged.get(number).is_empty()));
}

#[test]
fn fresh_answers_fill_the_gaps_between_kept_ones() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    keep(&cache, &[10, 30, 50]);
    let kept = cache.answers(id(1)).unwrap();
    let all = [10, 20, 30, 40];
    let merge = AnswerMerge::look_up(Some(&kept), &all);
    let missing = merge.missing(&all);
    assert_eq!(missing, [20, 40]);
    let merged = merge.finish(Some(answers(&missing))).unwrap();
    let expected = answers(&all);
    for number in 0..all.len() {
        assert_eq!(words(&merged, number), words(&expected, number));
    }
    assert!(AnswerMerge::look_up(None, &all).finish(None).is_none());
}

/// Each reader sees a whole file of one of the writers.
#[test]
fn parallel_writers_leave_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 1 << 30);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..20 {
                    keep(cache, &[thread * 1000 + round, 50_000]);
                    let kept = cache.answers(id(1)).unwrap();
                    let merge = AnswerMerge::look_up(Some(&kept), &[50_000]);
                    assert!(merge.missing(&[50_000]).is_empty());
                    let merged = merge.finish(None).unwrap();
                    assert_eq!(words(&merged, 0), words(&answers(&[50_000]), 0));
                }
            });
        }
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn removes_the_least_recently_used_files_first() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path(), 3 << 20);
    let table = table(5000);
    let age = |byte: u8, hours: u64| {
        let (path, _) = cache.symbols(id(byte), true);
        let file = File::options().write(true).open(path).unwrap();
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        file.set_times(FileTimes::new().set_modified(then)).unwrap();
    };
    for byte in 1..=3 {
        cache.keep_table(id(byte), true, &table);
        age(byte, 100 - u64::from(byte));
    }
    let is_kept = |byte: u8| cache.symbols(id(byte), true).0.exists();
    assert!(cache.table(id(1), true).is_some(), "it is used now");
    cache.keep_table(id(4), true, &table);
    let size = cache.symbols(id(4), true).0.metadata().unwrap().len();
    assert!((3 << 20) / size < 4, "{size}: four have no room");
    assert_eq!([1, 2, 3, 4].map(is_kept), [true, false, (3 << 20) / size > 2, true]);
    let left = folder.path().join("x.1-1.tmp");
    std::fs::write(&left, "left").unwrap();
    File::options()
        .write(true)
        .open(&left)
        .unwrap()
        .set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))
        .unwrap();
    cache.keep_table(id(5), true, &table);
    assert!(!left.exists() && is_kept(5));
}
