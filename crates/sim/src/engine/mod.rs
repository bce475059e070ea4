//! The engine: the loop that joins source, command window and device, and what it measures.

mod measure;
mod run;
mod steady;

pub use measure::{Logged, Measures, Report, Response, WarmUp};
pub use run::{Simulation, SteppedDevice};
pub use steady::{Interval, Stationarity, Steady};

pub use crate::window::{Aging, Command, Window};
