//! The schedule as one SVG without references to anything outside: CPUs above, tasks below,
//! measured bursts under the simulated ones.

use std::fmt::Write as _;

use super::gantt::{tick_step_ns, time, GanttOptions};
use super::result::{CpuResult, Occupant, Segment};
use crate::error::require;
use crate::SimError;

const ROW: usize = 26;
const BAR: usize = 18;
const TOP: usize = 44;
/// Okabe and Ito's colours, distinct for colour-blind readers; rows are labelled anyway.
const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00",
];

struct Canvas {
    out: String,
    left: f64,
    plot: f64,
    from_ns: u64,
    to_ns: u64,
}

impl Canvas {
    fn x(&self, ns: u64) -> f64 {
        let part = (ns - self.from_ns) as f64 / (self.to_ns - self.from_ns) as f64;
        self.left + self.plot * part
    }

    /// A bar from `start_ns` to `end_ns`, cut to the window, with a text for the pointer.
    fn bar(&mut self, y: usize, height: usize, start_ns: u64, end_ns: u64, style: &str, tip: &str) {
        let (start, end) = (start_ns.max(self.from_ns), end_ns.min(self.to_ns));
        if start >= end {
            return;
        }
        let (x, width) = (self.x(start), self.x(end) - self.x(start));
        let times = format!("{} to {}", time(start_ns), time(end_ns));
        let _ = writeln!(
            self.out,
            r#"<rect x="{x:.2}" y="{y}" width="{width:.2}" height="{height}" {style}>{}</rect>"#,
            format_args!("<title>{tip}: {times}</title>"),
        );
    }

    fn text(&mut self, x: f64, y: usize, anchor: &str, text: &str) {
        let _ = writeln!(
            self.out,
            r#"<text x="{x:.1}" y="{y}" text-anchor="{anchor}">{text}</text>"#,
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn colour(task: usize) -> String {
    format!(r#"fill="{}""#, COLOURS[task % COLOURS.len()])
}

/// Neighbouring segments closer than half a pixel are drawn as one: a file stays small and looks
/// the same. Gives (start, end, count).
fn merged(segments: impl Iterator<Item = (u64, u64)>, gap_ns: u64) -> Vec<(u64, u64, usize)> {
    let mut out: Vec<(u64, u64, usize)> = Vec::new();
    for (start, end) in segments {
        match out.last_mut() {
            Some(last) if start.saturating_sub(last.1) < gap_ns && start > last.1 => {
                (last.1, last.2) = (end, last.2 + 1);
            }
            _ => out.push((start, end, 1)),
        }
    }
    out
}

fn draw_axis(canvas: &mut Canvas, bottom: usize) {
    let step_ns = tick_step_ns(canvas.to_ns - canvas.from_ns);
    let mut at_ns = canvas.from_ns.div_ceil(step_ns) * step_ns;
    while at_ns <= canvas.to_ns {
        let x = canvas.x(at_ns);
        let _ = writeln!(
            canvas.out,
            r##"<line x1="{x:.1}" y1="{TOP}" x2="{x:.1}" y2="{bottom}" stroke="#ddd"/>"##,
        );
        canvas.text(x, bottom + 16, "middle", &time(at_ns));
        at_ns += step_ns;
    }
}

fn draw_cpu(canvas: &mut Canvas, result: &CpuResult, cpu: usize, y: usize) {
    canvas.text(canvas.left - 8.0, y + 14, "end", &format!("CPU {cpu}"));
    let half_pixel_ns = ((canvas.to_ns - canvas.from_ns) as f64 / canvas.plot / 2.0) as u64;
    for segment in result.segments.iter().filter(|s| s.cpu == cpu) {
        let name = |task: usize| escaped(&result.tasks[task].name);
        let Segment {
            start_ns, end_ns, ..
        } = *segment;
        match segment.occupant {
            Occupant::Idle => {}
            Occupant::Switch(_) if end_ns - start_ns < half_pixel_ns => {}
            Occupant::Switch(to) => {
                let tip = format!("switch to {}", name(to));
                canvas.bar(y, BAR, start_ns, end_ns, r##"fill="#444""##, &tip);
            }
            Occupant::Task(task) => {
                canvas.bar(y, BAR, start_ns, end_ns, &colour(task), &name(task));
            }
        }
    }
}

fn draw_task(canvas: &mut Canvas, result: &CpuResult, task: usize, y: usize) {
    let of = &result.tasks[task];
    let name = escaped(&of.name);
    canvas.text(canvas.left - 8.0, y + 14, "end", &name);
    let end_ns = of.finish_ns.unwrap_or(result.summary.makespan_ns);
    let gap_ns = ((canvas.to_ns - canvas.from_ns) as f64 / canvas.plot / 2.0) as u64;
    let in_system = format!("{name} in the system");
    canvas.bar(
        y + 8,
        2,
        of.arrival_ns,
        end_ns,
        r##"fill="#999""##,
        &in_system,
    );
    for (start, end, _) in merged(of.io.iter().copied(), gap_ns) {
        canvas.bar(
            y + 5,
            8,
            start,
            end,
            r#"fill="url(#io)""#,
            &format!("{name} I/O"),
        );
    }
    let runs = result
        .segments
        .iter()
        .filter(|s| s.occupant == Occupant::Task(task));
    for (start, end, count) in merged(runs.map(|s| (s.start_ns, s.end_ns)), gap_ns) {
        let tip = match count {
            1 => format!("{name} runs"),
            _ => format!("{name}, {count} bursts"),
        };
        canvas.bar(y, BAR, start, end, &colour(task), &tip);
    }
}

fn draw_measured(canvas: &mut Canvas, options: &GanttOptions, task: usize, y: usize) {
    canvas.text(canvas.left - 8.0, y + 10, "end", "measured");
    let of_task = options.measured.iter().filter(|burst| burst.task == task);
    let mut bursts: Vec<(u64, u64)> = of_task
        .map(|b| (b.start_ns, b.start_ns.saturating_add(b.duration_ns)))
        .collect();
    bursts.sort_unstable();
    let gap_ns = ((canvas.to_ns - canvas.from_ns) as f64 / canvas.plot / 2.0) as u64;
    let style = format!(r#"{} fill-opacity="0.45""#, colour(task));
    for (start, end, _) in merged(bursts.into_iter(), gap_ns) {
        canvas.bar(y, 12, start, end, &style, "measured");
    }
}

/// The chart as SVG, `options.width` pixels wide (at least 300).
pub fn svg(result: &CpuResult, options: &GanttOptions) -> Result<String, SimError> {
    let (from_ns, to_ns) = options.window(result)?;
    let (width, expected) = (options.width, "300 to 20000 pixels");
    require((300..=20_000).contains(&width), "width", width, expected)?;
    let longest = result.tasks.iter().map(|t| t.name.chars().count()).max();
    let left = 20.0 + 7.5 * longest.unwrap_or(0).clamp(9, 24) as f64;
    let mut canvas = Canvas {
        out: String::new(),
        left,
        plot: width as f64 - left - 30.0,
        from_ns,
        to_ns,
    };
    let with_measured = !options.measured.is_empty();
    let task_row = if with_measured { 2 * ROW - 8 } else { ROW };
    let bottom = TOP + result.cpus * ROW + 10 + result.tasks.len() * task_row;
    draw_axis(&mut canvas, bottom);
    for cpu in 0..result.cpus {
        draw_cpu(&mut canvas, result, cpu, TOP + cpu * ROW);
    }
    for task in 0..result.tasks.len() {
        let y = TOP + result.cpus * ROW + 10 + task * task_row;
        draw_task(&mut canvas, result, task, y);
        if with_measured {
            draw_measured(&mut canvas, options, task, y + BAR + 2);
        }
    }
    let title = format!(
        "{}, quantum {}, {} CPU(s): {} to {}",
        result.policy,
        time(result.quantum_effective.0),
        result.cpus,
        time(from_ns),
        time(to_ns),
    );
    let legend = "bar: runs · thin line: waits · hatched: I/O · dark: switch";
    canvas.text(10.0, 18, "start", &title);
    canvas.text(10.0, 34, "start", legend);
    let height = bottom + 26;
    Ok(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"
 width="{width}" height="{height}" role="img" font-family="sans-serif" font-size="12" fill="#111">
<title>{title}</title>
<defs><pattern id="io" width="5" height="5" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect width="5" height="5" fill="#eee"/>
<line x1="0" y1="0" x2="0" y2="5" stroke="#666" stroke-width="2"/></pattern></defs>
<rect width="{width}" height="{height}" fill="#fff"/>
{}</svg>
"##,
        canvas.out
    ))
}
