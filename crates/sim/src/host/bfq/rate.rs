//! The facts that bfq finds out about the device: how fast it is, and whether it queues commands.

use super::super::order::{is_far, LARGE_SECTORS};
use super::super::HostRequest;
use super::{Bfq, MS};

/// Samples and depth from which a device counts as one that queues.
const SAMPLES: usize = 32;
const DEPTH: usize = 3;
/// Fixed point of rates, in sectors per µs.
const SHIFT: u32 = 16;
/// Budgets given before the measured rate decides how large they are.
const BUDGETS: u64 = 194;
const DEFAULT_BUDGET: u64 = 16 * 1024;
const SECOND_NS: u64 = 1_000_000_000;

/// Whether the device holds several commands at once.
#[derive(Clone, Debug, Default)]
pub(super) struct HardwareQueue {
    known: Option<bool>,
    most: usize,
    samples: usize,
}

impl HardwareQueue {
    /// As far as is known; before that it is assumed.
    pub(super) fn queues(&self) -> bool {
        self.known.unwrap_or(true)
    }

    /// The most requests that were in it of late.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn is_known_without(&self) -> bool {
        self.known == Some(false)
    }
}

impl Bfq {
    /// Whether a request after one that ended at `last_end` is a seek (`BFQ_RQ_SEEKY`).
    pub(super) fn is_seek(&self, request: &HostRequest, last_end: u64) -> bool {
        let is_small = u64::from(request.sectors) < LARGE_SECTORS;
        is_far(request.sector, last_end) && (self.rotational || is_small)
    }

    pub(super) fn update_hardware_queue(&mut self) {
        let hardware = &mut self.hardware;
        hardware.most = hardware.most.max(self.in_flight);
        if hardware.known == Some(true) || self.in_flight + self.queued <= DEPTH {
            return;
        }
        if let Some(id) = self.in_service {
            let queue = &self.queues[id as usize];
            let held = queue.in_flight + queue.requests.len();
            if queue.short_think && held < DEPTH && self.in_flight < DEPTH {
                return;
            }
        }
        hardware.samples += 1;
        if hardware.samples > SAMPLES {
            hardware.known = Some(hardware.most > DEPTH);
            (hardware.most, hardware.samples) = (0, 0);
        }
    }
}

/// The estimate of the device's speed, and the budgets that follow from it.
#[derive(Clone, Debug, Default)]
pub(super) struct PeakRate {
    rate: u64,
    /// Reference rate times reference duration, in rate × ms.
    duration: u64,
    user_budget: u64,
    measured_budget: u64,
    timeout_ms: u64,
    budgets: u64,
    samples: u64,
    sequential: u64,
    sectors: u64,
    largest: u64,
    first_ns: u64,
    last_ns: u64,
    /// From the first to the last dispatch of the window.
    window_ns: u64,
    completion_ns: u64,
}

impl PeakRate {
    pub(super) fn new(rotational: bool, user_budget: u64, timeout_ns: u64) -> Self {
        let (reference, duration_ms) = if rotational {
            (14_000, 7000)
        } else {
            (33_000, 2500)
        };
        PeakRate {
            rate: reference * 2 / 3,
            duration: reference * duration_ms,
            user_budget,
            measured_budget: DEFAULT_BUDGET,
            timeout_ms: timeout_ns / MS,
            ..Self::default()
        }
    }

    pub(super) fn count_budget(&mut self) {
        self.budgets = (self.budgets * 7 + 256) / 8;
    }

    /// The largest budget, in sectors.
    pub(super) fn max_budget(&self) -> u64 {
        match self.budgets < BUDGETS {
            true => DEFAULT_BUDGET,
            false => self.measured_budget(),
        }
    }

    /// The same, however few budgets have been given.
    pub(super) fn measured_budget(&self) -> u64 {
        match self.user_budget {
            0 => self.measured_budget,
            user => user,
        }
    }

    /// What the budget of a queue may not exceed.
    pub(super) fn cap(&self) -> u64 {
        match self.user_budget == 0 && self.budgets >= BUDGETS {
            true => self.measured_budget,
            false => u64::MAX,
        }
    }

    /// The smallest.
    pub(super) fn min_budget(&self) -> u64 {
        (self.max_budget() / 32).max(1)
    }

    /// How long an interactive process stays raised.
    pub(super) fn raising_ns(&self) -> u64 {
        (self.duration / self.rate.max(1)).clamp(3000, 25_000) * MS
    }

    pub(super) fn dispatched(
        &mut self,
        now_ns: u64,
        sectors: u64,
        in_flight: usize,
        is_seek: bool,
    ) {
        if self.samples == 0 {
            self.restart(now_ns, sectors);
            return;
        }
        if now_ns - self.last_ns > 100 * MS && in_flight == 0 {
            self.close(now_ns, Some(sectors));
        } else {
            self.window_ns = now_ns - self.first_ns;
            self.samples += 1;
            let busy = in_flight > 0 || now_ns - self.completion_ns < 2 * MS;
            if busy && !is_seek {
                self.sequential += 1;
            }
            self.sectors += sectors;
            self.largest = match self.samples % 32 {
                0 => sectors,
                _ => self.largest.max(sectors),
            };
            if now_ns - self.first_ns >= SECOND_NS {
                self.close(now_ns, Some(sectors));
            }
        }
        self.last_ns = now_ns;
    }

    pub(super) fn completed(&mut self, now_ns: u64) {
        let time_us = (now_ns - self.completion_ns) / 1000;
        // Below half a sector a ms: a pause, not the device's speed.
        if time_us > 2000 && (self.largest << SHIFT) / time_us < (1 << (SHIFT - 10)) {
            self.close(now_ns, None);
        }
        self.completion_ns = now_ns;
    }

    fn restart(&mut self, now_ns: u64, sectors: u64) {
        self.samples = 1;
        self.sequential = 0;
        (self.sectors, self.largest) = (sectors, sectors);
        (self.first_ns, self.last_ns) = (now_ns, now_ns);
    }

    /// The window is over; its rate counts if it is meaningful.
    fn close(&mut self, now_ns: u64, sectors: Option<u64>) {
        let time_ns = self.window_ns;
        if self.samples >= 32 && time_ns >= 300 * MS {
            let time_ns = time_ns.max(self.completion_ns.saturating_sub(self.first_ns));
            let rate = (self.sectors << SHIFT) / (time_ns / 1000).max(1);
            let steady = self.sequential >= 3 * self.samples / 4 || rate > self.rate;
            if steady && rate <= 20 << SHIFT {
                let weight = (9 * self.sequential / self.samples) * time_ns / SECOND_NS;
                let divisor = 10 - weight.min(8);
                self.rate = self.rate * (divisor - 1) / divisor + rate / divisor;
                self.rate = self.rate.max(1);
                let budget = (self.rate * 1000 * self.timeout_ms) >> SHIFT;
                self.measured_budget = budget.max(32);
            }
        }
        match sectors {
            Some(sectors) => self.restart(now_ns, sectors),
            None => self.samples = 0,
        }
    }
}
