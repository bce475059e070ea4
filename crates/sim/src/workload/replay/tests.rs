//! Volumes, fits and times of replayed traces.

#![allow(clippy::unwrap_used)]

use super::*;

const MIB: u64 = 1 << 20;

/// A file with these lines of the Alibaba format: device, R or W, offset, length, microseconds.
fn written(name: &str, lines: &[(u32, u64, u64, u64)]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("schedlab-replay-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let line = |(device, offset, length, us): &(u32, u64, u64, u64)| {
        format!("{device},R,{offset},{length},{us}\n")
    };
    std::fs::write(&path, lines.iter().map(line).collect::<String>()).unwrap();
    path
}

fn pieces(
    path: &Path,
    options: &ReplayOptions,
    capacity: u64,
) -> Result<Vec<(u64, u64, u64)>, SimError> {
    let mut replay = Replay::open(path, Some("alibaba"), options, (capacity, 4096), None)?;
    let mut all = Vec::new();
    while let Some(piece) = replay.next_piece()? {
        let request = piece.request;
        all.push((request.arrival.0, request.offset.0, request.length.0));
    }
    Ok(all)
}

fn with(volumes: &str, fit: Fit) -> ReplayOptions {
    ReplayOptions {
        volumes: volumes.into(),
        fit,
        ..ReplayOptions::default()
    }
}

#[test]
fn volumes_never_share_addresses() {
    for count in [1u32, 2, 3, 64] {
        let mut lines = Vec::new();
        for round in 0..3 {
            for device in 0..count {
                let offset = u64::from((device * 7 + round) % 5) * 300_000;
                lines.push((device, offset, 4096, u64::from(round * count + device)));
            }
        }
        let path = written(&format!("volumes-{count}"), &lines);
        let placed = pieces(&path, &with("region", Fit::Refuse), 1 << 40).unwrap();
        let mut owner = HashMap::new();
        for (line, piece) in lines.iter().zip(&placed) {
            for page in piece.1 / 4096..(piece.1 + piece.2).div_ceil(4096) {
                assert_eq!(*owner.entry(page).or_insert(line.0), line.0);
            }
        }
        let refused = pieces(&path, &ReplayOptions::default(), 1 << 40);
        assert_eq!(refused.is_err(), count > 1);
        if let Err(error) = refused {
            let text = error.to_string();
            assert!(
                text.contains(&format!("{count} volumes")) && text.contains("0, 1"),
                "{text}"
            );
        }
        let one = pieces(&path, &with("select=0", Fit::Refuse), 1 << 40).unwrap();
        assert_eq!(one.len(), 3);
        assert_eq!(one[1].1, lines[count as usize].1);
    }
}

#[test]
fn a_volume_that_is_none_is_named() {
    let path = written("select", &[(4, 0, 4096, 0), (7, 0, 4096, 1)]);
    let error = pieces(&path, &with("select=5", Fit::Refuse), MIB).unwrap_err();
    assert!(
        error.to_string().contains("expected one of 4, 7"),
        "{error}"
    );
    for volumes in ["", "select=", "all"] {
        let error = pieces(&path, &with(volumes, Fit::Refuse), MIB).unwrap_err();
        assert!(
            error.to_string().contains("refuse, region or select"),
            "{error}"
        );
    }
}

#[test]
fn wrapping_what_fits_changes_nothing_and_else_splits_at_the_end() {
    let path = written("wrap", &[(0, 0, 4096, 0), (0, 8 * MIB - 4096, 8192, 1)]);
    let same = pieces(&path, &with("refuse", Fit::Wrap), 16 * MIB).unwrap();
    assert_eq!(
        same,
        pieces(&path, &with("refuse", Fit::Refuse), 16 * MIB).unwrap()
    );
    let split = pieces(&path, &with("refuse", Fit::Wrap), 8 * MIB).unwrap();
    assert_eq!(split[1..], [(1000, 8 * MIB - 4096, 4096), (1000, 0, 4096)]);
    let options = with("refuse", Fit::Wrap);
    let mut replay = Replay::open(&path, None, &options, (8 * MIB, 4096), None).unwrap();
    while replay.next_piece().unwrap().is_some() {}
    let summary = replay.summary();
    assert_eq!(
        (summary.requests, summary.split, summary.changed_share),
        (2, 1, 0.5)
    );
}

#[test]
fn a_request_in_many_pieces_was_split_once() {
    let path = written("wrap-often", &[(0, MIB, 4 * MIB, 0)]);
    let options = with("refuse", Fit::Wrap);
    let mut replay = Replay::open(&path, None, &options, (2 * MIB, 4096), None).unwrap();
    let pieces = std::iter::from_fn(|| replay.next_piece().unwrap()).count();
    assert_eq!((pieces, replay.summary().split), (3, 1));
}

#[test]
fn compacting_keeps_distances_of_reuse() {
    let far: Vec<u64> = vec![900, 3, 900, 77, 3, 900];
    let lines: Vec<_> = far
        .iter()
        .enumerate()
        .map(|(i, u)| (0, u * MIB + 512, 4096, i as u64))
        .collect();
    let path = written("compact", &lines);
    let placed = pieces(&path, &with("refuse", Fit::Compact), 3 * MIB).unwrap();
    let units: Vec<u64> = placed.iter().map(|piece| piece.1 / MIB).collect();
    assert_eq!(units, [0, 1, 0, 2, 1, 0]);
    assert!(placed.iter().all(|piece| piece.1 % MIB == 512));
    let error = pieces(&path, &with("refuse", Fit::Compact), 2 * MIB).unwrap_err();
    assert!(
        error.to_string().contains("touches more than the 2 MiB"),
        "{error}"
    );
    // A request over two units that are no neighbours any more is split.
    let path = written(
        "compact-split",
        &[(0, 5 * MIB, 4096, 0), (0, 4 * MIB, 2 * MIB, 1)],
    );
    let placed = pieces(&path, &with("refuse", Fit::Compact), 3 * MIB).unwrap();
    assert_eq!(placed[1..], [(1000, MIB, MIB), (1000, 0, MIB)]);
}

#[test]
fn scaling_spreads_the_span_over_the_device() {
    let path = written(
        "scale",
        &[
            (0, 0, 4096, 0),
            (0, 50 * MIB, 4096, 1),
            (0, 100 * MIB - 4096, 4096, 2),
        ],
    );
    let placed = pieces(&path, &with("refuse", Fit::Scale), 10 * MIB).unwrap();
    let offsets: Vec<u64> = placed.iter().map(|piece| piece.1).collect();
    assert_eq!(offsets, [0, 5 * MIB, 10 * MIB - 4096]);
    // One half as long as the device, from 95 % of the span on, moves down to fit.
    let path = written("scale-long", &[(0, 95 * MIB, 5 * MIB, 0)]);
    let placed = pieces(&path, &with("refuse", Fit::Scale), 10 * MIB).unwrap();
    assert_eq!(placed, [(0, 5 * MIB, 5 * MIB)]);
}

#[test]
fn a_rate_is_that_of_the_selected_volume() {
    let path = written(
        "late-volume",
        &[
            (7, 0, 4096, 0),
            (4, 0, 4096, 9000),
            (4, 0, 4096, 9500),
            (4, 0, 4096, 10_000),
        ],
    );
    let options = ReplayOptions {
        rate: Some(Real(300.0)),
        ..with("select=4", Fit::Refuse)
    };
    let placed = pieces(&path, &options, MIB).unwrap();
    assert_eq!(placed.len(), 3);
    assert_eq!(placed[2].0 - placed[0].0, 10_000_000);
}

#[test]
fn times_are_scaled_and_the_factor_2_halves_the_span() {
    let path = written(
        "times",
        &[(0, 0, 4096, 0), (0, 0, 4096, 500), (0, 0, 4096, 1000)],
    );
    let options = ReplayOptions {
        time_scale: Some(Real(2.0)),
        ..ReplayOptions::default()
    };
    let arrivals = |options: &ReplayOptions| {
        let placed = pieces(&path, options, MIB).unwrap();
        placed.iter().map(|piece| piece.0).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(&options), [0, 250_000, 500_000]);
    let options = ReplayOptions {
        rate: Some(Real(300.0)),
        ..ReplayOptions::default()
    };
    // Three requests in 1 ms become 300 a second.
    assert_eq!(arrivals(&options), [0, 5_000_000, 10_000_000]);
    for options in [
        ReplayOptions {
            time_scale: Some(Real(0.0)),
            ..ReplayOptions::default()
        },
        ReplayOptions {
            rate: Some(Real(f64::NAN)),
            ..ReplayOptions::default()
        },
        ReplayOptions {
            closed: Some(0),
            ..ReplayOptions::default()
        },
    ] {
        assert!(pieces(&path, &options, MIB).is_err());
    }
}
