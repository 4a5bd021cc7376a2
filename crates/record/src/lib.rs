//! Records perf events of the kernel into `perf.data`, as a library.

mod capture;
pub mod clock;
pub mod describe;
mod error;
mod follow;
pub mod options;
pub mod output;
pub mod own_file;
pub mod plan;
mod recorder;
mod recording;
pub mod registers;
mod session;
pub mod synthesize;
mod warning;

pub use error::{FilterError, InheritOption, NotFollowed, NotTaken, PlanError, RecordError};
pub use follow::Following;
pub use options::Options;
pub use recorder::{Recorder, Start};
pub use recording::{Finished, Recording, State, Status, Stopped};
pub use session::{Backend, CostOfSample};
pub use warning::{Feature, FinishedFile, Notice, Warning};
