//! The host's queues behind the command window: each has an equal part of the address range, and
//! the device fetches from them in turn.

use std::collections::VecDeque;

use super::Command;

/// The queues of the host.
pub struct HostQueues {
    queues: Vec<VecDeque<Command>>,
    waiting: usize,
    /// Which queue has the turn.
    turn: usize,
}

impl HostQueues {
    /// `count` queues.
    pub fn new(count: u32) -> Self {
        HostQueues {
            queues: vec![VecDeque::new(); count as usize],
            waiting: 0,
            turn: 0,
        }
    }

    /// Requests that wait.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// A request to a device of `pages` pages waits in its queue.
    pub fn push(&mut self, command: Command, pages: u32) {
        let each = pages.div_ceil(self.queues.len() as u32);
        self.queues[(command.first_page / each) as usize].push_back(command);
        self.waiting += 1;
    }

    /// The device fetches a command from the next queue that has one.
    pub fn pop(&mut self) -> Option<Command> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        loop {
            let command = self.queues[self.turn].pop_front();
            self.turn = (self.turn + 1) % self.queues.len();
            if command.is_some() {
                return command;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_take_turns_and_empty_ones_have_none() {
        let mut queues = HostQueues::new(3);
        for first_page in [0, 1, 2, 3, 4, 20, 21, 22] {
            let command = Command {
                first_page,
                ..Command::default()
            };
            queues.push(command, 30);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queues.pop())
            .map(|command| command.first_page)
            .collect();
        assert_eq!(
            (order, queues.waiting()),
            (vec![0, 20, 1, 21, 2, 22, 3, 4], 0)
        );
    }
}
