//! Named things: policies, schedulers, workloads, devices.

use crate::SimError;

/// A policy by name: what it does, and how it is made.
pub type Entry<T> = (&'static str, &'static str, T);

/// The thing of that name; an error lists all names. `key` is what asks for it.
pub(crate) fn find<'a, T>(
    key: &'static str,
    name: &str,
    all: &'a [T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<&'a T, SimError> {
    let mut entries = all.iter();
    let entry = entries.find(|entry| name_of(entry) == name);
    entry.ok_or_else(|| SimError::unknown(key, name, all.iter().map(name_of)))
}

/// The name as the table spells it, given in whatever case.
pub(crate) fn spelled<'a, T>(name: &'a str, all: &[Entry<T>]) -> &'a str {
    let mut names = all.iter().map(|entry| entry.0);
    names
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or(name)
}
