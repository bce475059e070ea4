//! The engine: events, the command window, the loop that joins them, and what it measures.

mod events;
mod measure;
mod run;
mod steady;
mod window;

pub use events::EventQueue;
pub use measure::{Logged, Measures, Report, Response, WarmUp};
pub use run::{Simulation, SteppedDevice};
pub use steady::{Interval, Stationarity, Steady};
pub use window::{Aging, Command, Window};
