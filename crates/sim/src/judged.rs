//! Models of the kernel's schedulers, judged by recordings of the kernel's own decisions.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

/// How many decisions there were, and how many were the same.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    decisions: usize,
    equal: usize,
    /// The first that differ.
    differences: String,
}

impl Judged {
    /// Counts one, with what differs where it is not the same.
    pub(crate) fn count(&mut self, difference: Option<String>) {
        self.decisions += 1;
        match difference {
            None => self.equal += 1,
            Some(text) if self.decisions - self.equal <= 10 => {
                let number = self.decisions;
                writeln!(self.differences, "decision {number}, {text}").unwrap();
            }
            Some(_) => {}
        }
    }
}

/// Each recording in tests/data/decisions that begins with `word` has more than `least` decisions,
/// 95 in 100 of them equal; with `JUDGE=DIRECTORY` those there are only told.
pub(crate) fn hold(word: &str, least: usize, judge: impl Fn(&str) -> Judged) {
    let ours = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/decisions");
    let wanted = std::env::var("JUDGE");
    let mut recorded: Vec<_> = std::fs::read_dir(wanted.as_deref().unwrap_or(ours))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .filter(|(_, text)| text.starts_with(word))
        .collect();
    recorded.sort();
    assert!(wanted.is_ok() || !recorded.is_empty());
    for (path, text) in recorded {
        let judged = judge(&text);
        let (equal, decisions) = (judged.equal, judged.decisions);
        let name = path.file_stem().unwrap().to_str().unwrap();
        println!("@ {name} {equal} {decisions}\n{}", judged.differences);
        let enough = wanted.is_ok() || (decisions > least && equal * 100 >= decisions * 95);
        assert!(
            enough,
            "{name}: {equal} of {decisions}\n{}",
            judged.differences
        );
    }
}
