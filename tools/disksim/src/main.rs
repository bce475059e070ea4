//! `cargo run -q -p schedlab-disksim -- FILE[:NAME] > drive.toml`

use std::path::Path;
use std::process::ExitCode;

const HINT: &str = "hint: see `DiskSim parameter files` in docs/concepts/disk-model.md";

fn main() -> ExitCode {
    let mut asked = std::env::args().skip(1);
    let (Some(file), None) = (asked.next(), asked.next()) else {
        eprintln!("error: expected one FILE or FILE:NAME\n{HINT}");
        return ExitCode::from(2);
    };
    let (path, name) = match file.rsplit_once(':') {
        Some((path, name)) if !Path::new(&file).exists() => (path, Some(name)),
        _ => (file.as_str(), None),
    };
    match schedlab_disksim::import(Path::new(path), name).and_then(|disk| disk.to_toml()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\n{HINT}");
            ExitCode::from(2)
        }
    }
}
