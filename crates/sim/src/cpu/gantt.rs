//! The schedule as text: one line per CPU and per task, at most as wide as requested.

use serde::{Deserialize, Serialize};

use super::result::{CpuResult, Occupant, Segment, TaskResult};
use crate::error::require;
use crate::SimError;

/// A burst that was measured, to be drawn beside the simulated schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// Index of the task whose row it belongs to.
    pub task: usize,
    /// Start in the simulation's time.
    pub start_ns: u64,
    /// Length.
    pub duration_ns: u64,
}

/// How a schedule is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GanttOptions {
    /// Columns of text, or pixels.
    pub width: usize,
    /// Start of the drawn window.
    pub from_ns: u64,
    /// Its end; the end of the schedule when missing.
    pub to_ns: Option<u64>,
    /// Measured bursts, drawn on a separate line below each task.
    pub measured: Vec<Burst>,
}

impl Default for GanttOptions {
    fn default() -> Self {
        GanttOptions {
            width: 80,
            from_ns: 0,
            to_ns: None,
            measured: Vec::new(),
        }
    }
}

impl GanttOptions {
    /// The drawn window, or an error naming the key that makes it empty.
    pub(super) fn window(&self, result: &CpuResult) -> Result<(u64, u64), SimError> {
        let end_ns = result.summary.makespan_ns.max(1);
        let to_ns = self.to_ns.unwrap_or(end_ns);
        let expected = format!("less than the end of the window, {to_ns} ns");
        require(self.from_ns < to_ns, "from", self.from_ns, expected)?;
        let tasks = result.tasks.len();
        for burst in &self.measured {
            let expected = format!("the index of one of {tasks} tasks");
            require(burst.task < tasks, "measured task", burst.task, expected)?;
        }
        Ok((self.from_ns, to_ns))
    }
}

/// A stretch of a row with its sign.
type Stretch = (u64, u64, char);

/// Where text columns begin in time: column c covers [edge(c), edge(c + 1)).
struct Scale {
    from_ns: u64,
    to_ns: u64,
    columns: usize,
    is_exact: bool,
}

impl Scale {
    /// As many columns as fit; where all edges of segments fall on a grid coarse enough, a whole
    /// number of columns per grid step, so that the chart is exact.
    fn new(result: &CpuResult, from_ns: u64, to_ns: u64, width: usize) -> Self {
        let edges = result.segments.iter().map(|s| s.start_ns);
        let edges = edges.chain(result.tasks.iter().map(|task| task.arrival_ns));
        let inside = edges.filter(|edge| (from_ns..to_ns).contains(edge));
        let grid_ns = inside.fold(to_ns - from_ns, |grid, edge| gcd(grid, edge - from_ns));
        let steps = (to_ns - from_ns) / grid_ns;
        let per_step = (width as u64 / steps).min(8);
        Scale {
            from_ns,
            to_ns,
            columns: if per_step > 0 {
                (steps * per_step) as usize
            } else {
                width
            },
            is_exact: per_step > 0,
        }
    }

    fn edge_ns(&self, column: usize) -> u64 {
        let span = u128::from(self.to_ns - self.from_ns);
        self.from_ns + (span * column as u128 / self.columns as u128) as u64
    }

    fn column_at(&self, time_ns: u64) -> usize {
        let span = u128::from(self.to_ns - self.from_ns);
        (u128::from(time_ns - self.from_ns) * self.columns as u128 / span) as usize
    }

    /// The row of these stretches: in each column the sign that covers most of it, but + where a
    /// task runs for the smaller part of it.
    fn row(&self, stretches: &[Stretch]) -> String {
        let mut cover = vec![Vec::<(char, u64)>::new(); self.columns];
        for &(start_ns, end_ns, sign) in stretches {
            let (start_ns, end_ns) = (start_ns.max(self.from_ns), end_ns.min(self.to_ns));
            if start_ns >= end_ns {
                continue;
            }
            // Rounded edges can lie one column off.
            let first = self.column_at(start_ns).saturating_sub(1);
            let last = (self.column_at(end_ns - 1) + 1).min(self.columns - 1);
            for (column, signs) in cover.iter_mut().enumerate().take(last + 1).skip(first) {
                let (low, high) = (self.edge_ns(column), self.edge_ns(column + 1));
                let covered_ns = end_ns.min(high).saturating_sub(start_ns.max(low));
                match signs.iter_mut().find(|(known, _)| *known == sign) {
                    Some((_, sum_ns)) => *sum_ns += covered_ns,
                    None => signs.push((sign, covered_ns)),
                }
            }
        }
        let dominant = |signs: &Vec<(char, u64)>| {
            let covering = signs.iter().filter(|(_, covered_ns)| *covered_ns > 0);
            let best = covering.clone().max_by_key(|(_, covered_ns)| *covered_ns);
            match best {
                None => ' ',
                Some(('#', _)) => '#',
                Some(_) if covering.clone().any(|(sign, _)| *sign == '#') => '+',
                Some((sign, _)) => *sign,
            }
        };
        cover.iter().map(dominant).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// A time in its natural unit.
pub(super) fn time(ns: u64) -> String {
    let (factor, unit) = match ns {
        0 => return "0".into(),
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        1_000.. => (1e3, "us"),
        _ => (1.0, "ns"),
    };
    let digits = format!("{:.3}", ns as f64 / factor);
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits} {unit}")
}

/// What a task does over time: arrives, waits, runs, does I/O, ends.
fn task_stretches(result: &CpuResult, task: usize) -> Vec<Stretch> {
    let of = &result.tasks[task];
    let end_ns = of.finish_ns.unwrap_or(result.summary.makespan_ns);
    let runs = |segment: &&Segment| segment.occupant == Occupant::Task(task);
    let mut busy: Vec<Stretch> = result
        .segments
        .iter()
        .filter(runs)
        .map(|s| (s.start_ns, s.end_ns, '#'))
        .chain(of.io.iter().map(|(start, end)| (*start, *end, '~')))
        .collect();
    busy.sort_unstable();
    let mut stretches = Vec::with_capacity(2 * busy.len() + 1);
    let mut reached_ns = of.arrival_ns;
    for (start_ns, stop_ns, sign) in busy {
        stretches.push((reached_ns, start_ns, '.'));
        stretches.push((start_ns, stop_ns, sign));
        reached_ns = stop_ns;
    }
    stretches.push((reached_ns, end_ns, '.'));
    stretches
}

/// One sign per task for the lines of the CPUs: its number in base 36.
fn sign_of(task: usize) -> char {
    char::from_digit(task as u32 + 1, 36).map_or('?', |sign| sign.to_ascii_uppercase())
}

/// What a CPU does over time, by the signs of the tasks.
fn cpu_stretches(result: &CpuResult, cpu: usize, signs: &[char]) -> Vec<Stretch> {
    let sign = |occupant: Occupant| match occupant {
        Occupant::Task(task) => signs[task],
        Occupant::Switch(_) => 'x',
        Occupant::Idle => '-',
    };
    let on_cpu = result.segments.iter().filter(|s| s.cpu == cpu);
    on_cpu
        .map(|s| (s.start_ns, s.end_ns, sign(s.occupant)))
        .collect()
}

/// First letters where these are distinct, numbers otherwise.
fn signs(result: &CpuResult) -> Vec<char> {
    let letters: Option<Vec<char>> = result
        .tasks
        .iter()
        .map(|task| task.name.chars().next().filter(|c| c.is_alphanumeric()))
        .collect();
    let mut used_letters = std::collections::HashSet::new();
    letters
        .filter(|all| all.iter().all(|c| *c != 'x' && used_letters.insert(*c)))
        .unwrap_or_else(|| (0..result.tasks.len()).map(sign_of).collect())
}

/// A step of 1, 2 or 5 times a power of ten that cuts `span_ns` into at most ten.
pub(super) fn tick_step_ns(span_ns: u64) -> u64 {
    let mut step_ns = 1;
    for factor in [2, 5, 10].iter().cycle() {
        if span_ns / step_ns <= 10 {
            break;
        }
        step_ns = 10u64.pow(step_ns.ilog10()) * factor;
    }
    step_ns
}

/// The times under the chart, each at its column, as many as fit without touching: those at which
/// something changes where the chart is exact, else round ones.
fn axis(result: &CpuResult, scale: &Scale, indent: usize) -> String {
    let (from_ns, to_ns) = (scale.from_ns, scale.to_ns);
    let mut times: Vec<u64> = if scale.is_exact {
        result.segments.iter().map(|s| s.start_ns).collect()
    } else {
        let step_ns = tick_step_ns(to_ns - from_ns);
        let first = from_ns.div_ceil(step_ns);
        (first..=to_ns / step_ns).map(|i| i * step_ns).collect()
    };
    times.extend([from_ns, to_ns]);
    times.retain(|t| (from_ns..=to_ns).contains(t));
    times.sort_unstable();
    times.dedup();
    let unit_ns = if scale.to_ns >= 10_000_000_000 {
        1e9
    } else {
        1e6
    };
    let label = |ns: u64| format!("{}", (ns as f64 / unit_ns * 1e3).round() / 1e3);
    let end = label(scale.to_ns);
    let end_at = indent + scale.columns;
    let mut line = String::new();
    for ns in times {
        let (text, at) = (label(ns), indent + scale.column_at(ns));
        let is_end = ns == scale.to_ns;
        let touches = line.len() >= at && !line.is_empty();
        let in_the_way = !is_end && at + text.len() >= end_at;
        if touches || in_the_way {
            continue;
        }
        line.push_str(&" ".repeat(at - line.len()));
        line.push_str(&text);
    }
    if line.len() <= end_at {
        line = format!("{line:<end_at$}{end}");
    }
    format!("{line} {}", if unit_ns > 1e6 { "s" } else { "ms" })
}

/// The chart as text of at most `options.width` columns (at least 40).
pub fn text(result: &CpuResult, options: &GanttOptions) -> Result<String, SimError> {
    let (from_ns, to_ns) = options.window(result)?;
    let expected = "40 to 10000 columns";
    require(
        (40..=10_000).contains(&options.width),
        "width",
        options.width,
        expected,
    )?;
    let signs = signs(result);
    let label = |(task, sign): (&TaskResult, &char)| {
        let is_first_letter = task.name.starts_with(*sign);
        let full = match is_first_letter {
            true => task.name.clone(),
            false => format!("{sign} {}", task.name),
        };
        full.chars().take(16).collect::<String>()
    };
    let labels: Vec<String> = result.tasks.iter().zip(&signs).map(label).collect();
    let lengths = labels.iter().map(|label| label.chars().count());
    let label_width = lengths.max().unwrap_or(0).max(6);
    // The label, two bars, and room for the last time of the axis.
    let columns = options.width - label_width - 3 - 12;
    let scale = Scale::new(result, from_ns, to_ns, columns);
    let line = |label: &str, row: String| format!("{label:<label_width$} |{row}|\n");
    let mut out = String::new();
    for cpu in 0..result.cpus {
        let row = scale.row(&cpu_stretches(result, cpu, &signs));
        out += &line(&format!("CPU {cpu}"), row);
    }
    for (i, label) in labels.iter().enumerate() {
        out += &line(label, scale.row(&task_stretches(result, i)));
        let measured = options.measured.iter().filter(|burst| burst.task == i);
        let bursts: Vec<Stretch> = measured
            .map(|b| (b.start_ns, b.start_ns.saturating_add(b.duration_ns), '='))
            .collect();
        if !options.measured.is_empty() {
            out += &line("", scale.row(&bursts));
        }
    }
    out += &axis(result, &scale, label_width + 2);
    let step_ns = (to_ns - from_ns) / scale.columns as u64;
    out += &format!(
        "\n# runs  + runs partly  . waits  ~ I/O  - idle  x switch  (column: {})",
        time(step_ns)
    );
    if !options.measured.is_empty() {
        out += "  = measured";
    }
    out.push('\n');
    Ok(out)
}
