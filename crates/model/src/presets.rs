//! Processes that ship, by name.

/// Name, and the file.
pub const PRESETS: &[(&str, &str)] = &[
    ("random32", include_str!("../processes/random32.toml")),
    ("readers3", include_str!("../processes/readers3.toml")),
    (
        "readers3-deep",
        include_str!("../processes/readers3-deep.toml"),
    ),
    (
        "sequential-random",
        include_str!("../processes/sequential-random.toml"),
    ),
    (
        "sequential-then-random",
        include_str!("../processes/sequential-then-random.toml"),
    ),
    (
        "reader-writers",
        include_str!("../processes/reader-writers.toml"),
    ),
    (
        "reader-writers-deep",
        include_str!("../processes/reader-writers-deep.toml"),
    ),
    ("copy-direct", include_str!("../processes/copy-direct.toml")),
    (
        "copy-buffered",
        include_str!("../processes/copy-buffered.toml"),
    ),
    ("levels", include_str!("../processes/levels.toml")),
    (
        "readers3-weights",
        include_str!("../processes/readers3-weights.toml"),
    ),
    (
        "small-writes",
        include_str!("../processes/small-writes.toml"),
    ),
];
