use super::*;
use crate::abi::Sampling;

fn event(ids: usize) -> EventDescription {
    let attr = Attr { kind: 1, sampling: Sampling::Period(7), ..Attr::default() };
    EventDescription { attr, ids: (1..=ids as u64).collect(), name: "cpu-clock".to_owned() }
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

/// Kinds and sizes of records that follow each other without a gap.
fn records(mut bytes: &[u8]) -> Vec<(u32, usize)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let kind = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
        let size = usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]));
        let payload = if kind == numbers::HEADER_TRACING_DATA { u32::from_ne_bytes(bytes[8..12].try_into().unwrap()) } else { 0 };
        found.push((kind, size));
        bytes = &bytes[size + payload as usize..];
    }
    found
}

#[test]
fn a_beginning_is_a_file_of_its_own() {
    let features = vec![Feature::Hostname("here".to_owned()), Feature::BuildIds(Vec::new())];
    let description = Description { events: vec![event(3), event(0)], features, tracing_data: Some(vec![1; 21]) };
    let bytes = description.beginning().unwrap();
    assert_eq!(&bytes[..8], &MAGIC.to_ne_bytes());
    assert_eq!([word(&bytes, 24), word(&bytes, 32)], [0, 0], "no attributes");
    assert_eq!([word(&bytes, 40), word(&bytes, 48)], [HEADER_SIZE, bytes.len() - HEADER_SIZE], "all of it is data");
    assert_eq!(word(&bytes, 72), 0, "no features");
    let hostname = 8 + 8 + 4 + 64 + 4;
    let event_desc = 8 + 8 + 8 + 2 * (128 + 4 + 4 + 64) + 3 * 8;
    let found = records(&bytes[HEADER_SIZE..]);
    let expected = [
        (numbers::HEADER_ATTR, 8 + 128 + 3 * 8),
        (numbers::HEADER_ATTR, 8 + 128),
        (numbers::EVENT_UPDATE, 8 + 16 + 16),
        (numbers::HEADER_FEATURE, hostname),
        (numbers::HEADER_FEATURE, event_desc),
        (numbers::HEADER_TRACING_DATA, 16),
    ];
    assert_eq!(found, expected);
    assert!(bytes.len().is_multiple_of(8));
}

#[test]
fn an_ending_points_at_all_of_its_parts() {
    let features = vec![Feature::TotalMemoryKib(5), Feature::Arch("x".to_owned())];
    let description = Description { events: vec![event(2)], features, tracing_data: Some(vec![9; 3]) };
    let data = 500..600;
    let Ending { tail, header } = description.ending(&data).unwrap();
    let at = |offset: usize| offset - 600;
    assert_eq!([word(&header, 40), word(&header, 48)], [500, 100]);
    assert_eq!(word(&header, 72), 1 << numbers::TRACING_DATA | 1 << numbers::ARCH | 1 << numbers::TOTAL_MEM | 1 << numbers::EVENT_DESC);
    let sections: Vec<&[u8]> = (0..4).map(|n| &tail[at(word(&tail, 16 * n))..][..word(&tail, 16 * n + 8)]).collect();
    assert_eq!(sections[0], [9; 3]);
    assert_eq!(&sections[1][..6], &[64_u32.to_ne_bytes().as_slice(), b"x\0"].concat()[..]);
    assert_eq!(sections[2], 5_u64.to_ne_bytes());
    assert_eq!(sections[3].len(), 8 + 128 + 4 + 4 + 64 + 2 * 8);

    let [attr_size, offset, size] = [16, 24, 32].map(|field| word(&header, field));
    assert_eq!((attr_size, size), (128 + 16, 128 + 16));
    let attr = &tail[at(offset)..];
    assert_eq!(attr.len(), size, "attributes are last");
    assert_eq!(attr[4..8], 128_u32.to_ne_bytes());
    assert_eq!(tail[at(word(attr, 128))..][..word(attr, 136)], [1_u64, 2].map(u64::to_ne_bytes).concat());
}

#[test]
fn an_event_that_needs_the_newest_field_has_it_written() {
    let mut newest = event(1);
    newest.attr.config3 = 1;
    let description = Description { events: vec![event(1), newest], ..Description::default() };
    let Ending { header, .. } = description.ending(&(104..104)).unwrap();
    assert_eq!([word(&header, 16), word(&header, 32)], [ATTR_SIZE + 16, 2 * (ATTR_SIZE + 16)]);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let beginning = |event| Description { events: vec![event], ..Description::default() }.beginning();
    assert!(beginning(event(8175)).is_err_and(|error| matches!(error, WriteError::TooManyIds { ids: 8175, .. })));
    assert!(beginning(event(8174)).is_ok());
    let long = EventDescription { name: "x".repeat(70_000), ..event(1) };
    assert_eq!(beginning(long), Err(WriteError::NameTooLong { len: 70_000 }));
    let backwards = Description::default().ending(&Range { start: 5, end: 4 });
    assert_eq!(backwards, Err(WriteError::NotARange { start: 5, end: 4 }));
    assert!(Description::default().ending(&(0..u64::MAX)).is_err());
}

#[test]
fn a_feature_too_long_for_a_record_is_kept_for_the_end() {
    let features = vec![Feature::CommandLine(vec!["x".repeat(70_000)])];
    let description = Description { features, ..Description::default() };
    assert_eq!(records(&description.beginning().unwrap()[HEADER_SIZE..]).len(), 1);
    assert!(description.ending(&(104..104)).unwrap().tail.len() > 70_000);
}
