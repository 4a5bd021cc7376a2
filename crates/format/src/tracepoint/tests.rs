use super::*;

const FORMAT: &str = r#"name: example
ID: 77
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[8];	offset:8;	size:8;	signed:0;
	field:int number;	offset:16;	size:4;	signed:1;
	field:__data_loc char[] name;	offset:20;	size:4;	signed:0;
	field:u8 mac[4];	offset:24;	size:4;	signed:0;

"#;

fn raw() -> Vec<u8> {
    let mut raw = vec![77, 0, 0, 0, 1, 0, 0, 0];
    raw.extend_from_slice(b"sh\0xxxxx");
    raw.extend_from_slice(&(-5_i32).to_le_bytes());
    raw.extend_from_slice(&(28_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(&[1, 2, 3, 4]);
    raw.extend_from_slice(b"abc\0");
    raw
}

fn printed_raw(print: &str, raw: &[u8]) -> String {
    let format = Format::parse(&format!("{FORMAT}print fmt: {print}\n")).unwrap();
    let mut out = Vec::new();
    format.print(raw, Endian::Little, &mut NoNames, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn printed(print: &str) -> String {
    printed_raw(print, &raw())
}

#[test]
fn converts_like_printf() {
    let cases = [
        (
            r#""%d|%5d|%-5d|%05d|%u", REC->number, REC->number, REC->number, REC->number, REC->number"#,
            "-5|   -5|-5   |-0005|4294967291",
        ),
        (r#""%x %#x %X %08lx %hhx", 255, 255, 255, 255, 511"#, "ff 0xff FF 000000ff ff"),
        (
            r#""%s|%8s|%-8s|%.1s", REC->comm, __get_str(name), __get_str(name), REC->comm"#,
            "sh|     abc|abc     |s",
        ),
        (r#""%c%% %p %p", 'x', 0, 4096"#, "x% (nil) 0x1000"),
        (r#""a" "b" "%s", "c" "d""#, "abcd"),
        (r#""%*d|%.*s", 4, 7, 1, REC->comm"#, "   7|s"),
        (r#""%pM %*ph", REC->mac, 2, REC->mac"#, "01:02:03:04 01 02"),
    ];
    for (print, text) in cases {
        assert_eq!(printed(print), text, "{print}");
    }
}

#[test]
fn evaluates_expressions() {
    let cases = [
        (r#""%d %d %d", 1 + 2 * 3, (1 + 2) * 3, 7 & 3 == 3"#, "7 9 1"),
        (r#""%s", REC->number == -5 ? "yes" : "no""#, "no"),
        (r#""%s", (int)REC->number == (int)-5 ? "yes" : "no""#, "yes"),
        (r#""%d", (u8)(0x1ff) >> 4"#, "15"),
        (r#""%d %d", REC->mac[2], ((u8 *)__get_dynamic_array(name))[1]"#, "3 98"),
        (r#""%s", __print_flags(5, "|", { 1, "A" }, { 2, "B" })"#, "A|0x4"),
        (r#""%s", __print_symbolic(2, { 1, "A" }, { 1 << 1, "B" })"#, "B"),
        (r#""%s %s", __print_hex(REC->mac, 3), __print_hex_str(REC->mac, 2)"#, "01 02 03 0102"),
        (r#""%s", __print_array(REC->mac, 2, 2)"#, "{0x201,0x403}"),
        (r#""%d %d", __get_dynamic_array_len(name), (int)sizeof(u64)"#, "4 8"),
        (r#""%d %d", 1 / 0, 1 << 70"#, "0 0"),
        (r#""%lx", ((struct page *)vmemmap_base) + 3"#, "3"),
        (
            r#""%s %s", __print_symbolic(0, { NAME, "A" }), __print_flags(0, "|", { NAME, "A" })"#,
            "0x0 A",
        ),
    ];
    for (print, text) in cases {
        assert_eq!(printed(print), text, "{print}");
    }
}

#[test]
fn prints_the_fields_if_print_fmt_is_not_understood() {
    for print in [r#""%d", unknown(1)"#, r#""%d""#, "7", r#""%d", REC->nothing"#, r#""%y", 1"#] {
        assert_eq!(
            printed(print),
            "[FAILED TO PARSE] comm=sh number=-5 name=abc mac=ARRAY[01, 02, 03, 04]",
            "{print}"
        );
    }
}

#[test]
fn hostile_expressions_and_bytes_do_no_harm() {
    for deep in [
        "(".repeat(100_000),
        "!".repeat(100_000),
        "1+(".repeat(50_000),
        "1?".repeat(50_000),
        "(int)".repeat(50_000),
    ] {
        assert!(printed(&format!("\"%d\", {deep}1")).starts_with("[FAILED"));
    }
    let all = r#""%s %s %d %s", REC->comm, __get_str(name), REC->number, __print_array(REC->mac, 0xffffffff, 8)"#;
    let raw = raw();
    for len in 0..raw.len() {
        printed_raw(all, &raw[..len]);
        printed_raw("7", &raw[..len]);
    }
    assert_eq!(printed(r#""%*d", 0x7fffffff, 1"#).len(), 1024);
}
