//! The parts between the host and the flash of an SSD: controller cores, the link with a direction
//! each way, and the time of a page in the buffer.
//!
//! Stations are first come first served and their times are known on arrival, so that each needs
//! no queue but the time at which it is free.

use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

use crate::engine::EventQueue;
use crate::error::{require, within};
use crate::workload::Real;
use crate::SimError;

/// The processor of the device: every command needs it twice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerSpec {
    /// Commands that it handles at the same time.
    pub cores: u32,
    /// Time for a command when it comes.
    pub command: Nanos,
    /// Time for its completion.
    pub completion: Nanos,
}

impl Default for ControllerSpec {
    fn default() -> Self {
        ControllerSpec {
            cores: 2,
            command: Nanos(1_000),
            completion: Nanos(500),
        }
    }
}

/// The link to the host; both directions work at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkSpec {
    /// Speed of each direction; 0 takes no time.
    pub bytes_per_s: Real,
    /// Added to every transfer.
    pub latency: Nanos,
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            bytes_per_s: Real(3.2e9),
            latency: Nanos(1_000),
        }
    }
}

impl ControllerSpec {
    pub(super) fn check(&self) -> Result<(), SimError> {
        within("controller.cores", self.cores, 1..=1024)
    }
}

impl LinkSpec {
    pub(super) fn check(&self) -> Result<(), SimError> {
        let speed = self.bytes_per_s.0;
        let fits = speed == 0.0 || (1e3..=1e15).contains(&speed);
        require(fits, "link.bytes_per_s", speed, "0, or 1e3 to 1e15")
    }
}

/// The stage that a command has reached when an event comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The controller has taken it.
    Taken,
    /// The data of a write are in the device.
    Arrived,
    /// Its pages are in the buffer, or have left it.
    Buffered,
    /// The data of a read are at the host.
    Delivered,
    /// The controller has completed it.
    Completed,
}

/// The stations before the flash. Absent where all of their times are 0.
pub(super) struct Front {
    cores_free_ns: Vec<u64>,
    in_free_ns: u64,
    out_free_ns: u64,
    command_ns: u64,
    completion_ns: u64,
    latency_ns: u64,
    page_link_ns: f64,
    page_buffer_ns: u64,
    /// A lane for each stage whose events are in order: [`Stage::Buffered`] takes as long as the
    /// command is.
    events: EventQueue<(u32, Stage), 4>,
}

impl Front {
    pub(super) fn new(
        controller: &ControllerSpec,
        link: &LinkSpec,
        buffer_page: Nanos,
        page_bytes: u64,
    ) -> Option<Self> {
        let speed = link.bytes_per_s.0;
        let page_link_ns = match speed > 0.0 {
            true => page_bytes as f64 * 1e9 / speed,
            false => 0.0,
        };
        let times = [
            controller.command,
            controller.completion,
            link.latency,
            buffer_page,
        ];
        if page_link_ns == 0.0 && times.iter().all(|time| time.0 == 0) {
            return None;
        }
        Some(Front {
            cores_free_ns: vec![0; controller.cores as usize],
            in_free_ns: 0,
            out_free_ns: 0,
            command_ns: controller.command.0,
            completion_ns: controller.completion.0,
            latency_ns: link.latency.0,
            page_link_ns,
            page_buffer_ns: buffer_page.0,
            events: EventQueue::default(),
        })
    }

    #[inline]
    pub(super) fn next_time_ns(&self) -> Option<u64> {
        self.events.next_time()
    }

    pub(super) fn pop(&mut self) -> Option<(u64, (u32, Stage))> {
        self.events.pop()
    }

    fn core(&mut self, now_ns: u64, time_ns: u64) -> u64 {
        if time_ns == 0 {
            return now_ns;
        }
        let mut first = 0;
        for (core, free_ns) in self.cores_free_ns.iter().enumerate() {
            if *free_ns < self.cores_free_ns[first] {
                first = core;
            }
        }
        let end_ns = now_ns.max(self.cores_free_ns[first]) + time_ns;
        self.cores_free_ns[first] = end_ns;
        end_ns
    }

    /// A command comes from the host.
    pub(super) fn command(&mut self, now_ns: u64, slot: u32) {
        let at_ns = self.core(now_ns, self.command_ns);
        self.events.push_in_order(0, at_ns, (slot, Stage::Taken));
    }

    /// The data of a write go over the link.
    pub(super) fn receive(&mut self, now_ns: u64, slot: u32, pages: u32) {
        let time_ns = (self.page_link_ns * f64::from(pages)).round() as u64;
        self.in_free_ns = now_ns.max(self.in_free_ns) + time_ns;
        let at_ns = self.in_free_ns + self.latency_ns;
        self.events.push_in_order(1, at_ns, (slot, Stage::Arrived));
    }

    /// Pages go into the buffer, or out of it.
    pub(super) fn buffer(&mut self, now_ns: u64, slot: u32, pages: u32) {
        let at_ns = now_ns + self.page_buffer_ns * u64::from(pages);
        self.events.push(at_ns, 0, (slot, Stage::Buffered));
    }

    /// The data of a read go over the link.
    pub(super) fn deliver(&mut self, now_ns: u64, slot: u32, pages: u32) {
        let time_ns = (self.page_link_ns * f64::from(pages)).round() as u64;
        self.out_free_ns = now_ns.max(self.out_free_ns) + time_ns;
        let at_ns = self.out_free_ns + self.latency_ns;
        self.events
            .push_in_order(2, at_ns, (slot, Stage::Delivered));
    }

    /// The controller completes a command.
    pub(super) fn complete(&mut self, now_ns: u64, slot: u32) {
        let at_ns = self.core(now_ns, self.completion_ns);
        self.events
            .push_in_order(3, at_ns, (slot, Stage::Completed));
    }
}
