//! The command queue of the device (NCQ window): what waits, in the order of admission, how
//! waiting makes a command more urgent, and what a policy is asked for.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::SimError;

/// How many vacated places a column keeps before it moves up.
const COLUMN_SLACK: usize = 512;

/// One command as the device sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Number of the request in its stream, from 0.
    pub index: u64,
    /// When the host issued it, in ns.
    pub arrival_ns: u64,
    /// When it entered the window, in ns.
    pub admitted_ns: u64,
    /// When it was dispatched, in ns.
    pub dispatched_ns: u64,
    /// First page.
    pub first_page: u32,
    /// Number of pages; 0 for a request without data.
    pub pages: u32,
    /// How many of its pages are not in the buffer, as of the last change.
    pub missing: u32,
    /// Write or read.
    pub is_write: bool,
    /// Discards its pages; neither read nor write time.
    pub is_trim: bool,
}

impl Command {
    /// The page after its last one.
    pub fn end_page(&self) -> u32 {
        self.first_page + self.pages
    }
}

/// The facts that a policy may know of the device.
pub trait View {
    /// How long one page takes in the flash, in ns.
    fn page_time_ns(&self, is_write: bool) -> f64;

    /// How many of these pages are not in the buffer.
    fn missing(&self, first_page: u32, pages: u32) -> u32;

    /// How long the command would take if it were dispatched now, in ns.
    fn service_time_ns(&self, command: &Command) -> f64;
}

/// Which waiting command is dispatched next.
pub trait Policy: Send {
    /// The time T that the command is taken to need, in ns; the least α^n·T goes first.
    fn estimate(&self, command: &Command, view: &dyn View) -> f64;

    /// Whether `estimate` reads [`Command::missing`]; it is then kept up to date.
    fn uses_buffer(&self) -> bool {
        false
    }

    /// Whether `estimate` changes while a command waits for other reasons than the buffer.
    fn is_volatile(&self) -> bool {
        false
    }

    /// Whether a command that is alone in the window can be dispatched without being asked about.
    fn is_stateless(&self) -> bool {
        false
    }

    /// Position in the window of the command to dispatch; the window is never empty.
    fn choose(&mut self, window: &Window, _now_ns: u64) -> usize {
        window.least()
    }

    /// The same for a policy that may fail, because it is not ours.
    fn select(
        &mut self,
        window: &Window,
        now_ns: u64,
        _view: &dyn View,
    ) -> Result<usize, SimError> {
        Ok(self.choose(window, now_ns))
    }

    /// Whether estimates come from [`Policy::estimate_together`], once for all commands that need
    /// one, instead of one by one.
    fn estimates_together(&self) -> bool {
        false
    }

    /// The estimates of these commands, in their order.
    fn estimate_together(
        &mut self,
        commands: &[Command],
        _now_ns: u64,
        view: &dyn View,
    ) -> Result<Vec<f64>, SimError> {
        Ok(commands.iter().map(|c| self.estimate(c, view)).collect())
    }
}

/// The event that counts as being overtaken; α^n weighs the estimate after n of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aging {
    /// Later arrivals that were dispatched first. Stays bounded as α → 0.
    #[default]
    DispatchOvertake,
    /// Later arrivals whose estimate was below the aged estimate on entry (the words of the
    /// paper). Inverts to longest-first as α → 0.
    ShorterArrival,
    /// All later arrivals. FCFS as α → 0.
    EveryArrival,
}

/// The waiting commands in the order of admission. The columns that every dispatch scans are
/// kept apart from the commands, so that the scan is a few vector instructions.
#[derive(Default)]
pub struct Window {
    commands: Column<Command>,
    overtaken: Column<u32>,
    weights: Column<f64>,
    estimates: Column<f64>,
    /// The estimate on entry, which `shorter-arrival` compares with; empty for other rules.
    entry_estimates: Column<f64>,
    /// Pages of each command: first, and end excluded. Kept apart, so that looking for those that
    /// a change touches is a few vector instructions.
    first_pages: Column<u32>,
    end_pages: Column<u32>,
    /// Which commands a change touches; kept for its memory.
    touched: Vec<bool>,
    /// α^n by n. Powers, not repeated products: ties depend on the last bit.
    powers: Vec<f64>,
    alpha: f64,
    aging: Aging,
}

impl Window {
    /// An empty window.
    pub fn new(alpha: f64, aging: Aging) -> Self {
        Window {
            powers: vec![1.0],
            alpha,
            aging,
            ..Self::default()
        }
    }

    /// The waiting commands, earliest admitted first.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// α^n of each waiting command.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Position of the least α^n·T; of equals the earliest admitted.
    #[inline]
    pub fn least(&self) -> usize {
        let mut least = (f64::INFINITY, 0);
        for (i, (weight, estimate)) in self.weights.iter().zip(&*self.estimates).enumerate() {
            let aged = weight * estimate;
            if aged < least.0 {
                least = (aged, i);
            }
        }
        least.1
    }

    /// How often each waiting command was overtaken.
    pub fn overtaken(&self) -> &[u32] {
        &self.overtaken
    }

    /// The estimate of each waiting command, as of the last change.
    pub fn estimates(&self) -> &[f64] {
        &self.estimates
    }

    /// Whether the estimate of a command is compared with others when it comes in.
    pub fn compares_on_entry(&self) -> bool {
        self.aging == Aging::ShorterArrival
    }

    /// Asks a policy that estimates together about all commands without an estimate.
    pub fn complete_estimates(
        &mut self,
        now_ns: u64,
        policy: &mut dyn Policy,
        view: &dyn View,
    ) -> Result<(), SimError> {
        let missing = self.estimates.iter().enumerate();
        let missing = missing.filter(|(_, estimate)| estimate.is_nan());
        let positions: Vec<usize> = missing.map(|(i, _)| i).collect();
        if positions.is_empty() {
            return Ok(());
        }
        let commands: Vec<Command> = positions.iter().map(|i| self.commands[*i]).collect();
        let estimates = policy.estimate_together(&commands, now_ns, view)?;
        for (position, estimate) in positions.into_iter().zip(estimates) {
            self.estimates[position] = estimate;
        }
        Ok(())
    }

    /// Lets a command in and ages those it counts against.
    pub fn admit(&mut self, command: Command, policy: &dyn Policy, view: &dyn View) {
        self.admit_with(command, estimate_of(&command, policy, view));
    }

    /// The same with its estimate; NaN means that it is not known yet.
    pub fn admit_with(&mut self, command: Command, estimate: f64) {
        match self.aging {
            Aging::DispatchOvertake => {}
            Aging::EveryArrival => self.age_first(self.len()),
            Aging::ShorterArrival => {
                for i in 0..self.len() {
                    if estimate < self.weights[i] * self.entry_estimates[i] {
                        self.age(i);
                    }
                }
            }
        }
        self.commands.push(command);
        self.first_pages.push(command.first_page);
        self.end_pages.push(command.end_page());
        self.overtaken.push(0);
        self.weights.push(1.0);
        self.estimates.push(estimate);
        if self.aging == Aging::ShorterArrival {
            self.entry_estimates.push(estimate);
        }
    }

    /// Takes the command at `position` out and ages those it overtakes.
    pub fn take(&mut self, position: usize) -> Command {
        match self.aging {
            Aging::DispatchOvertake => self.age_first(position),
            Aging::ShorterArrival => drop(self.entry_estimates.remove(position)),
            Aging::EveryArrival => {}
        }
        self.first_pages.remove(position);
        self.end_pages.remove(position);
        self.overtaken.remove(position);
        self.weights.remove(position);
        self.estimates.remove(position);
        self.commands.remove(position)
    }

    #[inline]
    fn age_first(&mut self, count: usize) {
        for i in 0..count {
            self.age(i);
        }
    }

    #[inline]
    fn age(&mut self, position: usize) {
        self.overtaken[position] += 1;
        let n = self.overtaken[position] as usize;
        if n == self.powers.len() {
            self.powers.push(libm::pow(self.alpha, n as f64));
        }
        self.weights[position] = self.powers[n];
    }

    /// Brings missing pages and estimates up to date where one of `changed` (runs of pages, end
    /// excluded, that came into the buffer or left it) touches a command.
    pub fn refresh(&mut self, changed: &[(u32, u32)], policy: &dyn Policy, view: &dyn View) {
        self.touched.clear();
        self.touched.resize(self.commands.len(), false);
        for (from, to) in changed {
            let ranges = self.first_pages.iter().zip(&*self.end_pages);
            for (touched, (first, end)) in self.touched.iter_mut().zip(ranges) {
                *touched |= (first < to) & (end > from);
            }
        }
        for (i, touched) in self.touched.iter().enumerate() {
            if *touched {
                let command = &mut self.commands[i];
                command.missing = view.missing(command.first_page, command.pages);
                self.estimates[i] = estimate_of(command, policy, view);
            }
        }
    }

    /// Asks the policy again about every waiting command.
    pub fn estimate_all(&mut self, policy: &dyn Policy, view: &dyn View) {
        for (command, estimate) in self.commands.iter().zip(&mut *self.estimates) {
            *estimate = estimate_of(command, policy, view);
        }
    }
}

/// A vector from which elements near its begin are taken as cheaply as those near its end: what
/// is before `first` is no longer there.
#[derive(Default)]
struct Column<T> {
    all: Vec<T>,
    first: usize,
}

impl<T: Copy> Column<T> {
    #[inline]
    fn push(&mut self, element: T) {
        self.all.push(element);
    }

    /// Takes the element at `position` by moving the fewer of those before and behind it.
    #[inline]
    fn remove(&mut self, position: usize) -> T {
        if position > self.len() / 2 {
            return self.all.remove(self.first + position);
        }
        let at = self.first + position;
        let element = self.all[at];
        if position > 0 {
            self.all.copy_within(self.first..at, self.first + 1);
        }
        self.first += 1;
        if self.first == self.all.len() {
            self.all.clear();
            self.first = 0;
        } else if self.first == COLUMN_SLACK {
            self.all.drain(..self.first);
            self.first = 0;
        }
        element
    }
}

impl<T> Deref for Column<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.all[self.first..]
    }
}

impl<T> DerefMut for Column<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.first..]
    }
}

/// A trim moves no data and needs no time under any policy.
fn estimate_of(command: &Command, policy: &dyn Policy, view: &dyn View) -> f64 {
    match command.is_trim {
        true => 0.0,
        false if policy.estimates_together() => f64::NAN,
        false => policy.estimate(command, view),
    }
}
