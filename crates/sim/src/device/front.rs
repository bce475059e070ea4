//! The parts between the host and the flash of an SSD: controller cores, the link with a direction
//! each way, and the time of a page in the buffer.
//!
//! Stations are first come first served and their times are known on arrival, so that each needs
//! no queue but the time at which it is free.

use schedlab_model::Nanos;

use crate::events::EventQueue;
use crate::spec::{ControllerSpec, LinkSpec};

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
