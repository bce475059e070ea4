//! The engine: events, the command window, the loop that joins them, and what it measures.

mod events;
mod measure;
mod run;
mod window;

pub use events::EventQueue;
pub use measure::{Logged, Measures, Report, Response};
pub use run::{Simulation, SteppedDevice, Stop};
pub use window::{Aging, Command, Window};
