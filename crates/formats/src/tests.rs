//! Every format by hand-written lines, compression, order, errors.

use std::io::Write;

use schedlab_model::Stop;

use super::*;

pub(super) fn options() -> TraceOptions {
    TraceOptions::default()
}

pub(super) fn read(text: &[u8], format: Option<&str>, options: &TraceOptions) -> Vec<TraceRecord> {
    let reader = read_bytes("trace", text.to_vec(), format, options).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// Arrival, offset, length, write, device, latency of every record.
pub(super) type Row = (u64, u64, u64, bool, u32, Option<u64>);

pub(super) fn rows(text: &[u8], format: &str) -> Vec<Row> {
    let named = read(text, Some(format), &options());
    let detected = read_bytes("trace", text.to_vec(), None, &options()).unwrap();
    assert_eq!(detected.format().name, format);
    assert_eq!(detected.collect::<Result<Vec<_>, _>>().unwrap(), named);
    named_rows(text, format)
}

pub(super) fn named_rows(text: &[u8], format: &str) -> Vec<Row> {
    read(text, Some(format), &options())
        .iter()
        .map(|r| {
            let q = &r.request;
            let latency = r.latency.map(|l| l.0);
            (
                q.arrival.0,
                q.offset.0,
                q.length.0,
                q.is_write,
                r.device,
                latency,
            )
        })
        .collect()
}

#[test]
fn msr_counts_windows_ticks_from_the_first_request() {
    let text = b"128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                 128166372016382155,usr,1,Write,1317441536,8192,1963\n";
    assert_eq!(
        rows(text, "msr"),
        [
            (0, 7_014_609_920, 24_576, false, 0, Some(4_128_600)),
            (1_332_052_600, 1_317_441_536, 8192, true, 1, Some(196_300)),
        ]
    );
}

#[test]
fn spc_allows_white_space_and_further_fields() {
    let text = b"0,20941264,8192,W,0.551706\n 1 , 20939840 , 512 , r , 1.5 , 7\r\n";
    assert_eq!(
        rows(text, "spc"),
        [
            (0, 20_941_264 * 512, 8192, true, 0, None),
            (948_294_000, 20_939_840 * 512, 512, false, 1, None),
        ]
    );
}

#[test]
fn iolog_2_waits_until_milliseconds_and_3_stamps_microseconds() {
    let text = b"fio version 2 iolog\nf1 add\nf1 open\nf1 read 0 4096\nf1 wait 1000 0\n\
                 f2 write 4096 512\nf1 sync 0 0\nf1 wait 1500 0\nf1 trim 8192 4096\nf1 close\n";
    assert_eq!(
        rows(text, "iolog"),
        [
            (0, 0, 4096, false, 0, None),
            (1_000_000_000, 4096, 512, true, 1, None),
            (1_500_000_000, 8192, 4096, false, 0, None),
        ]
    );
    assert!(read(text, None, &options())[2].trim);
    let text = b"fio version 3 iolog\n33 f1 add\n198 f1 read 61440 4096\n612 f1 write 774144 512\n";
    assert_eq!(
        rows(text, "iolog"),
        [
            (0, 61_440, 4096, false, 0, None),
            (414_000, 774_144, 512, true, 0, None),
        ]
    );
}

pub(super) const BLKPARSE: &[u8] =
    b"  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000003000   697  P   N [kjournald]
  8,0    3        0     0.000004000     0  m   N cfq697 insert_request
  8,0    3        4     0.000005000   697  A   W 1 + 8 <- (8,1) 2
  8,0    3        5     0.000010000   697  D   W 223490 + 8 (    8171) [kjournald]
  8,0    3        6     0.000011000   697  D   N 0 (12 00 00 00 24 00 ..) [hald]
  8,0    3        7     0.000012000   697  Q FWS [x]
  8,0    1        8     0.000510000     0  C   W 223490 + 8 (  499829) [0]
  8,0    1        9     0.000600000     9  Q  DS 0 + 2048 [fstrim]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
";

#[test]
fn blkparse_gives_arrivals_or_measured_requests() {
    let offset = 223_490 * 512;
    let device = 8 << 20;
    assert_eq!(
        rows(BLKPARSE, "blkparse"),
        [
            (0, offset, 4096, true, device, None),
            (600_000, 0, 1 << 20, false, device, None),
        ]
    );
    let at = |event| read(BLKPARSE, None, &TraceOptions { event, ..options() });
    let senders: Vec<_> = at(Event::Queue).iter().map(|row| row.process).collect();
    assert_eq!(senders, [Some(697), Some(9)]);
    let is_async: Vec<_> = at(Event::Queue).iter().map(|row| row.is_async).collect();
    assert_eq!(is_async, [true, false]);
    assert_eq!(at(Event::Dispatch)[0].request.arrival.0, 0);
    assert_eq!(at(Event::Dispatch)[0].process, None);
    let complete = read(
        BLKPARSE,
        Some("blkparse"),
        &TraceOptions {
            event: Event::Complete,
            ..options()
        },
    );
    assert_eq!(complete.len(), 1);
    assert_eq!(complete[0].request.arrival.0, 0);
    assert_eq!(complete[0].latency, Some(Nanos(500_000)));
}

/// One blk_io_trace record.
pub(super) fn event(time_ns: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0x6561_7407u32.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    out.extend(time_ns.to_le_bytes());
    out.extend(sector.to_le_bytes());
    out.extend(bytes.to_le_bytes());
    out.extend(action.to_le_bytes());
    for word in [77u32, 8 << 20, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0u16.to_le_bytes());
    out.extend((payload.len() as u16).to_le_bytes());
    out.extend(payload);
    out
}

pub(super) const READ: u32 = 1 << 16;
pub(super) const WRITE: u32 = 2 << 16;
const SYNC: u32 = 8 << 16;

#[test]
fn blktrace_files_of_several_cpus_merge_by_time() {
    let folder = std::env::temp_dir().join(format!("schedlab-blktrace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let first = [
        event(0, 0, 0, 1 << 26, b"fio\0"),
        event(100, 8, 4096, READ | 1, b""),
        event(300, 16, 512, WRITE | 1, b"12345678"),
    ];
    let second = [
        event(200, 24, 4096, WRITE | SYNC | 1, b""),
        event(400, 24, 4096, WRITE | 8, b""),
    ];
    std::fs::write(folder.join("sda.blktrace.0"), first.concat()).unwrap();
    std::fs::write(folder.join("sda.blktrace.1"), second.concat()).unwrap();
    let records: Vec<_> = open(&folder.join("sda"), None, &options())
        .unwrap()
        .map(|r| r.unwrap())
        .inspect(|r| assert_eq!(r.process, Some(77)))
        .map(|r| {
            (
                r.request.arrival.0,
                r.request.offset.0,
                r.request.is_write,
                r.is_async,
            )
        })
        .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    let expected = [
        (0, 4096, false, false),
        (100, 12_288, true, false),
        (200, 8192, true, true),
    ];
    assert_eq!(records, expected);
}

#[test]
fn blktrace_of_the_other_byte_order_and_torn() {
    let mut record = event(7, 8, 4096, WRITE | 1, b"");
    for (at, length) in [(0, 4), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (36, 4)] {
        record[at..at + length].reverse();
    }
    assert_eq!(
        rows(&record, "blktrace"),
        [(0, 4096, 4096, true, 8 << 20, None)]
    );
    let mut torn = event(7, 8, 4096, WRITE | 1, b"");
    torn.extend(&event(8, 8, 4096, WRITE | 1, b"")[..20]);
    let error = read_bytes("t", torn, None, &options())
        .unwrap()
        .find_map(Result::err)
        .unwrap();
    assert!(
        error
            .to_string()
            .contains("record 2: expected a record of 48"),
        "{error}"
    );
    assert!(error.to_string().contains("the last 20 bytes"), "{error}");
}

#[test]
fn alibaba_tencent_and_systor() {
    let text =
        b"419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n";
    assert_eq!(
        rows(text, "alibaba"),
        [
            (0, 8_792_731_648, 16_384, true, 419, None),
            (46_000, 59_110_326_272, 360_448, false, 725, None),
        ]
    );
    let text = b"1538323201,12910952,128,0,1063\n1538323200,6265688,8,1,1576\n";
    assert_eq!(
        rows(text, "tencent"),
        [
            (0, 6_265_688 * 512, 4096, true, 1576, None),
            (1_000_000_000, 12_910_952 * 512, 65_536, false, 1063, None),
        ]
    );
    let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
                 1455592201.024103000,0.000215,R,1,4096,512\n1455592201.024100000,,W,2,0,8192\n";
    assert_eq!(
        rows(text, "systor"),
        [
            (0, 0, 8192, true, 2, None),
            (3_000, 4096, 512, false, 1, Some(215_000)),
        ]
    );
}

#[test]
fn a_line_that_names_the_columns_is_skipped_and_a_line_without_a_type_carries_no_io() {
    let published: [(&str, &[u8]); 5] = [
        (
            "msr",
            b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n5,usr,0,Read,0,512,7\n",
        ),
        ("spc", b"ASU, LBA, Size, Opcode, Timestamp\n0,0,512,R,0.5\n"),
        (
            "alibaba",
            b"device_id,opcode,offset,length,timestamp\r\n419,R,0,512,7\r\n",
        ),
        (
            "tencent",
            b"\"Timestamp\",\"Offset\",\"Size\",\"IOType\",\"VolumeID\"\n7,0,1,0,1063\n",
        ),
        (
            "systor",
            b"\xef\xbb\xbftimestamp,response,io_type,lun,offset,size\n7.0,,R,0,0,512\n",
        ),
    ];
    for (format, text) in published {
        let read = rows(text, format);
        assert_eq!(read.len(), 1, "{format}");
        assert_eq!(
            (read[0].1, read[0].2, read[0].3),
            (0, 512, false),
            "{format}"
        );
    }
    let other = b"device_id,opcode,length,offset,timestamp\n419,R,0,512,7\n";
    assert!(read_bytes("trace", other.to_vec(), None, &options()).is_err());

    let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n1455592740.0,0.000125,,2,,\n\
                 1455592741.0,0.1,R,2,66446848,4096\n";
    assert_eq!(
        rows(text, "systor"),
        [(0, 66_446_848, 4096, false, 2, Some(100_000_000))]
    );
    let mut reader = read_bytes("trace", text.to_vec(), None, &options()).unwrap();
    assert_eq!(reader.by_ref().count(), 1);
    assert_eq!(reader.skipped().without_io, 2);
}

#[test]
fn mqsim_and_disksim() {
    let text = b"938513000 4 264719034 16 0\n938828000 3 197570570 16 1\n";
    assert_eq!(
        named_rows(text, "mqsim"),
        [
            (0, 264_719_034 * 512, 8192, true, 4, None),
            (315_000, 197_570_570 * 512, 8192, false, 3, None),
        ]
    );
    let text = b"0.500000 0 8 16 1\n1.25 1 64 8 20000\n";
    assert_eq!(
        rows(text, "disksim"),
        [
            (0, 4096, 8192, false, 0, None),
            (750_000, 32_768, 4096, true, 1, None)
        ]
    );
    let text = b"R Miss 8 16 1000.5 200\nW Hit 64 8 10 0\n";
    assert_eq!(
        rows(text, "disksim-validate"),
        [
            (0, 4096, 8192, false, 0, Some(1_000_500)),
            (1_200_500, 32_768, 4096, true, 0, Some(10_000)),
        ]
    );
}

#[test]
fn vscsi_records() {
    let mut bytes = Vec::new();
    for (length, command, block, us) in [
        (4096u32, 0x28u16, 8u64, 5_000_000u64),
        (512, 0x2a, 0, 5_000_007),
        (1024, 0x88, 1 << 32, 5_000_008),
        (2048, 0x8a, 2, 5_000_009),
    ] {
        for word in [1u32, length, 1] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(command.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(block.to_le_bytes());
        bytes.extend(us.to_le_bytes());
    }
    assert_eq!(
        rows(&bytes, "vscsi"),
        [
            (0, 4096, 4096, false, 0, None),
            (7_000, 0, 512, true, 0, None),
            (8_000, 512 << 32, 1024, false, 0, None),
            (9_000, 1024, 2048, true, 0, None),
        ]
    );
}

#[test]
fn requests_with_trims_and_a_fio_log() {
    let text = b"arrival_ms,is_write,first_page,pages\n5.515615,1,752,16\n6,2,0,1\n";
    assert_eq!(
        rows(text, "requests"),
        [
            (0, 752 * 4096, 65_536, true, 0, None),
            (484_385, 0, 4096, false, 0, None),
        ]
    );
    let text = b"0, 246083, 0, 4096, 61440, 0\n10, 17823, 1, 4096, 774144, 0\n";
    assert_eq!(
        rows(text, "fio-log"),
        [
            (0, 61_440, 4096, false, 0, Some(246_083)),
            (10_000_000, 774_144, 4096, true, 0, Some(17_823)),
        ]
    );
}

#[test]
fn compressed_traces_are_told_by_their_first_bytes() {
    let text = b"0 0 8 16 1\n7 0 16 16 0\n".repeat(1000);
    let plain = read(
        &text,
        Some("mqsim"),
        &TraceOptions {
            skip_bad_lines: true,
            ..options()
        },
    );
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&text).unwrap();
    let zstd = zstd::encode_all(&text[..], 1).unwrap();
    for bytes in [gzip.finish().unwrap(), bzip2.finish().unwrap(), zstd] {
        let options = TraceOptions {
            skip_bad_lines: true,
            ..options()
        };
        assert_eq!(read(&bytes, Some("mqsim"), &options), plain);
        let cut = bytes[..bytes.len() / 2].to_vec();
        let error = read_bytes("cut", cut, Some("mqsim"), &options)
            .and_then(|reader| reader.collect::<Result<Vec<_>, _>>())
            .unwrap_err();
        assert!(
            matches!(
                error,
                TraceError::Io {
                    operation: "read",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_reorder_buffer_that_is_too_small_says_how_far() {
    let text = b"10 0 0 8 1\n30 0 0 8 1\n40 0 0 8 1\n20 0 0 8 1\n";
    let with = |window, skip_bad_lines| {
        let options = TraceOptions {
            reorder: Some(window),
            skip_bad_lines,
            ..options()
        };
        let mut reader = read_bytes("t", text.to_vec(), Some("mqsim"), &options).unwrap();
        let times: Result<Vec<u64>, _> = reader
            .by_ref()
            .map(|r| r.map(|r| r.request.arrival.0))
            .collect();
        (times, reader.skipped().bad)
    };
    assert_eq!(with(2, false).0.unwrap(), [0, 10, 20, 30]);
    let error = with(1, false).0.unwrap_err().to_string();
    assert!(error.contains("t, line 4: is 10 ns earlier"), "{error}");
    assert!(error.contains("1 requests"), "{error}");
    let (times, bad) = with(1, true);
    assert_eq!((times.unwrap(), bad), (vec![0, 20, 30], 1));
}

#[test]
fn a_late_line_comes_behind_those_of_the_same_time() {
    let text = b"10 1 0 8 1\n30 2 0 8 1\n10 3 0 8 1\n30 4 0 8 1\n";
    let options = TraceOptions {
        reorder: Some(3),
        ..options()
    };
    let records = read(text, Some("mqsim"), &options);
    let devices: Vec<u32> = records.iter().map(|record| record.device).collect();
    assert_eq!(devices, [1, 3, 2, 4]);
}

#[test]
fn bad_lines_are_named_or_counted() {
    let text = b"0 0 8 16 1\nnonsense\n5 0 8 16 2\n9 0 8 16 0\n\n";
    let error = read_bytes("a.trace", text.to_vec(), Some("mqsim"), &options())
        .unwrap()
        .find_map(Result::err)
        .unwrap()
        .to_string();
    assert!(
        error.starts_with("a.trace, line 2: expected arrival_ns device"),
        "{error}"
    );
    assert!(error.ends_with("found \"nonsense\""), "{error}");
    let options = TraceOptions {
        skip_bad_lines: true,
        ..options()
    };
    let mut reader = read_bytes("a", text.to_vec(), Some("mqsim"), &options).unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 2);
    assert_eq!(
        reader.skipped(),
        Skipped {
            lost: 0,
            bad: 2,
            without_io: 1,
            fell_back_ns: 0,
        }
    );
    assert_eq!(reader.lines(), 5);
}

#[test]
fn overlong_lines_and_absurd_requests_are_bad_lines() {
    let mut text = b"0 0 8 16 1\n".to_vec();
    text.extend(vec![b'7'; 1 << 20]);
    text.extend(b"\n9 0 8 16 0\n9 0 8 99999999999 0\n9 0 36028797018963967 8 0\n");
    let options = TraceOptions {
        skip_bad_lines: true,
        ..options()
    };
    let mut reader = read_bytes("a", text, Some("mqsim"), &options).unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 2);
    assert_eq!(reader.skipped().bad, 3);
}

#[test]
fn unknown_and_ambiguous_formats_say_what_there_is() {
    let error = |text: &[u8], format| {
        read_bytes("x", text.to_vec(), format, &options())
            .err()
            .unwrap()
            .to_string()
    };
    assert!(error(b"", Some("tape")).contains("expected one of requests, msr"));
    assert!(!error(b"", Some("tape")).contains("perfetto"));
    let mut reader =
        read_bytes("x", b"1 4 264 16 0\n".to_vec(), Some("mqsim"), &options()).unwrap();
    let mut to = |name| {
        let stop = schedlab_model::Stop::default();
        let written = convert(&mut reader, &mut Vec::new(), "out".as_ref(), name, &stop);
        written.err().unwrap().to_string()
    };
    assert!(to("tape").contains("perfetto") && !to("tape").contains("vscsi"));
    assert!(to("vscsi").contains("it is read only"));
    assert!(error(b"", None).contains("it is empty"));
    assert!(error(b"hello\n", None).contains("no format fits \"hello\""));
    let cut = error(b"419,W,0,512,7\n419,W,0,x,7\n", None);
    assert!(
        cut.contains("it is alibaba up to line 2, which is \"419,W,0,x,7\""),
        "{cut}"
    );
    assert!(error(b"\0\0\0", None).contains("name it as FILE:FORMAT"));
}

#[test]
fn writing_and_reading_again_keeps_what_the_format_holds() {
    let text = b"1000000000 4 264 16 0\n2000000000 3 1976 8 1\n";
    let before = read(text, Some("mqsim"), &options());
    for format in FORMATS.iter().filter(|f| f.write.is_some()) {
        let mut reader = read_bytes("t", text.to_vec(), Some("mqsim"), &options()).unwrap();
        let mut out = Vec::new();
        let path = std::path::Path::new("out");
        let counts = convert(&mut reader, &mut out, path, format.name, &Stop::default()).unwrap();
        assert_eq!(counts.requests, 2);
        let after = read(&out, Some(format.name), &options());
        for (a, b) in before.iter().zip(&after) {
            assert_eq!(a.request.arrival, b.request.arrival, "{}", format.name);
            assert_eq!(
                (a.request.offset, a.request.length),
                (b.request.offset, b.request.length)
            );
            assert_eq!(a.request.is_write, b.request.is_write, "{}", format.name);
        }
    }
}

/// These records in another format: the text, and how many trims it omits.
fn converted(text: &[u8], from: &str, to: &str) -> (String, u64) {
    let mut reader = read_bytes("t", text.to_vec(), Some(from), &options()).unwrap();
    let (mut out, path) = (Vec::new(), std::path::Path::new("out"));
    let counts = convert(&mut reader, &mut out, path, to, &Stop::default()).unwrap();
    (String::from_utf8(out).unwrap(), counts.trims_left_out)
}

#[test]
fn trims_are_kept_where_the_format_has_them_and_else_counted() {
    let text = b"arrival_ms,is_write,first_page,pages\n5,1,752,16\n6,2,3,1\n";
    for format in FORMATS.iter().filter(|f| f.write.is_some()) {
        let (out, left_out) = converted(text, "requests", format.name);
        let holds = matches!(format.name, "requests" | "iolog");
        assert_eq!(left_out, u64::from(!holds), "{}", format.name);
        if holds {
            let trim = read(out.as_bytes(), Some(format.name), &options())[1];
            let place = (trim.request.offset.0, trim.request.length.0);
            assert_eq!((trim.trim, place), (true, (3 * 4096, 4096)));
        }
    }
}

#[test]
fn half_a_sector_at_either_end_is_a_sector_of_tencent() {
    let text = b"1455592201.0,,W,2,256,512\n";
    let (out, _) = converted(text, "systor", "tencent");
    assert!(out.ends_with(",0,2,1,2\n"), "{out}");
}

#[test]
fn statistics_by_hand() {
    let text = b"0 0 0 8 1\n1000 0 8 8 1\n3000 0 0 16 0\n3000 1 0 1 0\n";
    let mut stats = TraceStats::default();
    for record in read(text, Some("mqsim"), &options()) {
        stats.record(&record);
    }
    let summary = stats.summary();
    assert_eq!((summary.requests, summary.reads, summary.writes), (4, 2, 2));
    assert_eq!((summary.read_bytes, summary.write_bytes), (8192, 8704));
    assert_eq!(
        (summary.span_ns, summary.devices, summary.end_bytes),
        (3000, 2, 8192)
    );
    assert_eq!(summary.footprint_bytes, 3 * 4096);
    assert_eq!(summary.sequential_share, 0.25);
    assert_eq!(summary.inter_arrival_ns.mean, 1000.0);
    assert_eq!(summary.inter_arrival_ns.max, 2000);
    assert_eq!(summary.read_size_bytes.p50, 4096);
}
