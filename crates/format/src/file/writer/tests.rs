mod machine;

use super::*;
use crate::abi::Sampling;
use crate::file::Reader;
use crate::record::kind;

fn event(ids: usize) -> EventDescription {
    let attr = Attr { kind: 1, sampling: Sampling::Period(7), ..Attr::default() };
    EventDescription { attr, ids: (1..=ids as u64).collect(), name: "cpu-clock".to_owned() }
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Returns kinds and sizes of consecutive records.
fn records(mut bytes: &[u8]) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let record_kind = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        let size = usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        let payload = if record_kind == kind::HEADER_TRACING_DATA {
            u32::from_ne_bytes(bytes[8..12].try_into().unwrap())
        } else {
            0
        };
        found.push((record_kind, size));
        bytes = &bytes[size + payload as usize..];
    }
    found
}

#[test]
fn a_beginning_is_a_complete_file() {
    let features = vec![Feature::Hostname("here".to_owned()), Feature::BuildIds(Vec::new())];
    let description =
        Description { events: vec![event(3), event(0)], features, tracing_data: Some(vec![1; 21]) };
    let Beginning { bytes, feature_table, data_start, .. } =
        description.beginning(|_| 0, 1).unwrap();
    assert_eq!(&bytes[..8], &MAGIC.to_ne_bytes());
    let [attrs, attrs_size, data, data_size] = [24, 32, 40, 48].map(|at| word(&bytes, at));
    assert_eq!((attrs, attrs_size), (HEADER_SIZE + 3 * 8, 2 * (128 + 16)), "behind the ids");
    let event_desc = 8 + 2 * (128 + 4 + 4 + 64) + 3 * 8;
    let front = (attrs + attrs_size + 21 + event_desc).next_multiple_of(8);
    assert_eq!((data, data_start), (front, front as u64));
    let hostname = 8 + 8 + 4 + 64 + 4;
    assert_eq!(records(&bytes[data..data + data_size]), [(kind::HEADER_FEATURE, hostname)]);
    assert_eq!(bytes[data + data_size..], feature_table, "the first table");
    assert_eq!(word(&bytes, 72), 1 | 1 << features::TRACING_DATA | 1 << features::EVENT_DESC);
    assert_eq!(records(&feature_table), [(kind::FINISHED_INIT, 3 * 16)], "is a record, too");
    assert_eq!(word(&feature_table, 8), 0, "and its first entry has no bytes");
    assert_eq!(bytes[word(&feature_table, 16)..][..word(&feature_table, 24)], [1; 21]);
    assert!(bytes.len().is_multiple_of(8));
}

#[test]
fn a_stream_begins_with_records() {
    let features = vec![Feature::Hostname("here".to_owned()), Feature::BuildIds(Vec::new())];
    let description =
        Description { events: vec![event(3), event(0)], features, tracing_data: Some(vec![1; 21]) };
    let bytes = description.stream_beginning().unwrap();
    let hostname = 8 + 8 + 4 + 64 + 4;
    let event_desc = 8 + 8 + 8 + 2 * (128 + 4 + 4 + 64) + 3 * 8;
    let expected = [
        (kind::HEADER_ATTR, 8 + 128 + 3 * 8),
        (kind::HEADER_ATTR, 8 + 128),
        (kind::EVENT_UPDATE, 8 + 16 + 16),
        (kind::HEADER_FEATURE, hostname),
        (kind::HEADER_FEATURE, event_desc),
        (kind::HEADER_TRACING_DATA, 16),
    ];
    assert_eq!(records(&bytes[16..]), expected);
}

#[test]
fn an_ending_locates_all_sections() {
    let features = vec![Feature::TotalMemoryKib(5), Feature::Arch("x".to_owned())];
    let description =
        Description { events: vec![event(2)], features, tracing_data: Some(vec![9; 3]) };
    let data = 500..600;
    let Ending { tail, header } = description.ending(&data).unwrap();
    let at = |offset: usize| offset - 600;
    assert_eq!([word(&header, 40), word(&header, 48)], [500, 100]);
    assert_eq!(
        word(&header, 72),
        1 << features::TRACING_DATA
            | 1 << features::ARCH
            | 1 << features::TOTAL_MEM
            | 1 << features::EVENT_DESC
    );
    let sections: Vec<&[u8]> =
        (0..4).map(|n| &tail[at(word(&tail, 16 * n))..][..word(&tail, 16 * n + 8)]).collect();
    assert_eq!(sections[0], [9; 3]);
    assert_eq!(&sections[1][..6], &[64_u32.to_ne_bytes().as_slice(), b"x\0"].concat()[..]);
    assert_eq!(sections[2], 5_u64.to_ne_bytes());
    assert_eq!(sections[3].len(), 8 + 128 + 4 + 4 + 64 + 2 * 8);

    let [attr_size, offset, size] = [16, 24, 32].map(|field| word(&header, field));
    assert_eq!((attr_size, size), (128 + 16, 128 + 16));
    let attr = &tail[at(offset)..];
    assert_eq!(attr.len(), size, "attributes are last");
    assert_eq!(attr[4..8], 128_u32.to_ne_bytes());
    assert_eq!(
        tail[at(word(attr, 128))..][..word(attr, 136)],
        [1_u64, 2].map(u64::to_ne_bytes).concat()
    );
}

#[test]
fn writes_the_newest_field_only_if_an_event_uses_it() {
    let mut newest = event(1);
    newest.attr.config3 = 1;
    let description = Description { events: vec![event(1), newest], ..Description::default() };
    let Ending { header, .. } = description.ending(&(104..104)).unwrap();
    assert_eq!([word(&header, 16), word(&header, 32)], [ATTR_SIZE + 16, 2 * (ATTR_SIZE + 16)]);
}

#[test]
fn refuses_descriptions_that_do_not_fit() {
    let beginning =
        |event| Description { events: vec![event], ..Description::default() }.stream_beginning();
    assert!(
        beginning(event(8175))
            .is_err_and(|error| matches!(error, WriteError::TooManyIds { ids: 8175, .. }))
    );
    assert!(beginning(event(8174)).is_ok());
    let long = EventDescription { name: "x".repeat(70_000), ..event(1) };
    assert_eq!(beginning(long), Err(WriteError::NameTooLong { len: 70_000 }));
    let backwards = Description::default().ending(&Range { start: 5, end: 4 });
    assert_eq!(backwards, Err(WriteError::NotARange { start: 5, end: 4 }));
    assert!(Description::default().ending(&(0..u64::MAX)).is_err());
}

#[test]
fn features_too_long_for_a_record_are_in_the_ending() {
    let features = vec![Feature::CommandLine(vec!["x".repeat(70_000)])];
    let description = Description { features, ..Description::default() };
    assert_eq!(records(&description.stream_beginning().unwrap()[16..]).len(), 1);
    assert!(description.ending(&(104..104)).unwrap().tail.len() > 70_000);
}

/// Returns features of several shapes: texts, numbers, lists, structures.
fn several_features() -> Vec<Feature> {
    let cpus =
        vec![CpuPlace { core: 0, socket: 0, die: 0 }, CpuPlace { core: 1, socket: 0, die: 1 }];
    vec![
        Feature::Hostname("h".to_owned()),
        Feature::CpuCount { available: 2, online: 1 },
        Feature::TotalMemoryKib(77),
        Feature::CommandLine(vec!["tare".to_owned(), "x".repeat(64)]),
        Feature::CpuTopology(CpuTopology {
            sockets: vec!["0-1".to_owned()],
            cores: vec!["0".to_owned(), "1".to_owned()],
            dies: vec!["0-1".to_owned()],
            cpus,
        }),
        Feature::PmuMappings(vec![(1, "software".to_owned())]),
        Feature::SampleTime { first_ns: 3, last_ns: 4 },
        Feature::Clock(Clock { clockid: 1, wall_clock_ns: 9, clock_ns: 8 }),
    ]
}

/// Asserts that a reader finds the features of [`several_features`], and the tracing data.
fn assert_several(features: &features::Features) {
    assert_eq!(features.text(features::HOSTNAME), Ok(&b"h"[..]));
    assert_eq!(features.cpus(), Ok((2, 1)));
    assert_eq!(features.number(features::TOTAL_MEM), Ok(77));
    assert_eq!(features.cmdline().unwrap(), [&b"tare"[..], "x".repeat(64).as_bytes()]);
    let topology = features.cpu_topology().unwrap();
    assert_eq!((topology.cores, topology.dies), (vec![&b"0"[..], b"1"], vec![&b"0-1"[..]]));
    assert_eq!((topology.cpus[1].core, topology.cpus[1].die), (1, Some(1)));
    assert_eq!(features.pmu_mappings().unwrap(), [(1, &b"software"[..])]);
    assert_eq!(features.sample_time_ns(), Ok((3, 4)));
    assert_eq!(
        features.clock_data().map(|read| (read.clockid, read.wall_clock_ns, read.clock_ns)),
        Ok((1, 9, 8))
    );
    assert_eq!(
        features.section(features::TRACING_DATA).map(|data| &data[..11]),
        Some(&[5; 11][..])
    );
}

/// Reads a file before and after its ending was written.
#[test]
fn a_reader_finds_everything_in_unfinished_and_finished_files() {
    let events =
        vec![event(2), EventDescription { ids: vec![7], name: "other".to_owned(), ..event(0) }];
    let description =
        Description { events, features: several_features(), tracing_data: Some(vec![5; 11]) };
    let beginning = description.beginning(|_| 0, 1).unwrap();
    let mut killed = beginning.bytes.clone();
    let start = killed.len() as u64;
    killed.extend([FINISHED_INIT, FINISHED_ROUND].as_flattened());
    let end = killed.len() as u64;
    let mut finished = killed.clone();
    let ending = description.ending(&(start..end)).unwrap();
    finished.extend(&ending.tail);
    finished[..HEADER_SIZE].copy_from_slice(&ending.header);
    let at = usize::try_from(DATA_SIZE_OFFSET).unwrap();
    killed.extend(&beginning.feature_table);
    killed[at..at + 8].copy_from_slice(&beginning.data_size(end));

    for (bytes, records) in [(killed, 8 + 1 + 2), (finished, 2)] {
        let mut reader = Reader::open(std::io::Cursor::new(&bytes)).unwrap();
        let mut found = 0;
        while reader.next_record().unwrap().is_some() {
            found += 1;
        }
        assert_eq!(found, records);
        assert!(reader.losses().is_empty(), "{:?}", reader.losses());
        let events: Vec<_> = reader
            .description()
            .events()
            .iter()
            .map(|event| (event.ids.clone(), event.name.clone().unwrap()))
            .collect();
        assert_eq!(events, [(vec![1, 2], b"cpu-clock".to_vec()), (vec![7], b"other".to_vec())]);
        assert_several(reader.description().features());
    }
}

/// Ids of later counters in the reserved room, and the end of that room.
#[test]
fn a_reader_finds_later_ids_in_files() {
    let events = vec![event(2), EventDescription { ids: vec![7], ..event(0) }];
    let mut description = Description { events, ..Description::default() };
    let mut beginning = description.beginning(|_| 2, 1).unwrap();
    let mut bytes = beginning.bytes.clone();
    let plain = description.beginning(|_| 0, 1).unwrap().bytes;
    assert_eq!(bytes.len(), plain.len() + 2 * 2 * 8);
    bytes.extend(FINISHED_ROUND);
    let end = bytes.len() as u64;
    bytes.extend(&beginning.feature_table);
    let at = usize::try_from(DATA_SIZE_OFFSET).unwrap();
    bytes[at..at + 8].copy_from_slice(&beginning.data_size(end));
    let read = |bytes: &[u8]| {
        let mut reader = Reader::open(std::io::Cursor::new(bytes)).unwrap();
        while reader.next_record().unwrap().is_some() {}
        assert!(reader.losses().is_empty());
        reader.description().events().iter().map(|event| event.ids.clone()).collect::<Vec<_>>()
    };
    assert_eq!(read(&bytes), [vec![1, 2], vec![7]], "unused room has no effect");
    for (event, id) in [(0, 11), (1, 12), (1, 13)] {
        let at = usize::try_from(beginning.room.take(event).unwrap()).unwrap();
        bytes[at..at + 8].copy_from_slice(&u64::to_ne_bytes(id));
        description.events[event].ids.push(id);
    }
    assert_eq!(read(&bytes), [vec![1, 2, 11], vec![7, 12, 13]]);
    assert_eq!((beginning.room.take(1), beginning.room.take(2)), (None, None));
    let start = bytes.len() as u64;
    bytes.extend(FINISHED_ROUND);
    let ending = description.ending(&(start..start + 8)).unwrap();
    bytes.extend(&ending.tail);
    bytes[..HEADER_SIZE].copy_from_slice(&ending.header);
    assert_eq!(read(&bytes), [vec![1, 2, 11], vec![7, 12, 13]], "in a finished file");
}

/// In a stream the ids of later counters arrive as records; events with equal attributes take
/// turns.
#[test]
fn a_reader_finds_later_ids_in_a_stream() {
    let other = Attr { config: 2, ..event(0).attr };
    let events = vec![
        event(2),
        EventDescription { attr: other, ids: vec![5, 6], ..event(0) },
        EventDescription { ids: vec![7, 8], ..event(0) },
    ];
    let description = Description { events, ..Description::default() };
    let mut stream = description.stream_beginning().unwrap();
    stream.extend(FINISHED_INIT);
    stream.extend(description.stream_ids(&[11, 12, 13]).unwrap());
    stream.extend(description.stream_ids(&[21, 22, 23]).unwrap());
    let mut reader = Reader::stream(&stream[..]).unwrap();
    while reader.next_record().unwrap().is_some() {}
    let ids: Vec<_> = reader.description().events().iter().map(|event| event.ids.clone()).collect();
    assert_eq!(ids, [vec![1, 2, 11, 21], vec![5, 6, 12, 22], vec![7, 8, 13, 23]]);
    assert_eq!(reader.description().lookup().with_id(23), Some(2));
}
