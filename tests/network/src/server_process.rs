//! [`ServerProcess`]: the server in a process of its own, so that each side has its own descriptors and figures.

use std::{env, process::Stdio};

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::origin::Counts;

/// This program, started once more as the server. It is ended when this is dropped, and ends by itself when its
/// input does.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl ServerProcess {
    /// Starts the program with the one argument `serve`.
    ///
    /// # Errors
    ///
    /// When it does not start, or says no port.
    pub async fn start() -> anyhow::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("the server has an input")?;
        let output = child.stdout.take().context("the server has an output")?;
        let mut output = BufReader::new(output).lines();
        let port = output.next_line().await?.context("the server says its port")?.parse()?;
        Ok(Self { child, input, output, port })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Says something to it, and waits for its counts.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub async fn ask(&mut self, command: &str) -> anyhow::Result<Counts> {
        self.input.write_all(format!("{command}\n").as_bytes()).await?;
        self.input.flush().await?;
        let line = self.output.next_line().await?.context("the server is gone")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When it does not end well.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        let status = child.wait().await?;
        anyhow::ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}
