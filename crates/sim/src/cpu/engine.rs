//! The engine: time, tasks and CPUs. It knows no policy; see `policy/mod.rs` for what it asks one.

use super::policy::{self, Policy, Ready, System, TaskState};
use super::result::{CpuResult, Occupant, Segment, Summary, TaskResult};
use super::task::{check, Settings, Task};
use crate::events::EventQueue;
use crate::{SimError, Stop};

/// Steps between two checks of the stop flag.
const STEPS_PER_POLL: u64 = 4096;

/// An event of a task at a given time.
enum Event {
    /// The task enters the system.
    Arrive(usize),
    /// The task's I/O is done.
    Wake(usize),
    /// The policy's own timer.
    Tick,
}

impl Event {
    /// Order of the events of one instant: the tie rule.
    fn priority(&self) -> u8 {
        match self {
            Event::Arrive(_) => 0,
            Event::Wake(_) => 1,
            Event::Tick => 2,
        }
    }
}

/// One CPU. A task that is switched to makes progress from `progress_from_ns` on.
#[derive(Default)]
struct Cpu {
    task: Option<usize>,
    progress_from_ns: u64,
    settled_ns: u64,
    timer_ns: u64,
    /// Whose segment is open; unlike `task` still there while the CPU is being given away.
    occupant: Option<usize>,
    occupied_since_ns: u64,
    /// The last task that was switched to.
    last: Option<usize>,
    /// Whether `occupant` lost the CPU against its will.
    involuntary: bool,
}

/// The engine's notes about a task beside its [`TaskState`].
#[derive(Default)]
struct Progress {
    /// Index into `Task::bursts`.
    burst: usize,
    io_started_ns: Option<u64>,
    cpu_ns: u64,
    io_ns: u64,
    first_run_ns: Option<u64>,
    finish_ns: Option<u64>,
    longest_wait_ns: u64,
    bursts: u64,
    involuntary: u64,
    last_cpu: Option<usize>,
    io: Vec<(u64, u64)>,
}

struct Engine<'a> {
    specs: &'a [Task],
    settings: &'a Settings,
    policy: Box<dyn Policy>,
    system: System,
    progress: Vec<Progress>,
    cpus: Vec<Cpu>,
    events: EventQueue<Event>,
    unfinished: usize,
    switches: u64,
    switch_ns: u64,
    segments: Vec<Segment>,
    segments_dropped: u64,
}

/// The schedule of `tasks` under `settings`; [`SimError::Stopped`] once `stop` is set.
pub fn simulate(tasks: &[Task], settings: &Settings, stop: &Stop) -> Result<CpuResult, SimError> {
    let (.., build) = policy::find(&settings.policy)?;
    check(tasks, settings)?;
    let mut engine = Engine::new(tasks, settings, build(settings));
    engine.run(stop)?;
    Ok(engine.finish())
}

impl<'a> Engine<'a> {
    fn new(specs: &'a [Task], settings: &'a Settings, policy: Box<dyn Policy>) -> Self {
        let state = |task: &Task| TaskState {
            arrival_ns: task.arrival.0,
            priority: task.priority,
            weight: task.effective_weight(),
            slice_ns: task.slice.map(|slice| slice.0),
            ..TaskState::default()
        };
        let mut events: EventQueue<Event> = EventQueue::default();
        for (i, task) in specs.iter().enumerate() {
            push(&mut events, task.arrival.0, Event::Arrive(i));
        }
        if let Some(period_ns) = policy.period_ns() {
            push(&mut events, period_ns, Event::Tick);
        }
        Engine {
            specs,
            settings,
            policy,
            system: System {
                now_ns: 0,
                tasks: specs.iter().map(state).collect(),
            },
            progress: specs.iter().map(|_| Progress::default()).collect(),
            cpus: (0..settings.cpus).map(|_| Cpu::default()).collect(),
            events,
            unfinished: specs.len(),
            switches: 0,
            switch_ns: 0,
            segments: Vec::new(),
            segments_dropped: 0,
        }
    }

    fn run(&mut self, stop: &Stop) -> Result<(), SimError> {
        let until_ns = self.settings.until.map_or(u64::MAX, |until| until.0);
        let mut steps = 0u64;
        while self.unfinished > 0 {
            steps += 1;
            if steps % STEPS_PER_POLL == 0 && stop.is_set() {
                return Err(SimError::Stopped);
            }
            let busy = self.cpus.iter().filter(|cpu| cpu.task.is_some());
            let timer_ns = busy.map(|cpu| cpu.timer_ns).min();
            let next_ns = timer_ns.into_iter().chain(self.events.next_time()).min();
            // With unfinished tasks there is always an event or a busy CPU.
            let now_ns = next_ns.unwrap_or(until_ns).min(until_ns);
            self.system.now_ns = now_ns;
            self.settle();
            if now_ns == until_ns {
                self.end_last_bursts();
                break;
            }
            while self.events.next_time() == Some(now_ns) {
                if let Some((_, event)) = self.events.pop() {
                    self.happen(event);
                }
            }
            for cpu in 0..self.cpus.len() {
                self.end_of_burst_or_slice(cpu);
            }
            self.fill();
            self.preempt();
            self.set_timers();
        }
        Ok(())
    }

    /// Charges all running tasks up to now.
    fn settle(&mut self) {
        let now_ns = self.system.now_ns;
        for cpu in &mut self.cpus {
            let from_ns = cpu.settled_ns.max(cpu.progress_from_ns);
            cpu.settled_ns = now_ns;
            let (Some(task), Some(ran_ns)) = (cpu.task, now_ns.checked_sub(from_ns)) else {
                continue;
            };
            if ran_ns == 0 {
                continue;
            }
            let (state, progress) = (&mut self.system.tasks[task], &mut self.progress[task]);
            if state.since_pick_ns == 0 {
                let waited_ns = from_ns - state.ready_since_ns;
                progress.longest_wait_ns = progress.longest_wait_ns.max(waited_ns);
                progress.first_run_ns.get_or_insert(from_ns);
            }
            state.remaining_ns -= ran_ns;
            state.since_pick_ns += ran_ns;
            progress.cpu_ns += ran_ns;
            self.policy.ran(&self.system, task, ran_ns);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive(task) => self.ready_with_burst(task, Ready::Arrived),
            Event::Wake(task) => {
                let progress = &mut self.progress[task];
                if let Some(started_ns) = progress.io_started_ns.take() {
                    progress.io_ns += self.system.now_ns - started_ns;
                    progress.io.push((started_ns, self.system.now_ns));
                }
                progress.burst += 2;
                self.ready_with_burst(task, Ready::Woken);
            }
            Event::Tick => {
                self.policy.tick(&self.system);
                if let Some(period_ns) = self.policy.period_ns() {
                    let at_ns = self.system.now_ns + period_ns;
                    push(&mut self.events, at_ns, Event::Tick);
                }
            }
        }
    }

    fn ready_with_burst(&mut self, task: usize, why: Ready) {
        let burst = self.progress[task].burst;
        self.system.tasks[task].remaining_ns = self.specs[task].bursts[burst].0;
        self.ready(task, why);
    }

    fn ready(&mut self, task: usize, why: Ready) {
        self.system.tasks[task].ready_since_ns = self.system.now_ns;
        self.policy.ready(&self.system, task, why);
    }

    /// Frees the CPU if its task's burst or slice ends now.
    fn end_of_burst_or_slice(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].task else {
            return;
        };
        if self.cpus[cpu].progress_from_ns > self.system.now_ns {
            return;
        }
        if self.system.tasks[task].remaining_ns == 0 {
            self.cpus[cpu].task = None;
            self.system.tasks[task].has_ended = self.is_last_burst(task);
            self.policy.gone(&self.system, task);
            self.block_or_end(task);
        } else if self.policy.slice_left_ns(&self.system, task) == Some(0) {
            self.take_away(cpu, task, Ready::Expired);
        }
    }

    /// The time limit: whose last burst ends now has ended; nothing else begins.
    fn end_last_bursts(&mut self) {
        for task in self.cpus.iter().filter_map(|cpu| cpu.task) {
            if self.system.tasks[task].remaining_ns == 0 && self.is_last_burst(task) {
                self.progress[task].finish_ns = Some(self.system.now_ns);
            }
        }
    }

    fn is_last_burst(&self, task: usize) -> bool {
        self.progress[task].burst + 1 == self.specs[task].bursts.len()
    }

    fn block_or_end(&mut self, task: usize) {
        let now_ns = self.system.now_ns;
        let progress = &mut self.progress[task];
        match self.specs[task].bursts.get(progress.burst + 1) {
            Some(io) => {
                progress.io_started_ns = Some(now_ns);
                push(&mut self.events, now_ns + io.0, Event::Wake(task));
            }
            None => {
                progress.finish_ns = Some(now_ns);
                self.unfinished -= 1;
            }
        }
    }

    /// Frees `cpu` although `task` wants to keep running.
    fn take_away(&mut self, cpu: usize, task: usize, why: Ready) {
        self.cpus[cpu].task = None;
        self.cpus[cpu].involuntary = true;
        self.ready(task, why);
    }

    /// Gives waiting tasks to free CPUs: a task goes back to the CPU where it last ran if that is
    /// among the free ones, the others go to the lowest free CPU.
    fn fill(&mut self) {
        let is_free = |cpu: &usize| self.cpus[*cpu].task.is_none();
        let mut free: Vec<usize> = (0..self.cpus.len()).filter(is_free).collect();
        let free_count = free.len();
        let picked: Vec<usize> = (0..free_count)
            .map_while(|_| self.policy.pick(&self.system))
            .collect();
        let mut homeless = Vec::new();
        for task in picked {
            let home = self.progress[task].last_cpu;
            match free.iter().position(|cpu| home == Some(*cpu)) {
                Some(at) => self.start(free.remove(at), task),
                None => homeless.push(task),
            }
        }
        let left = free.split_off(homeless.len());
        for (cpu, task) in free.into_iter().zip(homeless) {
            self.start(cpu, task);
        }
        for cpu in left {
            if self.cpus[cpu].occupant.is_some() {
                self.close_segment(cpu);
                self.cpus[cpu].occupant = None;
            }
        }
    }

    /// Lets waiting tasks take CPUs from running ones, as long as the policy names a victim.
    fn preempt(&mut self) {
        if self.cpus.iter().any(|cpu| cpu.task.is_none()) {
            return;
        }
        for _ in 0..self.cpus.len() {
            let running: Vec<usize> = self.cpus.iter().filter_map(|cpu| cpu.task).collect();
            let Some(cpu) = self.policy.victim(&self.system, &running) else {
                return;
            };
            self.take_away(cpu, running[cpu], Ready::Preempted);
            self.fill();
        }
    }

    /// Lets `task` run on the free `cpu`. A task that is picked again where it just ran continues
    /// without a switch, and its segment with it.
    fn start(&mut self, cpu: usize, task: usize) {
        let now_ns = self.system.now_ns;
        self.system.tasks[task].since_pick_ns = 0;
        if self.cpus[cpu].occupant == Some(task) {
            self.cpus[cpu].task = Some(task);
            self.cpus[cpu].involuntary = false;
            return;
        }
        self.close_segment(cpu);
        let slot = &mut self.cpus[cpu];
        let is_switch = slot.last.is_some_and(|last| last != task);
        let cost_ns = if is_switch {
            self.settings.switch_cost.0
        } else {
            0
        };
        (slot.task, slot.occupant, slot.last) = (Some(task), Some(task), Some(task));
        slot.progress_from_ns = now_ns + cost_ns;
        self.switches += u64::from(is_switch);
        self.progress[task].bursts += 1;
        self.progress[task].last_cpu = Some(cpu);
    }

    /// Notes what `cpu` did since its occupant came; the next one comes now.
    fn close_segment(&mut self, cpu: usize) {
        let now_ns = self.system.now_ns;
        let slot = &mut self.cpus[cpu];
        let start_ns = std::mem::replace(&mut slot.occupied_since_ns, now_ns);
        let involuntary = std::mem::take(&mut slot.involuntary);
        let Some(task) = slot.occupant else {
            return self.keep(cpu, Occupant::Idle, start_ns, now_ns);
        };
        let run_ns = slot.progress_from_ns.min(now_ns);
        self.progress[task].involuntary += u64::from(involuntary);
        self.switch_ns += run_ns - start_ns;
        self.keep(cpu, Occupant::Switch(task), start_ns, run_ns);
        self.keep(cpu, Occupant::Task(task), run_ns, now_ns);
    }

    fn keep(&mut self, cpu: usize, occupant: Occupant, start_ns: u64, end_ns: u64) {
        if start_ns == end_ns {
            return;
        }
        if self.segments.len() >= self.settings.max_segments {
            self.segments_dropped += 1;
            return;
        }
        self.segments.push(Segment {
            cpu,
            occupant,
            start_ns,
            end_ns,
        });
    }

    fn set_timers(&mut self) {
        let now_ns = self.system.now_ns;
        for cpu in 0..self.cpus.len() {
            let Some(task) = self.cpus[cpu].task else {
                continue;
            };
            let remaining_ns = self.system.tasks[task].remaining_ns;
            let from_ns = self.cpus[cpu].progress_from_ns.max(now_ns);
            // Ticks are counted from where it makes progress.
            self.system.now_ns = from_ns;
            let slice_ns = self.policy.slice_left_ns(&self.system, task);
            self.cpus[cpu].timer_ns =
                from_ns + slice_ns.map_or(remaining_ns, |s| s.min(remaining_ns));
        }
        self.system.now_ns = now_ns;
    }

    fn finish(mut self) -> CpuResult {
        for cpu in 0..self.cpus.len() {
            self.close_segment(cpu);
        }
        let mut segments = std::mem::take(&mut self.segments);
        segments.sort_by_key(|segment| (segment.start_ns, segment.cpu));
        let tasks: Vec<TaskResult> = (0..self.specs.len()).map(|t| self.task_result(t)).collect();
        CpuResult {
            policy: self.settings.policy.clone(),
            quantum_requested: self.settings.quantum,
            quantum_effective: self.settings.effective_quantum(),
            cpus: self.settings.cpus,
            summary: self.summary(&tasks),
            tasks,
            segments,
            segments_dropped: self.segments_dropped,
        }
    }

    fn task_result(&mut self, task: usize) -> TaskResult {
        let now_ns = self.system.now_ns;
        let arrival_ns = self.specs[task].arrival.0;
        let progress = &mut self.progress[task];
        if let Some(started_ns) = progress.io_started_ns.take() {
            progress.io_ns += now_ns - started_ns;
            progress.io.push((started_ns, now_ns));
        }
        let end_ns = progress.finish_ns.unwrap_or(now_ns.max(arrival_ns));
        let counts = |calculation_ns: f64| (progress.cpu_ns as f64 / calculation_ns) as u64;
        TaskResult {
            name: self.specs[task].name.clone(),
            arrival_ns,
            finish_ns: progress.finish_ns,
            turnaround_ns: progress.finish_ns.map(|finish_ns| finish_ns - arrival_ns),
            waiting_ns: end_ns - arrival_ns - progress.cpu_ns - progress.io_ns,
            response_ns: progress.first_run_ns.map(|first_ns| first_ns - arrival_ns),
            longest_wait_ns: progress.longest_wait_ns,
            cpu_ns: progress.cpu_ns,
            io_ns: progress.io_ns,
            bursts: progress.bursts,
            involuntary_switches: progress.involuntary,
            calculations: self.settings.calculation_ns.map(counts),
            io: std::mem::take(&mut progress.io),
        }
    }

    fn summary(&self, tasks: &[TaskResult]) -> Summary {
        let makespan_ns = self.system.now_ns;
        let capacity_ns = (makespan_ns as f64 * self.cpus.len() as f64).max(1.0);
        let cpu_ns: u64 = tasks.iter().map(|task| task.cpu_ns).sum();
        let rates = tasks.iter().enumerate().filter_map(|(i, task)| {
            let wanted_ns = task.cpu_ns + task.waiting_ns;
            let share = task.cpu_ns as f64 / wanted_ns as f64;
            (wanted_ns > 0).then(|| share / self.system.tasks[i].weight as f64)
        });
        let ended = tasks.iter().filter(|task| task.finish_ns.is_some()).count();
        Summary {
            makespan_ns,
            turnaround_ns_mean: mean(tasks.iter().filter_map(|task| task.turnaround_ns)),
            waiting_ns_mean: mean(tasks.iter().map(|task| task.waiting_ns)).unwrap_or(0.0),
            response_ns_mean: mean(tasks.iter().filter_map(|task| task.response_ns)),
            utilisation: cpu_ns as f64 / capacity_ns,
            switch_share: self.switch_ns as f64 / capacity_ns,
            switches: self.switches,
            throughput_per_s: ended as f64 / (makespan_ns as f64 / 1e9).max(1e-9),
            fairness_jain: jain(rates),
        }
    }
}

fn push(events: &mut EventQueue<Event>, time_ns: u64, event: Event) {
    events.push(time_ns, event.priority(), event);
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (sum, count) = values.fold((0u128, 0u64), |(s, n), v| (s + u128::from(v), n + 1));
    (count > 0).then(|| sum as f64 / count as f64)
}

/// Jain's index (Jain, Chiu and Hawe, 1984) of non-negative values; 1 when all are zero.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        values.fold((0.0, 0.0, 0.0), |(n, s, q), v| (n + 1.0, s + v, q + v * v));
    if squares > 0.0 {
        sum * sum / (n * squares)
    } else {
        1.0
    }
}
