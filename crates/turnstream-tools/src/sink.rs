//! [`CheckpointSink`]: where a run writes itself down while it goes on.

use std::{error::Error as StdError, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt;

use crate::checkpoint::Checkpoint;

/// Where a run writes itself down while it goes on, so that it can be [resumed](crate::ToolLoop::resume) after
/// its process was killed: a file, a row in a database. See [`checkpoints`](crate::ToolLoop::checkpoints).
///
/// It is given a checkpoint when a turn has ended, **before handlers start**, after each has ended, when a call is
/// decided, and when the run ends or waits. Nothing goes on before it has been saved: no handler starts and
/// nothing more is read, while handlers that run already go on. Each one replaces the one before it.
///
/// | killed | what the last checkpoint says | once resumed |
/// |---|---|---|
/// | before the handler's checkpoint was saved | the call has not started | it runs |
/// | between that and the end of the handler | the call was interrupted | it runs again if its tool is [`idempotent`](crate::Tool::idempotent), else the run waits for a [decision](crate::WaitingFor::Decision) |
/// | after the handler's end, before that was saved | the same | the same |
/// | after that was saved | the call has its result | it never runs again |
///
/// Exactly once cannot be had across a kill: between a handler's effect and the word of it there is always a
/// moment. An idempotent tool passes its call's [id](crate::CallContext::id) on as the key by which the other side
/// knows a repetition.
///
/// A checkpoint that cannot be saved ends the run with
/// [`ErrorKind::Checkpoint`](turnstream_core::ErrorKind::Checkpoint) before anything else is done; if the run had
/// ended already, its outcome says so in [`unsaved`](crate::Outcome::unsaved).
///
/// ```
/// use std::{error::Error, path::PathBuf};
/// use turnstream_tools::{Checkpoint, CheckpointSink};
///
/// struct File(PathBuf);
///
/// impl CheckpointSink for File {
///     async fn save(&self, checkpoint: Checkpoint) -> Result<(), Box<dyn Error + Send + Sync>> {
///         let (path, written) = (self.0.clone(), self.0.with_extension("new"));
///         tokio::task::spawn_blocking(move || {
///             // Renamed when it is whole: half a checkpoint is none.
///             std::fs::write(&written, serde_json::to_vec(&checkpoint)?)?;
///             Ok(std::fs::rename(&written, &path)?)
///         })
///         .await?
///     }
/// }
/// # let _ = File("run.json".into());
/// ```
pub trait CheckpointSink: Send + Sync + 'static {
    /// Saves a checkpoint, durably, in the place of the one before it. The run waits for it.
    ///
    /// # Errors
    ///
    /// When it could not be saved.
    fn save(
        &self,
        checkpoint: Checkpoint,
    ) -> impl Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send;
}

/// A sink whose type has been forgotten.
pub(crate) trait AnySink: Send + Sync {
    fn save(self: Arc<Self>, checkpoint: Checkpoint) -> Saving;
}

/// A checkpoint on its way.
pub(crate) type Saving = Pin<Box<dyn Future<Output = Result<(), Box<dyn StdError + Send + Sync>>> + Send>>;

impl<S: CheckpointSink> AnySink for S {
    fn save(self: Arc<Self>, checkpoint: Checkpoint) -> Saving {
        Box::pin(async move {
            let saved = AssertUnwindSafe(CheckpointSink::save(&*self, checkpoint)).catch_unwind().await;
            saved.unwrap_or_else(|_| Err("the sink panicked".into()))
        })
    }
}
